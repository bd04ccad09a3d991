"""FedAUXfdp in worker processes: the server trains the extractor, clients take it over, a student learns."""

from __future__ import annotations

import json

import pytest

from fedballot.core.files import read_arrays
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.privacy.ledger import Ledger
from fedballot.settings.fedaux import FedauxfdpSettings
from fedballot.sim import simulate

pytestmark = pytest.mark.slow


def test_one_round_with_a_contrastive_extractor(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    settings = build(
        FedauxfdpSettings,
        {"dataset": "digits", "clients": 3, "private_size": 600, "public_size": 500, "test_size": 300, "workers": 2},
        {"extractor": "simclr-resnet8", "pretrain_epochs": 3, "epsilon": 5.0, "evaluate_clients": "false"},
    )
    result = simulate("fedauxfdp", settings, tmp_path / "run", resume=False, progress=Silent())
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "done" and result["clients"]["answered"] == 3
    assert result["metrics"]["server_accuracy"] > 0.4
    guarantee = result["guarantees"][0]
    assert (guarantee["status"], guarantee["unit"], guarantee["adjacency"]) == ("proved", "record", "replace-one")
    assert guarantee["epsilon"] <= 5 and guarantee["view"] == "server's view"
    assert result["communication"]["bytes_down"] > 3 * 4 * 70_000  # the network, float32, to each client
    assert result["communication"]["bytes_up"] < 3 * (2 * 10 * 65 + 200)
    assert all(Ledger(tmp_path / f"run/clients/{client_id:05d}/ledger").spent() <= 5 for client_id in range(3))
    assert read_arrays(tmp_path / "run" / "release.npz")["soft_labels"].shape == (400, 10)
