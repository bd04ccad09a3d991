"""The pages: links lead somewhere, commands and Python are those of today, generated pages are up to date."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import runpy
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from typer.main import get_command

import fedballot
from fedballot.cli.main import app
from fedballot.core.errors import SettingsError
from fedballot.core.setting import names_of
from fedballot.methods.registry import all_methods, get_method
from fedballot.settings.layers import preset_names

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")] + [*DOCS.rglob("*.md")]
)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
OTHERS = {"sentence_transformers"}  # packages that a page may import and we do not install
LARGEST_IMAGE = 200_000  # bytes
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def blocks(page: Path, *languages: str) -> list[str]:
    return [code for language, code in FENCE.findall(page.read_text()) if language in languages]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    counts: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(page), flags=re.MULTILINE):
        words = LINK.sub(r"\2", heading).lower().strip()
        slug = "".join(c for c in words if c.isalnum() or c in " -_").replace(" ", "-")
        names.add(f"{slug}_{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return names


def faults_of_links(page: Path) -> Iterator[str]:
    for picture, words, link in LINK.findall(prose(page)):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{link}: there is no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{link}: there is no such heading"
        if picture and not words.strip():
            yield f"{link}: a picture without words"
        if picture and target.exists() and target.stat().st_size > LARGEST_IMAGE:
            yield f"{link}: larger than {LARGEST_IMAGE} bytes"


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    assert list(faults_of_links(page)) == []


@pytest.mark.parametrize("notebook", sorted(DOCS.glob("notebooks/*.ipynb")), ids=lambda path: path.stem)
def test_links_of_notebooks_lead_somewhere(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    words = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    links = [link for _, _, link in LINK.findall(words) if not link.startswith("http")]
    assert [link for link in links if not (notebook.parent / link.partition("#")[0]).exists()] == []


def commands(code: str) -> Iterator[list[str]]:
    """The words of each ``fedballot`` command in a block of shell."""
    code = re.sub(r"\\\n\s*", " ", code)
    for line in code.splitlines():
        for part in re.split(r"&&|\|\||;|\$\(", line):
            try:
                words = shlex.split(re.split(r" (?:\||>|2>) ", part)[0], comments=True)
            except ValueError:  # a quote that ends on another line: no command of ours
                continue
            while words and re.fullmatch(r"\w+=\S*", words[0]):
                words = words[1:]
            if words and words[0] == "fedballot":
                yield [word.rstrip(")") for word in words[1:] if word not in ("...", "…", "&")]


def faults_of_command(words: list[str]) -> Iterator[str]:
    """What the real command line does not know."""
    command: click.Command = get_command(app)
    rest = words
    while isinstance(command, click.Group):
        if rest and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        elif "show" in command.commands:  # `data NAME`
            command = command.commands["show"]
        else:
            if rest and not rest[0].startswith("-"):
                yield f"{' '.join(words)}: no command {rest[0]}"
            return
    context = click.Context(command)
    try:
        parsed, extra, _ = command.make_parser(context).parse_args(list(rest))
    except click.UsageError as error:
        yield f"{' '.join(words)}: {error.message}"
        return
    values = {name: value for name, value in parsed.items() if isinstance(value, str | list | tuple)}  # what is there
    missing = [one.name for one in command.params if isinstance(one, click.Argument) and one.required]
    missing = [name for name in missing if not values.get(str(name))]
    if extra or missing:
        yield f"{' '.join(words)}: left over {extra}, missing {missing}"
    if (preset := values.get("preset")) and preset not in preset_names():
        yield f"{' '.join(words)}: no preset {preset}"
    pairs = next((values.get(str(one.name)) or [] for one in command.params if "--set" in one.opts), [])
    names, fault = settings_of(values.get("method") or "")
    for text in [fault, *(f"no setting {key}" for pair in pairs if (key := pair.partition("=")[0]) not in names)]:
        if text:
            yield f"{' '.join(words)}: {text}"


def settings_of(method: str) -> tuple[set[str], str]:
    """The settings that a method has (all there are, where it is a placeholder or of another package), or a fault."""
    every = {name for one in all_methods().values() for name in names_of(one.settings)} | {"KEY", "NAME"}
    if not method or ":" in method or method.isupper() or method == "pate-noisy-max":
        return every, ""
    try:
        return {*names_of(get_method(method).settings), "KEY", "NAME"}, ""
    except SettingsError:
        return every, f"no method {method}"


@each_page
def test_commands_are_those_of_the_command_line(page: Path) -> None:
    faults = [
        fault
        for code in blocks(page, "sh", "bash", "")
        for words in commands(code)
        for fault in faults_of_command(words)
    ]
    assert faults == []


def faults_of_python(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = [(str(node.module), alias.name) for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fb":
            names = [("fedballot", node.attr)]
        else:
            continue
        for module, name in names:
            if module.partition(".")[0] in OTHERS:
                continue
            if importlib.util.find_spec(module.partition(".")[0]) is None:
                yield f"{module}: is not installed"
            elif name and not hasattr(importlib.import_module(module), name):
                yield f"{module}: has no {name}"


@each_page
def test_python_is_that_of_today(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples" / "noisy_max")
    assert [fault for code in blocks(page, "python") for fault in faults_of_python(code)] == []


@pytest.mark.parametrize("page", sorted((DOCS / "results").glob("*.md")), ids=lambda page: page.name)
def test_a_page_of_results_names_the_command_that_made_them(page: Path) -> None:
    scripts = re.findall(r"benchmarks/(\w+\.py)", page.read_text())
    assert scripts or any(True for code in blocks(page, "sh", "") for _ in commands(code))
    assert [name for name in scripts if not (ROOT / "benchmarks" / name).exists()] == []


def test_no_page_of_results_is_stale(tmp_path: Path) -> None:
    stale = runpy.run_path(str(DOCS / "stale.py"))
    assert list(stale["faults"]()) == []
    page = tmp_path / "page.md"
    page.write_text("| a |\n|---|\n| 1 |\n")
    assert len(list(stale["faults_of_sources"](page, ROOT))) == 1
    page.write_text("`python benchmarks/gone.py` and `python benchmarks/knn.py --records 1 --colour red`")
    assert [line.rpartition(" ")[2] for line in stale["faults_of_sources"](page, ROOT)] == [
        "benchmarks/gone.py",
        "--colour",
    ]


def test_figures_of_the_summary_stand_in_the_pages_that_it_links_to() -> None:
    rows = re.findall(r"^\| \[[^\]]*\]\(([^)#]+)[^)]*\) \|(.*)$", (DOCS / "results.md").read_text(), flags=re.MULTILINE)
    checked = 0
    for link, cells in rows:
        page = (DOCS / link).read_text().replace("*", "")
        figures = re.findall(r"\d[\d.,]*\d(?: ± [\d.]+)?", cells)
        assert [one for one in figures if one not in page] == [], link
        checked += len(figures)
    assert checked > 15


def test_the_reference_is_up_to_date() -> None:
    for page, text in runpy.run_path(str(DOCS / "write_reference.py"))["pages"]().items():
        assert page.read_text() == text, "run: python docs/write_reference.py"


def test_every_method_has_its_line() -> None:
    page = (DOCS / "methods.md").read_text()
    assert [name for name in all_methods() if f"`{name}`" not in page] == []


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "api.md").read_text()
    names = [name for name in fedballot.__all__ if not name.startswith("__")]
    assert [name for name in names if f".{name}\n" not in page] == []


@pytest.mark.parametrize(("folder", "most"), [("tutorials", 900), ("concepts", 400)])
def test_pages_that_teach_are_short(folder: str, most: int) -> None:
    lengths = {page.name: len(page.read_text().split()) for page in (DOCS / folder).glob("*.md")}
    assert {name: words for name, words in lengths.items() if words > most} == {}


def test_faults_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` (c)\n[x](gone.md) [y](#a-b-c) [z](#nowhere)\n\n```sh\n# Not a heading\n```\n")
    assert list(faults_of_links(page)) == ["gone.md: there is no such file", "#nowhere: there is no such heading"]
    wrong = [
        "fedballot rum pate-fl",
        "X=1 fedballot run pate-fl --sett epsilon=1",
        "fedballot run pate-fl --set epsilom=1",
        "fedballot run pate-fx",
        "fedballot run pate-fl --preset demos",
        "fedballot run",
        "cd x && fedballot compare",
    ]
    assert [len(list(faults_of_command(words))) for line in wrong for words in commands(line)] == [1] * len(wrong)
    right = "fedballot run pate-fl \\\n  --set epsilon=1  # a word\nF=$(fedballot data x.csv --json | python3 -c 1)"
    assert [list(faults_of_command(words)) for words in commands(right)] == [[], []]
    assert (
        list(faults_of_python("import fedballot as fb\nfb.walk()\nfrom fedballot import sun\nimport nowhere_at_all"))
        != []
    )
