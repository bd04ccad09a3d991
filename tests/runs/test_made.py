"""A result says where it was made, and what its ledgers spent."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import fedballot as fb
from fedballot.runs.place import commit_of
from tests.conftest import QUICK_RUN


def test_a_run_says_where_it_was_made_and_what_its_ledgers_spent(tmp_path: Path) -> None:
    result = fb.run("pate-fl", out=tmp_path / "run", epsilon=8, **QUICK_RUN)
    made = result.values["made"]
    assert made["cpus"] >= 1 and platform.release() in made["system"]
    (ledgers,) = result.values["ledgers"]
    assert ledgers["count"] == 6 and ledgers["unit"] == "client"
    assert 0 < ledgers["median"] <= ledgers["largest"] <= ledgers["budget"] * 1.001
    one = fb.Ledger(tmp_path / "run" / "clients" / "00000" / "ledger")
    assert one.spent() == ledgers["median"] == ledgers["largest"]
    page = result.report().read_text()
    assert "Spent by the clients’ ledgers" in page and f"Python {platform.python_version()}" in page
    assert made["commit"] is None or f"commit {made['commit'][:12]}" in page


def test_the_commit_is_the_clones_and_says_where_files_differ(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        own = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *own, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert commit_of(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    head = git("rev-parse", "HEAD").strip()
    assert commit_of(tmp_path) == head
    (tmp_path / "file").write_text("two")
    assert commit_of(tmp_path) == head + "+"
