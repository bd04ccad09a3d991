"""The server sharpens: the average of the clients' predictions keeps its order and loses entropy."""

import numpy as np
import pytest
from fedballot_dsfl import sharpen

MEAN = np.array([[0.5, 0.3, 0.2], [0.34, 0.33, 0.33]])


def entropy(rows: np.ndarray) -> np.ndarray:
    return -(rows * np.log(rows)).sum(axis=1)


@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.3])
def test_a_low_temperature_takes_entropy_away_and_keeps_the_order(temperature: float) -> None:
    sharp = sharpen(MEAN, temperature)
    assert sharp.sum(axis=1) == pytest.approx(1)
    assert (sharp.argsort(axis=1) == MEAN.argsort(axis=1)).all()
    assert (entropy(sharp) < entropy(MEAN)).all()


def test_the_ratio_of_two_classes_is_that_of_equation_15() -> None:
    sharp = sharpen(MEAN, 0.1)
    assert sharp[0, 0] / sharp[0, 1] == pytest.approx(np.exp((0.5 - 0.3) / 0.1))
