import numpy as np
import pytest
from scipy.ndimage import affine_transform, rotate

from fedballot.datasets.features import deskew, hellinger, hog, l2_normalised


def test_deskew_undoes_a_shear() -> None:
    upright = np.zeros((28, 28), np.uint8)
    upright[6:22, 12:16] = 255
    sheared = affine_transform(upright.astype(np.float32), [[1, 0], [0.4, 1]], offset=[0, -0.4 * 13.5], order=1)
    assert np.abs(sheared - upright).mean() > 15
    straightened = deskew(sheared[None].round().astype(np.uint8))[0] * 255
    assert np.abs(straightened - upright).mean() < 4


def test_deskew_centres() -> None:
    x = np.zeros((1, 21, 21), np.uint8)
    x[0, 2:5, 15:18] = 255
    out = deskew(x)[0]
    np.testing.assert_allclose(out[9:12, 9:12], 1, atol=1e-5)
    assert out.sum() == pytest.approx(9, abs=1e-3)


def test_black_and_single_row_images_stay_finite() -> None:
    x = np.zeros((2, 9, 9), np.uint8)
    x[1, 3, 2:7] = 255
    out = deskew(x)
    assert np.isfinite(out).all() and out[0].max() == 0
    np.testing.assert_allclose(out[1, 4, 2:7], 1, atol=1e-5)


def test_hog_tells_the_direction_of_edges_and_not_their_contrast() -> None:
    ramp = np.tile(np.arange(0, 128, 8, dtype=np.uint8), (16, 1))
    horizontal, vertical = hog(np.stack([ramp, ramp.T]))
    # a gradient along the columns has angle 0, halfway between the first and the last of 9 unsigned orientations
    assert set(np.flatnonzero(horizontal.reshape(-1, 9).max(axis=0) > 1e-6)) == {0, 8}
    assert set(np.flatnonzero(vertical.reshape(-1, 9).max(axis=0) > 1e-6)) == {4}
    np.testing.assert_allclose(hog((ramp * 2)[None])[0], horizontal, atol=1e-5)
    np.testing.assert_allclose(hog((255 - ramp)[None])[0], horizontal, atol=1e-5)  # unsigned


def test_hog_shapes_norms_and_colours() -> None:
    x = np.random.default_rng(0).integers(0, 256, (3, 12, 17, 3)).astype(np.uint8)
    out = hog(x)
    assert out.shape == (3, 2 * 3 * 4 * 9) and out.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(out.reshape(3, 6, 36), axis=2), 1, atol=1e-5)
    grey = x[..., 0]
    np.testing.assert_array_equal(hog(np.stack([grey] * 3, axis=3)), hog(grey))
    np.testing.assert_array_equal(hog(x)[1:2], hog(x[1:2]))  # a row is its record's own affair


@pytest.mark.parametrize("shape", [(1, 1), (3, 8), (5, 5), (0, 28, 28)])
def test_hog_of_flat_and_tiny_images_is_finite(shape: tuple[int, ...]) -> None:
    out = hog(np.zeros(shape if len(shape) == 3 else (2, *shape), np.uint8))
    assert np.isfinite(out).all() and out.shape[1] > 0


def test_rotating_an_image_moves_its_orientations() -> None:
    rng = np.random.default_rng(1)
    x = rotate(np.kron(rng.integers(0, 256, (4, 4)), np.ones((4, 4))), 0, reshape=False).astype(np.uint8)
    turned = np.rot90(x)
    energy = [hog(image[None], cell=16).reshape(-1, 9).sum(axis=0) for image in (x, turned)]
    # a quarter turn swaps angle a for a + 90 degrees, which is 4.5 orientations: 0 and 8 lie about 4
    assert energy[0][[0, 8]].sum() == pytest.approx(2 * energy[1][4], rel=0.05)


def test_normalisations_leave_empty_rows_alone() -> None:
    rows = np.array([[3, 4], [0, 0]], np.float32)
    np.testing.assert_allclose(l2_normalised(rows), [[0.6, 0.8], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(hellinger(rows) ** 2, [[3 / 7, 4 / 7], [0, 0]], rtol=1e-6)
