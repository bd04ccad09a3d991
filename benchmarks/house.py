"""What a checkout's package looks like: its size, its rooms, the arrows between them and its longest functions.

    python benchmarks/house.py                # this checkout
    python benchmarks/house.py ../before .    # two, side by side

A room is a folder or a module at the package's top level. An arrow is one room that imports another, however many of
its files do so; imports inside functions count ("lazy"), as do the texts by which a `Method(...)` names
its two sides, and imports for type checkers only ("typing"). Modules that are loaded by a name put together, as
methods are, draw no arrow, nor does `from fedballot import __version__`. Arrows up are the
fewest that have to go so that all others run down; floors are the rooms on the longest way down along those others.
`tests/test_house.py` holds the rules with the functions of this file.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["plain", "lazy", "typing"]
Graph = Mapping[str, set[str]]
Arrow = tuple[str, str]

LONG = 300  # lines: a file above is listed
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Import:
    """One imported module: `source` imports `target` at a line of a file (relative to the package's parent)."""

    source: str
    target: str
    path: Path
    line: int
    kind: Kind

    def __str__(self) -> str:
        kind = "" if self.kind == "plain" else f" ({self.kind})"
        return f"{self.path}:{self.line}: {self.source} -> {self.target}{kind}"


@dataclass(frozen=True)
class Function:
    """A function or method, with its decorators left out of its length."""

    name: str
    path: Path
    line: int
    length: int


def sources(package: Path) -> dict[str, Path]:
    """Python files of a package by module name, `fedballot.wire.packing`."""
    files = {}
    for path in sorted(package.rglob("*.py")):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def room(module: str) -> str:
    """Room of a module: the second part of its name; the package's own file is the room `__init__`."""
    return [*module.split("."), "__init__"][1]


def imports(package: Path) -> list[Import]:
    """All imports of a package's files, of its own modules and of others."""
    files = sources(package)
    records = []
    for module, path in files.items():
        context = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for line, target in _texts(tree, files):
            records.append(Import(module, target, path.relative_to(package.parent), line, "lazy"))
        for node, kind in _statements(tree):
            for target in _targets(node, context, files):
                records.append(Import(module, target, path.relative_to(package.parent), node.lineno, kind))
    return records


def _statements(tree: ast.AST, kind: Kind = "plain") -> Iterator[tuple[ast.Import | ast.ImportFrom, Kind]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, kind
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from _statements(ast.Module(node.body, []), "typing")
            yield from _statements(ast.Module(node.orelse, []), kind)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and kind == "plain":
            yield from _statements(node, "lazy")
        else:
            yield from _statements(node, kind)


def _texts(tree: ast.AST, files: Mapping[str, Path]) -> Iterator[tuple[int, str]]:
    """Lines and modules of the texts `package.module:Class` by which a `Method(...)` names its sides."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == "Method":
            for word in call.keywords:
                if isinstance(word.value, ast.Constant) and isinstance(word.value.value, str):
                    module, colon, _ = word.value.value.partition(":")
                    if colon and module in files:
                        yield word.value.lineno, module


def _targets(node: ast.Import | ast.ImportFrom, context: list[str], files: Mapping[str, Path]) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    base = context[: len(context) - node.level + 1] if node.level else []
    origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
    targets = {f"{origin}.{alias.name}" for alias in node.names}
    return {t if t in files else origin for t in targets if t != f"{context[0]}.__version__"}


def own(records: Iterable[Import], package: str) -> list[Import]:
    """Imports of the package's own modules."""
    return [r for r in records if r.target.split(".")[0] == package]


def module_graph(records: Iterable[Import], *kinds: Kind) -> dict[str, set[str]]:
    """Which module imports which others, by imports of some kinds."""
    graph: dict[str, set[str]] = defaultdict(set)
    for r in records:
        if r.kind in kinds:
            graph[r.source].add(r.target)
    return dict(graph)


def arrows(records: Iterable[Import]) -> dict[Arrow, list[Import]]:
    """The imports behind each arrow between two rooms."""
    groups: dict[Arrow, list[Import]] = defaultdict(list)
    for r in records:
        if room(r.source) != room(r.target):
            groups[room(r.source), room(r.target)].append(r)
    return dict(groups)


def circles(graph: Graph) -> list[list[str]]:
    """Groups of nodes that all reach each other, and nodes that point at themselves."""
    reach = {node: _reach(graph, node) for node in graph}
    groups = {frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in graph if a in reach[a]}
    return sorted(sorted(group) for group in groups)


def _reach(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        for node in graph.get(ahead.pop(), set()) - seen:
            seen.add(node)
            ahead.append(node)
    return seen


def arrows_up(graph: Graph) -> list[Arrow]:
    """The fewest arrows that have to go so that no circle is left; exact, in time 2^n for a circle of n rooms."""
    up: list[Arrow] = []
    for circle in circles(graph):
        # piles of rooms, from the ground: each room may stand on those below it, and points up if one of them needs it
        piles: dict[frozenset[str], list[Arrow]] = {frozenset(): []}
        for _ in circle:
            higher: dict[frozenset[str], list[Arrow]] = {}
            for pile, broken in piles.items():
                for top in circle:
                    if top not in pile:
                        total = broken + [(below, top) for below in sorted(pile) if top in graph[below]]
                        best = higher.get(pile | {top})
                        if best is None or len(total) < len(best):
                            higher[pile | {top}] = total
            piles = higher
        up += piles[frozenset(circle)]
    return up


def longest_way(graph: Graph) -> list[str]:
    """The longest chain of a graph without circles."""
    ways: dict[str, list[str]] = {}

    def way(node: str) -> list[str]:
        if node not in ways:
            ways[node] = [node, *max((way(n) for n in sorted(graph.get(node, ()))), key=len, default=[])]
        return ways[node]

    return max((way(node) for node in sorted(graph)), key=len, default=[])


def functions(package: Path) -> list[Function]:
    """Functions and methods of a package, longest first."""
    records = []
    for path in sources(package).values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                records.append(Function(node.name, path.relative_to(package.parent), node.lineno, length))
    return sorted(records, key=lambda f: (-f.length, str(f.path)))


def line_count(path: Path) -> int:
    """Lines of a file, blank ones and comments among them."""
    return len(path.read_text(encoding="utf-8").splitlines())


def code_lines(path: Path) -> tuple[int, int]:
    """Lines that are neither blank nor comments, and how many of those are docstrings."""
    text = path.read_text(encoding="utf-8")
    written = {number for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    words: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                words.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(written & code), len(written & words)


@dataclass(frozen=True)
class House:
    """The figures of one checkout, and the places behind them, one line each."""

    figures: dict[str, str]
    places: dict[str, list[str]]


def measure(checkout: Path, name: str = "fedballot") -> House:
    """Measure the package `name` of a checkout."""
    package = checkout / name
    files = list(sources(package).values())
    rooms = {room(module) for module in sources(package)}
    data = {p for p in package.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    rooms |= {p.relative_to(package).parts[0] for p in data if p.parent != package}  # a room may hold no Python

    records = own(imports(package), name)
    between = arrows(records)
    graph: dict[str, set[str]] = defaultdict(set)
    for source, target in between:
        graph[source].add(target)
    lazy = [arrow for arrow, behind in between.items() if all(r.kind != "plain" for r in behind)]
    up = arrows_up(graph)
    way = longest_way({node: {n for n in graph[node] if (node, n) not in up} for node in list(graph)})
    room_circles = circles(graph)
    at_import = circles(module_graph(records, "plain"))
    at_any_time = circles(module_graph(records, "plain", "lazy"))

    long = sorted(((line_count(p), p.relative_to(checkout)) for p in files if line_count(p) > LONG), reverse=True)
    code, words = (sum(column) for column in zip(*map(code_lines, files), strict=True))
    parts = functions(package)
    figures = {
        "Python files": f"{len(files):,}",
        "other files": f"{len(data):,}",
        "lines": f"{sum(map(line_count, files)):,}",
        "lines, neither blank nor comment": f"{code:,}",
        "of these docstrings": f"{words:,}",
        "Python files at the root": f"{len(list(package.glob('*.py')))}",
        "rooms at the top level": f"{len(rooms)}",
        "floors": f"{len(way)}",
        "arrows between rooms": f"{len(between)}",
        "of these only lazy or typing": f"{len(lazy)}",
        "imports behind the arrows": f"{sum(map(len, between.values())):,}",
        "arrows up": f"{len(up)}",
        "circles of rooms": f"{len(room_circles)}",
        "circles of modules at import": f"{len(at_import)}",
        "circles of modules, lazy ones too": f"{len(at_any_time)}",
        f"files over {LONG} lines": f"{len(long)}",
        "functions": f"{len(parts):,}",
        "lines a function, on average": f"{sum(f.length for f in parts) / max(1, len(parts)):.1f}",
    }
    for folder in ("tests", "benchmarks", "examples"):
        sizes = [line_count(p) for p in sorted((checkout / folder).rglob("*.py"))]
        figures[f"{folder}: files, lines"] = f"{len(sizes)}, {sum(sizes):,}"
    places = {
        "longest way down": [" -> ".join(way)],
        "arrows up": [str(r) for arrow in up for r in between[arrow]],
        "circles of rooms": [" <-> ".join(circle) for circle in room_circles],
        "circles of modules at import": [" <-> ".join(circle) for circle in at_import],
        "circles of modules, lazy ones too": [" <-> ".join(circle) for circle in at_any_time],
        f"files over {LONG} lines": [f"{lines} {path}" for lines, path in long],
        "longest functions": [f"{f.length} {f.path}:{f.line} {f.name}" for f in parts[:10]],
    }
    return House(figures, places)


def main(arguments: list[str]) -> None:
    """Print a Markdown table of the checkouts' figures, then the places behind them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).parents[1]
    parser.add_argument("checkouts", nargs="*", type=Path, default=[here], metavar="PATH", help="default: this one")
    checkouts = parser.parse_args(arguments).checkouts
    houses = [measure(path.resolve()) for path in checkouts]

    rows = [["", *map(str, checkouts)], ["---", *["---:"] * len(houses)]]
    rows += [[figure, *(house.figures[figure] for house in houses)] for figure in houses[0].figures]
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    for path, house in zip(checkouts, houses, strict=True):
        for title, lines in house.places.items():
            if lines:
                print(f"\n{path}: {title}", *lines, sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
