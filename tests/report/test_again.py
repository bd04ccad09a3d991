"""The command on a run's page does the run again: word for word, in a shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import fedballot as fb
from fedballot.api.experiment import resolve
from fedballot.report.again import changed_settings, command

SET = {
    "dataset": "digits",
    "clients": 3,
    "private_size": 300,
    "public_size": 60,
    "test_size": 60,
    "client_models": ("logistic-regression(C=0.5)", "knn(n_neighbors=3)"),
    "server_model": "logistic-regression",
    "abstain": False,
    "epsilon": "inf",
    "engine": "local",
    "workers": 1,
}


def test_the_command_on_the_page_does_the_run_again(tmp_path: Path) -> None:
    result = fb.run("pate-fl", preset="demo", out=tmp_path / "one", progress=False, **SET)
    usual = {"abstain"}  # which is the preset's; min_clients follows from clients
    assert changed_settings(result.values, "demo").keys() == SET.keys() - usual
    assert {"graph_features", *SET} < changed_settings(result.values).keys()
    page = result.report().read_text()
    (shown,) = re.findall(r"<pre><code>(.*?)</code></pre>", page, flags=re.S)
    words = unescape(shown)
    assert words == command(result.values) and words.startswith("fedballot run pate-fl --preset demo --set ")
    line = words.replace("fedballot", f"{sys.executable} -m fedballot", 1) + f" --out {tmp_path / 'two'} --quiet"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=os.environ, timeout=300)
    assert done.returncode == 0, done.stderr
    again = json.loads((tmp_path / "two" / "run.json").read_text())
    assert again["settings"] == json.loads((tmp_path / "one" / "run.json").read_text())["settings"]
    again = fb.load(tmp_path / "two")
    assert again.accuracy == result.accuracy  # nothing is drawn without noise
    assert again.values["preset"] == "demo" and "changed from the preset demo" in page
    (tmp_path / "two" / "result.json").unlink()
    again = fb.run("pate-fl", out=tmp_path / "two", resume=True, progress=False)
    assert again.values["preset"] == "demo" and again.settings == result.settings  # kept, though not named again


def test_a_run_of_sites_has_no_command() -> None:
    assert command({"method": "pate-fl", "settings": {"dataset": "sites"}}) == ""
    assert changed_settings({"method": "gone", "settings": {"a": 1}}) == {"a": 1}


def test_a_preset_that_is_gone_is_spelled_out() -> None:
    values = {"method": "pate-fl", "settings": resolve("pate-fl", {"clients": 3}, "demo").to_dict()}
    assert command({**values, "preset": "demo"}) == "fedballot run pate-fl --preset demo --set clients=3"
    for result in ({**values, "preset": "gone"}, values):  # as results of older versions are
        assert command(result).startswith("fedballot run pate-fl --set private_size=3500 --set ")
