"""Names that packages add: found without importing, named with where they come from, refused with a reason."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedballot.core import plugins
from fedballot.core.errors import SettingsError
from tests.packages import install

GROUP = "fedballot.tests"
FILES = {
    "their_package/__init__.py": "",
    "their_package/things.py": "def work():\n    return 7\n\n\nclass Box:\n    lid = 3\n\n\nnumber = 5\n",
    "their_package/broken.py": "raise KeyError('secret')\n",
    "their_package/needs.py": "import no_such_dependency\n",
    "their_package/torchy.py": "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n",
}
ENTRIES = "[fedballot.tests]\nwork = their_package.things:work\nbroken = their_package.broken:x\n"
OURS = {"ours": abs}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in sys.modules if name.startswith("their_package")]:
        monkeypatch.delitem(sys.modules, name)
    return install(tmp_path / "site", FILES, ENTRIES, patch=monkeypatch)


def test_names_come_with_their_package_and_are_found_without_importing(package: Path) -> None:
    found = plugins.installed(GROUP, OURS)
    assert [*found] == ["broken", "work"]
    assert found["work"].origin == "their-package 1.2 (their_package.things:work)"
    plugins.check_name("broken", OURS, GROUP)
    plugins.check_name("anything:at_all", OURS, GROUP)
    assert "their_package" not in sys.modules


def test_a_name_leads_to_what_it_stands_for(package: Path) -> None:
    assert plugins.get("ours", OURS, GROUP) is abs
    assert plugins.get("work", OURS, GROUP, Callable)() == 7  # type: ignore[call-arg]
    assert plugins.load("their_package.things:work", group=GROUP)() == 7
    assert plugins.load("their_package.things:Box.lid", group=GROUP) == 3


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_package.things:work", "test 'no_package.things:work' cannot be imported: there is no module 'no_package'"),
        ("their_package.thinks:work", "no module 'their_package.thinks'; install its package, or put its folder on"),
        ("their_package.things:wrok", "module 'their_package.things' has no 'wrok'; did you mean 'work'"),
        ("their_package.things:Box.lit", "has no 'Box.lit'"),
        ("their_package.broken:x", "cannot be imported: KeyError: 'secret'"),
        ("their_package.needs:x", "it needs 'no_such_dependency', which is missing$"),
        ("their_package.torchy:x", r"it needs 'torch', which is missing: pip install 'fedballot\[torch\]'"),
        ("their_package.things:number", "is of type int; expected Callable"),
        ("their_package.things", "is no import path; expected 'package.module:NAME'"),
        (":work", "is no import path"),
        ("their_package.things:", "is no import path"),
        ("their package:work", "is no import path"),
        ("their_package.things:work:more", "is no import path"),
        ("../things:work", "is no import path"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_the_reason(package: Path, path: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        plugins.load(path, group=GROUP, kind=Callable)


def test_an_unknown_name_gets_the_nearest_of_ours_and_theirs(package: Path) -> None:
    with pytest.raises(SettingsError, match=r"unknown test 'wrk'; did you mean 'work'.* Known: ours, broken, work; or"):
        plugins.get("wrk", OURS, GROUP)


def test_a_name_of_two_packages_is_refused_with_both(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = "[fedballot.tests]\nwork = b:work\n"
    install(tmp_path / "more", {"b.py": "work = abs\n"}, entry, name="b", patch=monkeypatch)
    both = r"'work' is taken twice, by b 1.2 \(b:work\) and by their-package 1.2 \(their_package.things:work\)"
    for ask in (
        lambda: plugins.installed(GROUP),
        lambda: plugins.find("work", GROUP),
        lambda: plugins.get("work", OURS, GROUP),
    ):
        with pytest.raises(SettingsError, match=both):
            ask()
    assert plugins.get("b:work", OURS, GROUP) is abs  # by its path it can still be had


def test_our_own_names_stay_ours(package: Path) -> None:
    assert plugins.get("work", {"work": abs}, GROUP) is abs
    with pytest.raises(SettingsError, match=r"'work' is taken twice, by fedballot itself and by their-package 1.2"):
        plugins.installed(GROUP, {"work": abs})
