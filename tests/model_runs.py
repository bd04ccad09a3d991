"""Small runs, and other processes that use their models."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fedballot.core.progress import Silent
from fedballot.methods.registry import get_method, settings_types
from fedballot.settings import layers
from fedballot.settings.parts import CommonSettings
from fedballot.sim import simulate

FOREST = "random-forest(n_estimators=20)"  # a student is fitted eleven times in a pass, 100 trees each
VOTES = {
    "clients": 4,
    "min_clients": 4,
    "client_models": f"{FOREST},logistic-regression",
    "abstain": False,
    "vote_fraction": 1.0,
    "epsilon": 100.0,
}


def resolved(method: str = "pate-fl", **values: Any) -> CommonSettings:
    """Settings on this machine."""
    return layers.resolve(method, settings_types(get_method(method)), values={"workers": 1, "device": "cpu", **values})


def run(out: Path, method: str = "pate-fl", **values: Any) -> Path:
    """A small run."""
    simulate(method, resolved(method, **values), out, resume=False, progress=Silent())
    return out


def in_a_fresh_process(code: str, *words: object) -> Any:
    """What a script prints as JSON, in a Python that has seen nothing of this one."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_a_new_process(*words: object) -> "subprocess.CompletedProcess[str]":
    """``fedballot WORDS``, in a Python that has seen nothing of this one."""
    return subprocess.run(
        [sys.executable, "-m", "fedballot.cli", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
