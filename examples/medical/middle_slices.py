"""Images of NIfTI volumes, for ``image_reader``: ``pip install 'fedballot[medical]'``, and this folder on PYTHONPATH.

    fedballot run pate-fl --set dataset=scans.csv --set image_size=64 --set image_reader=middle_slices:middle_slice

A function gets the path of a file and returns uint8 pixels (h, w) or (h, w, 3). All parties use the same one, installed
on their own machines; the fingerprint of the public images shows where one differs.
"""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
from numpy.typing import NDArray

Volume = NDArray[np.float32]
LOW, HIGH = 0.5, 99.5  # percentiles of a volume that become black and white: MR has no units


def middle_slice(path: Path) -> NDArray[np.uint8]:
    """The middle axial slice (h, w)."""
    volume = read(path)
    return grey(volume, volume[:, :, volume.shape[2] // 2])


def three_planes(path: Path) -> NDArray[np.uint8]:
    """The middle axial, coronal and sagittal slices as the three colours of one image (h, w, 3): a whole volume."""
    volume = read(path)
    side = max(volume.shape)
    room = np.full((side, side, side), volume.min(), np.float32)
    starts = [(side - size) // 2 for size in volume.shape]
    room[tuple(slice(start, start + size) for start, size in zip(starts, volume.shape, strict=True))] = volume
    middle = side // 2
    planes = (room[:, :, middle], room[:, middle, :], room[middle, :, :])
    return np.stack([grey(volume, plane) for plane in planes], axis=2)


def read(path: Path) -> Volume:
    """A volume (x, y, z) in the nearest standard orientation, right, anterior, superior; of several the first."""
    image = nibabel.as_closest_canonical(nibabel.load(path))
    volume = np.asarray(image.dataobj, dtype=np.float32)
    volume = volume.reshape(*volume.shape[:3], -1)[..., 0]
    return np.nan_to_num(volume)


def grey(volume: Volume, plane: Volume) -> NDArray[np.uint8]:
    """A plane as an image seen from the front or above: up is up; scaled as the whole volume is."""
    low, high = np.percentile(volume, (LOW, HIGH))
    scaled = (plane - low) / max(float(high - low), 1e-6)
    return np.rint(255 * np.clip(scaled, 0, 1)).astype(np.uint8).T[::-1]
