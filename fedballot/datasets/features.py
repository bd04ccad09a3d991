"""Features that need no fitting: pure functions from arrays to float32 arrays."""

import numpy as np
from numpy.typing import NDArray

from fedballot.datasets.examples import Array

_BATCH = 512


def deskew(x: Array) -> NDArray[np.float32]:
    """Grey images (n, h, w) sheared upright by their second moments, centred, scaled to [0, 1].

    The shear is the slope of the regression of column on row, weighted by grey level, kept within 45 degrees: a
    flat stroke has almost no height to take a slope from. A black image stays black.
    """
    from scipy.ndimage import map_coordinates

    n, height, width = x.shape
    rows = np.arange(height, dtype=np.float64)[:, None]
    columns = np.arange(width, dtype=np.float64)[None, :]
    out = np.empty((n, height, width), np.float32)
    for start in range(0, n, _BATCH):
        batch = x[start : start + _BATCH] / np.float32(255)
        mass = np.maximum(batch.sum((1, 2), dtype=np.float64, keepdims=True), 1e-12)
        weights = batch / mass
        row0 = (weights * rows).sum((1, 2), keepdims=True)
        column0 = (weights * columns).sum((1, 2), keepdims=True)
        down = rows - row0
        covariance = (weights * down * (columns - column0)).sum((1, 2), keepdims=True)
        variance = (weights * down**2).sum((1, 2), keepdims=True)
        slope = np.clip(covariance / np.maximum(variance, 1e-9), -1, 1)
        from_centre = rows - (height - 1) / 2
        source_rows = row0 + from_centre + 0 * columns
        source_columns = column0 + (columns - (width - 1) / 2) + slope * from_centre
        image = np.broadcast_to(np.arange(len(batch))[:, None, None], source_columns.shape)
        map_coordinates(
            batch,
            [image, source_rows, source_columns],
            output=out[start : start + _BATCH],
            order=1,
            mode="constant",
        )
    return out


def hog(x: Array, *, cell: int = 4, orientations: int = 9) -> NDArray[np.float32]:
    """Histograms of oriented gradients (n, d) of images (n, h, w) or (n, h, w, 3), uint8 or floats in [0, 1].

    Of colours the one with the steepest gradient counts. Votes go to the two nearest orientations (unsigned) of
    square cells of ``cell`` pixels; blocks of 2 x 2 cells are scaled to L2 norm 1, cut at .2, and scaled again. What
    does not fill a cell at the right and lower edge is left out; fewer than 2 cells a side are one block.

    Source: Dalal and Triggs 2005, "Histograms of oriented gradients for human detection", sections 4 and 6 (votes are
    not interpolated over cells).
    """
    n, height, width = x.shape[:3]
    cell = max(1, min(cell, height, width))
    down, across = height // cell, width // cell
    block = min(2, down), min(2, across)
    out = np.empty((n, (down - block[0] + 1) * (across - block[1] + 1), block[0] * block[1] * orientations), np.float32)
    for start in range(0, n, _BATCH):
        cells = _cells(x[start : start + _BATCH], cell, down, across, orientations)
        views = np.lib.stride_tricks.sliding_window_view(cells, block, axis=(1, 2))
        blocks = views.transpose(0, 1, 2, 4, 5, 3).reshape(len(cells), *out.shape[1:])
        out[start : start + _BATCH] = l2_normalised(np.minimum(l2_normalised(blocks), np.float32(0.2)))
    return out.reshape(n, out.shape[1] * out.shape[2])


def _cells(x: Array, cell: int, down: int, across: int, orientations: int) -> NDArray[np.float32]:
    """Gradient energy by orientation of each cell (n, down, across, orientations)."""
    images = x.reshape(*x.shape[:3], -1).astype(np.float32)  # their scale cancels out in the blocks
    vertical, horizontal = np.zeros_like(images), np.zeros_like(images)
    vertical[:, 1:-1] = images[:, 2:] - images[:, :-2]
    horizontal[:, :, 1:-1] = images[:, :, 2:] - images[:, :, :-2]
    steepest = (vertical**2 + horizontal**2).argmax(axis=3)[..., None]
    vertical, horizontal = (np.take_along_axis(a, steepest, axis=3)[..., 0] for a in (vertical, horizontal))
    magnitude = np.hypot(vertical, horizontal)
    position = np.arctan2(vertical, horizontal) % np.pi * (orientations / np.pi) - 0.5
    lower = np.floor(position).astype(np.int64)
    upper_share = (position - lower).astype(np.float32)
    cells = np.empty((len(x), down, across, orientations), np.float32)
    for orientation in range(orientations):
        vote = np.where(lower % orientations == orientation, 1 - upper_share, np.float32(0))
        vote += np.where((lower + 1) % orientations == orientation, upper_share, np.float32(0))
        vote = (vote * magnitude)[:, : down * cell, : across * cell]
        cells[..., orientation] = vote.reshape(len(x), down, cell, across, cell).sum(axis=(2, 4))
    return cells


def l2_normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Arrays scaled to L2 norm 1 along the last axis; those of norm 0 stay 0."""
    norms = np.sqrt(np.einsum("...i,...i->...", rows, rows, dtype=np.float64))[..., None]
    return np.asarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)


def hellinger(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Square roots of non-negative rows (n, d) scaled to sum 1: their distance is the Hellinger distance of counts."""
    sums = rows.sum(axis=1, keepdims=True, dtype=np.float64)
    return np.asarray(np.sqrt(rows / np.where(sums > 0, sums, 1)), dtype=np.float32)
