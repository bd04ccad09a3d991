"""Noise that the server adds: clients send exact votes and are charged, and the sum has the noise once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

from fedballot.core.errors import RunError
from fedballot.core.files import read_arrays
from fedballot.core.setting import build
from fedballot.methods.voting import PATE_FL
from fedballot.privacy.accounting import Cost
from fedballot.privacy.guarantee import ADJACENCY, TRUSTED_AGGREGATOR, Unit
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.mechanism import Composition, Facts, Mechanism
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.privacy.noise.samplers import discrete_gaussian
from fedballot.settings.voting import PateSettings
from fedballot.strategies.one_shot import OneShotStrategy
from tests.conftest import SMALL
from tests.inprocess import run_here
from tests.strategies.test_one_shot import Broken, never

QUERIES, CLIENTS, SIGMA = 120, 4, 5.0


@dataclass(frozen=True)
class CentralVotes(Mechanism):
    """All of the noise, on the sum."""

    noisy: NoisyVotes
    central: ClassVar[bool] = True

    def cost(self, unit: Unit = "client", records_per_person: int = 1) -> Cost:
        return self.noisy.cost(unit, records_per_person)

    def release(self, exact: np.ndarray, noise: NoiseSource) -> np.ndarray:
        return exact + discrete_gaussian(self.noisy.share_variance, exact.size, noise).reshape(exact.shape)


@dataclass(frozen=True)
class CentralSettings(PateSettings):
    """PATE-FL whose clients trust the server."""

    def composition(self, facts: Facts) -> Composition:
        noisy = NoisyVotes(self.query_count, self.max_votes, self.sigma, min_clients=1)
        return Composition(
            {"votes": CentralVotes(noisy)},
            "votes, with noise by the server",
            self.unit,
            ADJACENCY[self.unit],
            self.delta,
            view="output only",
            trust=TRUSTED_AGGREGATOR,
            seeded=self.noise_seed is not None,
        )


METHOD = replace(PATE_FL, name="central-pate", settings=CentralSettings)
HERE = f"{__name__}:METHOD"


def of(**changes: Any) -> CentralSettings:
    given = {**SMALL, "clients": CLIENTS, "public_size": QUERIES, "server_epochs": 1, "sigma": SIGMA}
    return build(CentralSettings, given, changes)


def exact(out: Path) -> list[np.ndarray]:
    """What each client's ledger has released."""
    return [read_arrays(path)["votes"] for path in sorted(out.glob("clients/*/ledger/releases/*.npz"))]


def noise(out: Path) -> np.ndarray:
    """What is in the kept sum beside the clients' votes."""
    return np.asarray(read_arrays(out / "checkpoint.npz")["total"] - sum(exact(out)))


def test_clients_send_exact_votes_and_pay_and_the_sum_has_the_noise_once(tmp_path: Path) -> None:
    settings = of()
    result = run_here(HERE, settings, tmp_path / "run")
    votes = exact(tmp_path / "run")
    assert len(votes) == CLIENTS
    for client_id, one in enumerate(votes):
        assert set(np.unique(one)) == {0, 1} and one.sum(axis=1).max() == 1 and one.sum() <= settings.max_votes
        ledger = Ledger(tmp_path / "run" / "clients" / f"{client_id:05d}" / "ledger")
        assert ledger.costs() == list(settings.composition(Facts(10)).costs().values())
    drawn = noise(tmp_path / "run")
    assert drawn.shape == (QUERIES, 10)
    assert 1e-6 < stats.chi2.cdf((drawn**2).sum() / SIGMA**2, drawn.size) < 1 - 1e-6
    assert np.array_equal(read_arrays(tmp_path / "run" / "release.npz")["histogram"], drawn + sum(votes))
    (guarantee,) = result["guarantees"]
    assert (guarantee["status"], guarantee["view"], guarantee["trust"]) == (
        "proved",
        "output only",
        "trusted aggregator",
    )
    assert guarantee["epsilon"] == pytest.approx(settings.composition(Facts(10)).epsilon)
    run_here(HERE, settings, tmp_path / "other")
    assert not np.array_equal(noise(tmp_path / "other"), drawn)  # never the experiment's seed


def test_a_resumed_run_draws_no_second_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two draws about the same votes would be two releases, of which one is paid for."""
    settings, out = of(), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(OneShotStrategy, "new_student", Broken)
        with pytest.raises(RunError, match="MemoryError"):
            run_here(HERE, settings, out)
    drawn = noise(out)
    run_here(HERE, settings, out, resume=True, client=never)
    assert drawn.any() and np.array_equal(noise(out), drawn)
    assert np.array_equal(read_arrays(out / "release.npz")["histogram"], drawn + sum(exact(out)))


def test_under_masks_the_opened_sum_has_it_too(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = run_here(HERE, of(secure_aggregation=True, noise_seed=3), out)
    drawn = noise(out)
    assert 1e-6 < stats.chi2.cdf((drawn**2).sum() / SIGMA**2, drawn.size) < 1 - 1e-6
    assert result["guarantees"][0]["trust"] == "trusted aggregator"  # who opens the sum sees it without noise
    run_here(HERE, of(noise_seed=3), tmp_path / "clear")
    assert np.array_equal(noise(tmp_path / "clear"), drawn)
