"""Features for the neighbour graph that the server builds over the public pool."""

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from fedballot.datasets.examples import Array
from fedballot.errors import SettingsError

KINDS = ("pixels", "deskew")
_BATCH = 512


def graph_features(x: Array, kind: str) -> NDArray[np.float32]:
    """Feature rows whose Euclidean distance says how alike two public records are.

    Parameters
    ----------
    x : uint8 images (n, h, w) or (n, h, w, 3), or float features (n, d).
    kind : "pixels": images scaled to [0, 1] and flattened, features standardised per column;
        "deskew": grey images sheared upright and centred by their moments first (for digits).

    Returns
    -------
    float32 (n, d)

    Raises
    ------
    SettingsError
        Unknown kind, or "deskew" for anything but grey images.
    """
    if kind not in KINDS:
        raise SettingsError(f"graph_features: kind {kind!r}; expected one of {', '.join(KINDS)}")
    if kind == "deskew":
        if x.ndim != 3:
            raise SettingsError(
                f"graph_features: 'deskew' needs grey images (n, h, w), not shape {x.shape}; use 'pixels'"
            )
        return deskew(x).reshape(len(x), -1)
    if x.ndim == 2:
        return _standardised(x)
    return (x.reshape(len(x), -1) / np.float32(255)).astype(np.float32, copy=False)


def deskew(x: Array) -> NDArray[np.float32]:
    """Grey images (n, h, w) sheared upright by their second moments, centred, scaled to [0, 1].

    The shear is the slope of the regression of column on row, weighted by grey level, kept within 45 degrees: a
    flat stroke has almost no height to take a slope from. A black image stays black.
    """
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


def _standardised(x: Array) -> NDArray[np.float32]:
    centred = x - x.mean(0, dtype=np.float64)
    spread = centred.std(0)
    # A constant column says nothing about likeness: it becomes 0 instead of 0/0.
    standardised: NDArray[np.float32] = (centred / np.where(spread > 0, spread, 1)).astype(np.float32)
    return standardised
