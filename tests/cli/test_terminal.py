"""What people see: help, tables at any width, terminals of Latin letters, and files that are theirs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click import Argument, Group
from typer.main import get_command

from fedballot.cli import terminal
from fedballot.cli.main import app
from fedballot.methods.registry import all_methods
from tests.command import fedballot

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]


def printed(*words: str, width: int = 80) -> str:
    done = fedballot(*words, width=width)
    assert done.returncode == 0, done.stderr
    return done.stdout


def leaves(command: object, *words: str) -> list[tuple[str, ...]]:
    if isinstance(command, Group):
        return [path for name, one in command.commands.items() for path in leaves(one, *words, name)]
    return [words]


def test_every_argument_says_what_it_is() -> None:
    """typer 0.20 with click from 8.4 on printed none of them."""
    tree = get_command(app)
    text = printed("run", "-h", width=100)
    assert "A name from `fedballot methods`" in text and "Example: fedballot run pate-fl" in text
    silent = []
    for path in leaves(tree):
        command = tree
        for word in path:
            command = command.commands[word]  # type: ignore[attr-defined]
        silent += [
            (path, one.name) for one in command.params if isinstance(one, Argument) and not getattr(one, "help", "")
        ]
    assert silent == []


def test_help_is_in_groups_and_short_for_h() -> None:
    text = printed("-h", width=100)
    for panel in ("First steps", "Results", "Before and beyond one run", "Between machines"):
        assert panel in text
    assert all(re.search(rf"│ {name} ", text) for name in COMMANDS)
    assert printed("--help", width=100) == text


@pytest.mark.parametrize("width", [60, 80, 109, 110, 200])
def test_tables_fit_and_cut_no_name(width: int) -> None:
    for words in (("methods",), ("presets",), ("budget", "pate-fl"), ("methods", "--settings", "pate-fl")):
        text = printed(*words, width=width)
        assert max(map(len, text.splitlines())) <= width, words
        if words == ("methods",):
            assert all(name in text for name in all_methods())
            assert "predictions" in text  # no word is cut
    assert "┏" not in printed("budget", "pate-fl", width=60)  # a header without words


def test_a_terminal_of_latin_letters_gets_a_question_mark_not_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedballot", "budget", "pate-fl"],
        capture_output=True,
        timeout=300,
        env=os.environ | {"COLUMNS": "80", "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    assert b"? for one whole client" in done.stdout


def test_files_of_the_user_s_stay_and_ours_are_written_anew(tmp_path: Path) -> None:
    mine = tmp_path / "digits.png"
    mine.write_bytes(b"\x89PNG holiday")
    done = fedballot("data", "digits", width=80, cwd=tmp_path)
    assert done.returncode == 2 and "none of fedballot's files" in done.stderr
    assert mine.read_bytes() == b"\x89PNG holiday"
    for name in ("a.png", "a.svg", "a.pdf"):
        for _ in range(2):
            done = fedballot("data", "digits", "--out", name, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF") and b"<svg" in (tmp_path / "a.svg").read_bytes()


def test_a_wrong_name_gets_one_suggestion() -> None:
    for words in (("rum",), ("run", "pate-f"), ("run", "pate-fl", "--set", "epsilom=1"), ("data", "mnits")):
        done = fedballot(*words, width=80)
        assert done.returncode == 2 and done.stderr.lower().count("did you mean") == 1, done.stderr


@pytest.mark.parametrize("name", ["err", "out"])
def test_a_word_between_colons_is_no_picture(name: str) -> None:
    console = getattr(terminal, name)
    with console.capture() as seen:
        console.print("server_model=nowhere:x: cannot be imported")
    assert seen.get() == "server_model=nowhere:x: cannot be imported\n"
