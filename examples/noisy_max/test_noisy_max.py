"""The noise has the probabilities that the guarantee counts on."""

import math
from typing import Literal, get_args

import numpy as np
import pytest
from fedballot_noisy_max import NoisyMax, NoisyMaxSettings

from fedballot import Facts
from fedballot.core.setting import build
from fedballot.privacy.noise.randomness import seeded_noise

Noise = Literal["laplace", "exponential"]
each = pytest.mark.parametrize("noise", get_args(Noise))
DRAWS = 40_000


def share_of_class_0(noise: Noise, counts: tuple[int, int], scale: float) -> float:
    """How often class 0 wins."""
    tally = np.tile(np.array(counts), (DRAWS, 1))
    return float(np.mean(NoisyMax(DRAWS, scale, noise).release(tally, seeded_noise(1)) == 0))


def test_the_winner_has_the_probability_of_the_textbook() -> None:
    """The difference of two exponentials is Laplace; that of two Laplace draws has a known tail, too."""
    lead, scale = 2, 2.0
    tail = math.exp(-lead / scale)
    laplace = 1 - tail * (0.5 + lead / scale / 4)
    assert share_of_class_0("exponential", (5, 3), scale) == pytest.approx(1 - tail / 2, abs=0.01)
    assert share_of_class_0("laplace", (5, 3), scale) == pytest.approx(laplace, abs=0.01)


@each
def test_no_client_moves_a_probability_by_more_than_it_is_charged(noise: Noise) -> None:
    epsilon = NoisyMax(1, 2.0, noise).cost("client").epsilon
    before, after = (share_of_class_0(noise, counts, 2.0) for counts in ((3, 5), (2, 5)))
    assert after * math.exp(epsilon) * 1.03 > before > after * 1.2
    assert NoisyMax(1, 2.0, noise).cost("record").epsilon == 2 * epsilon == 1.0


@each
def test_the_target_is_the_epsilon_of_all_votes(noise: Noise) -> None:
    settings = build(NoisyMaxSettings, {"queries": 30, "epsilon": 7.0, "noise": noise})
    client, record = settings.composition(Facts(classes=10)).guarantees()
    assert client.epsilon <= 7.0 < client.epsilon * 1.001 and client.delta == 0
    assert record.epsilon == pytest.approx(2 * client.epsilon)
