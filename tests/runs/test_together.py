"""Runs whose workers train several clients at once: the same releases, charges and records, but for rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedballot.core.errors import SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.progress import Silent
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.ledger.reconcile import charges
from fedballot.settings.parts import CommonSettings
from fedballot.sim import simulate
from tests.conftest import small_settings

MODELS = {"client_models": "cnn-small,cnn-small,mlp-torch,random-forest,cnn-gn", "epochs": 3, "partition": "dirichlet"}


def ran(method: str, out: Path, **values: Any) -> dict[str, Any]:
    settings = small_settings(get_method(method).settings, {"engine": "local", "device": "cpu", **values})
    return simulate(method, settings, out, resume=False, progress=Silent())


VOTES = {**MODELS, "epsilon": 40, "noise_seed": 3, "batch_size": 10}  # of few records teachers take smaller batches


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run whose clients train each for itself; how many workers there are changes no bit of it."""
    out = tmp_path_factory.mktemp("runs") / "alone"
    return out, ran("pate-fl", out, workers=1, **VOTES)


@pytest.mark.parametrize("workers", [1, 2])
def test_teachers_that_train_together_vote_as_alone_and_each_is_charged_once(
    one_by_one: tuple[Path, dict[str, Any]], tmp_path: Path, workers: int
) -> None:
    out, alone = one_by_one
    together = ran("pate-fl", tmp_path / "together", workers=workers, clients_per_worker=8, **VOTES)
    assert together["clients"] == alone["clients"] == {**alone["clients"], "answered": 8, "rejected": {}}
    assert together["guarantees"] == alone["guarantees"]
    assert [len(charges(Ledger(path))) for path in tmp_path.glob("together/clients/*/ledger")] == [1] * 8
    for number in range(8):
        ours, theirs = (run / "clients" / f"{number:05d}" for run in (tmp_path / "together", out))
        (release,), (expected,) = (list(path.glob("ledger/releases/*.npz")) for path in (ours, theirs))
        mine, other = read_arrays(release)["votes"], read_arrays(expected)["votes"]
        assert np.mean(np.any(mine != other, axis=1)) < 0.05  # a tie of logits that rounding breaks
        if number not in (3,):  # the forest
            nets = [load_file(path / "model") for path in (ours, theirs)]
            differences = [np.abs(nets[0][name] - nets[1][name]).max() for name in nets[1]]
            assert max(differences) < 1e-3
            assert (max(differences) > 0) == (number != 4)  # dropout: not with others
    assert together["timing"]["engine_overhead"] > 0


def test_rounds_of_weights_are_the_same_but_for_rounding(tmp_path: Path) -> None:
    values = {"client_models": "cnn-small", "epochs": 2, "rounds": 2}
    for run, together in (("alone", 1), ("together", 3)):
        ran("fedavg", tmp_path / run, workers=1, clients_per_worker=together, **values)
    alone, together = (read_arrays(tmp_path / run / "checkpoint.npz") for run in ("alone", "together"))
    assert alone.keys() == together.keys()
    for name in alone:
        if alone[name].dtype.kind == "f":
            assert np.abs(alone[name] - together[name]).max() < 1e-3


def test_ray_gives_each_client_a_process(tmp_path: Path) -> None:
    for values in ({"engine": "ray"}, {"ray_address": "auto"}):
        with pytest.raises(SettingsError, match="clients_per_worker=2 is for workers of this machine"):
            CommonSettings(clients_per_worker=2, **values)
