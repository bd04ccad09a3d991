"""The plan of the house: what stands where, and which room may import which.

Each rule is a function of a package's folder that returns one line per breach; `test_house_rules.py` breaks each one.
"""

import importlib.util
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fedballot"

# Rooms by floor. A room may import all floors below it; on its own floor, only what its own arrow points at.
HOUSE = """
    __init__
    __main__
    cli   testing
    apps
    deploy   api
    sim   model   report -> studies
    runs
    methods
    strategies -> clients
    settings   distillation
    learners
    datasets
    privacy   wire
    core
"""
WITHOUT_PYTHON = {"presets"}
AT_THE_ROOT = {"__init__.py", "__main__.py", "py.typed", "sim.py", "testing.py"}
MAY_IMPORT_FLOWER = (
    "apps/",
    "deploy/",
    "runs/",
    "sim.py",
    "clients/base.py",
    "strategies/base.py",
)
LONGEST = 300  # lines of a file

# Debts. Each list may only shrink: an entry that keeps the rule fails too.
TOO_LONG: set[str] = set()
STILL_CIRCLES = {
    "fedballot.datasets.federation, fedballot.datasets.own_task",
}

# benchmarks/ is no package, and others install one of that name
_spec = importlib.util.spec_from_file_location("fedballot_house", ROOT / "benchmarks" / "house.py")
assert _spec is not None and _spec.loader is not None
house = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = house  # dataclasses look their module up
_spec.loader.exec_module(house)


def rooms_below(picture: str) -> dict[str, set[str]]:
    """The rooms that each room of a picture may import."""
    below: dict[str, set[str]] = {}
    for floor in reversed(picture.strip().splitlines()):
        words = floor.split()
        lower = set(below)
        for room in words:
            if room != "->":
                assert room not in below, f"{room} stands twice in the picture"
                below[room] = set(lower)
        for place, word in enumerate(words):
            if word == "->":
                below[words[place - 1]].add(words[place + 1])
    return below


BELOW = rooms_below(HOUSE)


def breaches(broken: Mapping[str, str], debts: Collection[str]) -> list[str]:
    """What breaks a rule (key -> the line to show) and is no debt, and debts that are paid."""
    paid = [f"{key}: keeps the rule now, take it off its list of debts" for key in sorted(set(debts) - set(broken))]
    return [line for key, line in broken.items() if key not in debts] + paid


def strangers(package: Path) -> list[str]:
    """Names at the package's root that the plan does not have."""
    folders = {r for r in BELOW if f"{r}.py" not in AT_THE_ROOT} | WITHOUT_PYTHON
    return [
        f"{package.name}/{path.name}: not in the plan; at the root stand {', '.join(sorted(AT_THE_ROOT | folders))}"
        for path in sorted(package.iterdir())
        if path.name != "__pycache__"
        and path.name not in (AT_THE_ROOT if path.is_file() else folders)
        and (path.is_file() or _holds_files(path))
    ]


def _holds_files(folder: Path) -> bool:
    return any(p.is_file() and p.suffix != ".pyc" for p in folder.rglob("*"))  # git forgets empty folders


def arrows_up(package: Path) -> list[str]:
    """Imports, lazy ones, those for types and the texts of methods too, that run up or sideways."""
    lines = []
    for record in house.own(house.imports(package), package.name):
        source, target = house.room(record.source), house.room(record.target)
        if source != target and target not in BELOW.get(source, ()):
            allowed = ", ".join(room for room in BELOW if room in BELOW.get(source, ())) or "nothing"
            lines.append(f"{record}: the arrow {source} -> {target} is not allowed; {source} may import {allowed}")
    return lines


def circles(package: Path, debts: Collection[str] = ()) -> list[str]:
    """Circles of modules; imports for types only do not count."""
    records = house.own(house.imports(package), package.name)
    broken: dict[str, str] = {}
    for circle in house.circles(house.module_graph(records, "plain", "lazy")):
        arrows = [str(r) for r in records if r.kind != "typing" and r.source in circle and r.target in circle]
        key = ", ".join(circle)
        broken[key] = "\n  ".join([f"a circle of modules: {key}", *arrows])
    return breaches(broken, debts)


def long_files(package: Path, debts: Collection[str] = ()) -> list[str]:
    """Files of more than 300 lines."""
    counts = {str(p.relative_to(package)): house.line_count(p) for p in sorted(package.rglob("*.py"))}
    return breaches(
        {
            path: f"{package.name}/{path}:{count}: {count} lines, at most {LONGEST}"
            for path, count in counts.items()
            if count > LONGEST
        },
        debts,
    )


def flower_inside(package: Path, debts: Collection[str] = ()) -> list[str]:
    """Imports of Flower away from the edges."""
    broken: dict[str, str] = {}
    for record in house.imports(package):
        path = str(record.path.relative_to(package.name))
        if record.target.split(".")[0] == "flwr" and not path.startswith(MAY_IMPORT_FLOWER):
            broken.setdefault(path, f"{record}: only {', '.join(MAY_IMPORT_FLOWER)} may import flwr")
    return breaches(broken, debts)


def strange_test_folders(tests: Path) -> list[str]:
    """Folders of tests that are no room of the package."""
    return [
        f"{tests.name}/{folder.name}/: tests mirror the package, which has no room {folder.name}"
        for folder in sorted(tests.iterdir())
        if any(folder.rglob("*.py")) and folder.name not in set(BELOW) | WITHOUT_PYTHON
    ]


def test_only_the_plan_stands_at_the_root() -> None:
    lines = strangers(PACKAGE)
    assert not lines, "\n".join(lines)


def test_arrows_run_down_only() -> None:
    lines = arrows_up(PACKAGE)
    assert not lines, "\n".join(lines)


def test_no_modules_import_each_other() -> None:
    lines = circles(PACKAGE, STILL_CIRCLES)
    assert not lines, "\n".join(lines)


def test_no_file_is_too_long() -> None:
    lines = long_files(PACKAGE, TOO_LONG)
    assert not lines, "\n".join(lines)


def test_flower_stays_at_the_edges() -> None:
    lines = flower_inside(PACKAGE)
    assert not lines, "\n".join(lines)


def test_tests_mirror_the_package() -> None:
    lines = strange_test_folders(ROOT / "tests")
    assert not lines, "\n".join(lines)
