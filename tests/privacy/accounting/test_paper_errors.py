"""What docs/papers.md says, worked out here; more figures are among the reference values."""

from pathlib import Path

import numpy as np
import pytest

import fedballot.privacy
from fedballot.privacy.accounting import GaussianCost, gaussian, papers
from fedballot.privacy.mechanisms import heads
from fedballot.privacy.mechanisms.nfdp import NfdpSample

PAGE = (Path(__file__).parents[3] / "docs" / "privacy.md").read_text(encoding="utf-8")


def test_dividing_by_the_largest_norm_lets_one_record_move_all_others() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 2500)
    features = rng.normal(size=(2500, 20))
    features[np.arange(2500), labels] += 3

    def fitted(rows: np.ndarray) -> np.ndarray:
        scaled = heads.prepare(rows / np.linalg.norm(rows, axis=1).max(), 1.0)
        return heads.fit_head(scaled, labels, 10, 0.01).weights

    longer = features.copy()
    longer[0] *= 100
    moved = float(np.linalg.norm(fitted(features) - fitted(longer)))
    assert moved > 50 * heads.sensitivity(0.01, 2500)
    clipped = heads.prepare(features, 3.0), heads.prepare(longer, 3.0)
    moved = float(np.linalg.norm(np.subtract(*(heads.fit_head(x, labels, 10, 0.01).weights for x in clipped))))
    assert moved <= heads.sensitivity(0.01, 2500)


@pytest.mark.parametrize(("epsilon", "saved"), [(0.5, 0.675), (0.1, 0.716)])
def test_noise_saved_against_fedauxfdp(epsilon: float, saved: float) -> None:
    ours = gaussian.sigma(heads.sensitivity(0.01, 2500), epsilon, 1e-5)
    assert 1 - ours / papers.fedaux_sigma(10, 0.01, 2500, epsilon, 1e-5) == pytest.approx(saved, abs=0.001)


def test_noise_of_15_on_votes_of_three_clients_is_close_to_guessing() -> None:
    tally = np.random.default_rng(0).normal(0, 15, (200_000, 10))
    tally[:, 0] += 3  # all clients agree
    assert np.mean(tally.argmax(axis=1) == 0) == pytest.approx(0.134, abs=0.004)


def test_the_sample_of_table_2_is_18_where_it_says_16() -> None:
    assert round(NfdpSample(2880, 18).delta, 4) == 0.0062 != round(NfdpSample(2880, 16).delta, 4)
    assert round(NfdpSample(300, 18).delta, 4) == 0.0583 != round(NfdpSample(300, 16).delta, 4)
    assert papers.nfdp_epsilon(2880, 2880, True) == pytest.approx(2.302585 * 0.4342, abs=1e-4)


def test_the_page_names_every_mechanism_and_every_word_of_a_guarantee() -> None:
    folder = Path(fedballot.privacy.__file__).parent / "mechanisms"
    missing = [path.stem for path in folder.glob("*.py") if f"`{path.stem}`" not in PAGE and path.stem != "__init__"]
    assert not missing
    words = [
        "record",
        "client",
        "add-remove",
        "replace-one",
        "zero-out",
        "output only",
        "server's view",
        "network",
        "proved",
        "paper's claim",
        "seeded",
        "none",
    ]
    assert not [word for word in words if f"**{word}**" not in PAGE]
    assert GaussianCost.__name__ in PAGE
