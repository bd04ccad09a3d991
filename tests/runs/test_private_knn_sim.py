"""One real run of Private-kNN-FL in worker processes, without torch and without teachers."""

from __future__ import annotations

import pytest

from fedballot.core.progress import Silent
from fedballot.settings.voting import KnnSettings
from fedballot.sim import simulate
from tests.conftest import small_settings


@pytest.mark.slow
def test_digits_are_learnt_from_neighbour_counts(tmp_path):
    changes = {
        "epsilon": 8,  # at 4 a class of thirty records is doubted in one run of 25
        "delta": 1e-4,
        "k": 10,
        "extractor": "none+l2",
        "server_features": "none+standardise",
        "min_clients": 8,
    }
    settings = small_settings(KnnSettings, changes)
    result = simulate("private-knn-fl", settings, tmp_path / "run", resume=False, progress=Silent())
    assert result["status"] == "done" and result["warnings"] == []
    assert result["metrics"]["server_accuracy"] > 0.75  # chance is .1
    assert result["metrics"]["client_accuracy"]["mean"] > 0.75  # each client's own neighbours; from its folder
    record, client = result["guarantees"][:2]  # what `epsilon` is for comes first
    assert (record["unit"], record["adjacency"], client["unit"]) == ("record", "replace-one", "client")
    assert 7.9 < record["epsilon"] <= 8 < client["epsilon"]
    assert result["clients"]["answered"] == 8
    assert result["metrics"]["released_noise_sigma"] == pytest.approx(13.3, rel=0.2)
