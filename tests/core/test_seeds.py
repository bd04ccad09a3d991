"""Streams of a run's seed: their numbers are those of every run so far."""

import numpy as np
import pytest

from fedballot.core.seeds import Stream, generator, seed_of


def test_numbers_of_streams_stay():
    assert {name: int(stream) for name, stream in Stream.__members__.items()} == {
        "QUERIES": 1,
        "STUDENT": 2,
        "PRETRAINING": 3,
        "ROUND_QUERIES": 4,
        "SHARED_MODEL": 5,
        "COHORT": 6,
        "PUBLIC_SPLIT": 7,
        "GENERATOR": 7,
        "SEARCH": 7,
        "SELECTOR": 7,
        "SUBSETS": 7,
        "COPIES": 8,
        "CELLS": 9,
        "WORLDS": 10,
    }


@pytest.mark.parametrize("further", [(), (0,), (3, 2)])
def test_numbers_are_numpy_s_own(further):
    words = [5, 6, *further]
    expected = np.random.default_rng(words).integers(0, 2**32, 9)
    assert np.array_equal(generator(5, Stream.COHORT, *further).integers(0, 2**32, 9), expected)
    assert seed_of(5, Stream.COHORT, *further) == np.random.SeedSequence(words).generate_state(1)[0]
