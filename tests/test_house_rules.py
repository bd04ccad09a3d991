"""Each rule of the house sees the breach that it is there for."""

from pathlib import Path

import pytest

from tests.test_house import (
    arrows_up,
    circles,
    flower_inside,
    house,
    long_files,
    rooms_below,
    strange_test_folders,
    strangers,
)

# a package that keeps the rules
SOUND = {
    "__init__.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from small.sim import run\n",
    "py.typed": "",
    "sim.py": "from flwr.simulation import run_simulation\n\nfrom small.core import errors\n",
    "core/errors.py": "from small import __version__\n",
    "wire/__init__.py": "from .packing import pack\n",
    "wire/packing.py": "from ..core import errors\n",
    "clients/base.py": "import flwr\n\nimport small.wire.packing\n",
    "strategies/base.py": "def work():\n    from small.clients import base\n",
    "presets/demo.toml": "",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in SOUND.items():
        write(tmp_path / "small", name, text)
    return tmp_path / "small"


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_a_sound_package_breaks_no_rule(package: Path) -> None:
    for rule in (strangers, arrows_up, circles, long_files, flower_inside):
        assert rule(package) == []


def test_the_picture_gives_each_room_the_floors_below() -> None:
    assert rooms_below("a\n b -> c  d\n e") == {
        "a": {"b", "c", "d", "e"},
        "b": {"c", "e"},
        "c": {"e"},
        "d": {"e"},
        "e": set(),
    }
    with pytest.raises(AssertionError, match="b stands twice"):
        rooms_below("a b\n b")


@pytest.mark.parametrize("name", ["helpers.py", "utils/__init__.py", "notes.md"])
def test_a_stranger_at_the_root_is_seen(package: Path, name: str) -> None:
    write(package, name, "")
    (line,) = strangers(package)
    assert line.startswith(f"small/{name.split('/')[0]}: not in the plan")


@pytest.mark.parametrize(
    ("name", "text", "arrow"),
    [
        ("core/files.py", "\nfrom small.wire import pack", "core -> wire"),
        ("core/files.py", "\nfrom ..wire.packing import pack", "core -> wire"),
        ("core/files.py", "\nfrom .. import sim", "core -> sim"),
        ("core/files.py", "\nimport small.wire.packing as packing", "core -> wire"),
        ("core/files.py", "\nimport small", "core -> __init__"),
        ("core/files.py", "def work():\n    import small.sim", "core -> sim"),
        ("core/files.py", "if TYPE_CHECKING:\n    from small import sim", "core -> sim"),
        ("core/files.py", "class A:\n    from small import sim", "core -> sim"),
        ("core/files.py", "\nMethod(client='small.clients.base:Client')", "core -> clients"),
        ("clients/fedmd.py", "\nfrom small.strategies.base import work", "clients -> strategies"),
        ("privacy/noise/bits.py", "\nfrom ...wire import packing", "privacy -> wire"),
        ("privacy/noise/__init__.py", "\nfrom ... import sim", "privacy -> sim"),
        ("attic/a.py", "\nfrom small.core import errors", "attic -> core"),
        ("sim.py", "\nfrom small.attic import errors", "sim -> attic"),
    ],
)
def test_an_arrow_up_is_named(package: Path, name: str, text: str, arrow: str) -> None:
    write(package, name, text)
    (line,) = arrows_up(package)
    assert line.startswith(f"small/{name}:2: small.")
    assert f"the arrow {arrow} is not allowed" in line


def test_a_circle_is_named_with_its_imports(package: Path) -> None:
    write(package, "core/errors.py", "from small.core import files")
    write(package, "core/files.py", "def work():\n    from . import errors")
    key = "small.core.errors, small.core.files"
    assert circles(package) == [
        f"a circle of modules: {key}\n"
        "  small/core/errors.py:1: small.core.errors -> small.core.files\n"
        "  small/core/files.py:2: small.core.files -> small.core.errors (lazy)"
    ]
    assert circles(package, {key}) == []
    write(package, "core/files.py", "if TYPE_CHECKING:\n    from . import errors")
    assert circles(package) == []
    assert "keeps the rule now" in circles(package, {key})[0]


def test_a_long_file_is_a_breach_or_a_debt_that_can_be_paid(package: Path) -> None:
    write(package, "core/errors.py", "\n" * 300)
    assert long_files(package) == []
    write(package, "core/errors.py", "\n" * 301)
    assert long_files(package) == ["small/core/errors.py:301: 301 lines, at most 300"]
    assert long_files(package, {"core/errors.py"}) == []
    assert long_files(package, {"core/errors.py", "core/gone.py"}) == [
        "core/gone.py: keeps the rule now, take it off its list of debts"
    ]


@pytest.mark.parametrize("text", ["\nimport flwr.common", "\nfrom flwr.client import Client", "if a:\n    import flwr"])
def test_flower_inside_is_seen(package: Path, text: str) -> None:
    write(package, "clients/fedmd.py", text)
    (line,) = flower_inside(package)
    assert line.startswith("small/clients/fedmd.py:2: small.clients.fedmd -> flwr")
    assert flower_inside(package, {"clients/fedmd.py"}) == []
    write(package, "clients/fedmd.py", "import flwr_datasets")
    assert len(flower_inside(package, {"clients/fedmd.py"})) == 1  # the debt is paid


def test_strange_test_folders_are_seen(tmp_path: Path) -> None:
    write(tmp_path / "tests", "clients/test_base.py", "")
    write(tmp_path / "tests", "golden/privacy.json", "")
    assert strange_test_folders(tmp_path / "tests") == []
    write(tmp_path / "tests", "agents/test_base.py", "")
    assert strange_test_folders(tmp_path / "tests") == [
        "tests/agents/: tests mirror the package, which has no room agents"
    ]


def test_the_figures_of_a_small_house(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(package, "core/files.py", '"""Files."""\n\n# why\ndef work():\n    from small import sim\n')
    figures = house.measure(package.parent, "small").figures
    expected = {
        "Python files": "8",
        "other files": "2",
        "lines, neither blank nor comment": "15",
        "of these docstrings": "1",
        "Python files at the root": "2",
        "rooms at the top level": "7",
        "floors": "4",  # strategies, clients, wire, core; then sim -> core or core -> sim goes
        "arrows between rooms": "6",
        "of these only lazy or typing": "3",
        "arrows up": "1",
        "circles of rooms": "1",
        "lines a function, on average": "2.0",
    }
    assert {key: figures[key] for key in expected} == expected
    package.rename(package.with_name("fedballot"))
    house.main([str(package.parent)])
    assert "| Python files at the root |" in capsys.readouterr().out
