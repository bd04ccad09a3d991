"""Copies of public images: the same for all, shifted by whole pixels, and only of images."""

from __future__ import annotations

import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.datasets.copies import check_images, public_copy


def pool(*shape):
    return np.random.default_rng(0).integers(1, 255, (40, *shape)).astype(np.uint8)


def test_copy_0_is_the_images_themselves():
    x, rows = pool(28, 28), np.array([7, 3])
    assert np.array_equal(public_copy(x, rows, 0, seed=1), x[rows])
    assert np.array_equal(public_copy(pool(5), rows, 0, seed=1), pool(5)[rows])


@pytest.mark.parametrize(("shape", "reach"), [((28, 28), 2), ((8, 8), 1), ((32, 32, 3), 4), ((10, 14, 3), 1)])
def test_each_image_is_shifted_within_reach_and_colour_ones_may_be_mirrored(shape, reach):
    x = pool(*shape)
    found = public_copy(x, np.arange(40), 1, seed=0)
    h, w = shape[:2]
    seen = set()
    for image, copy in zip(x, found, strict=True):
        framed = np.pad(image, [(reach, reach), (reach, reach)] + [(0, 0)] * (len(shape) - 2))
        views = [framed, framed[:, ::-1]] if len(shape) == 3 else [framed]
        places = [
            (number, down, right)
            for number, view in enumerate(views)
            for down in range(2 * reach + 1)
            for right in range(2 * reach + 1)
            if np.array_equal(view[down : down + h, right : right + w], copy)
        ]
        assert len(places) == 1
        seen.add(places[0])
    assert {number for number, _, _ in seen} == set(range(len(shape) - 1))
    assert {down for _, down, _ in seen} == {right for _, _, right in seen} == set(range(2 * reach + 1))


def test_a_copy_depends_on_seed_number_and_row_and_not_on_the_other_rows():
    x = pool(28, 28)
    whole = public_copy(x, np.arange(40), 3, seed=5)
    assert np.array_equal(public_copy(x, np.array([9, 2]), 3, seed=5), whole[[9, 2]])
    assert not np.array_equal(public_copy(x, np.arange(40), 4, seed=5), whole)
    assert not np.array_equal(public_copy(x, np.arange(40), 3, seed=6), whole)
    assert whole.dtype == np.uint8


def test_vectors_have_no_copies():
    with pytest.raises(SettingsError, match=r"answers=3 .* vectors of 5 features: set answers=1"):
        public_copy(pool(5), np.arange(3), 2, seed=0)
    check_images((5,), 1)
