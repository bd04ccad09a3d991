"""A DICOM file as 8-bit pixels, by pydicom: ``pip install 'fedballot[medical]'``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

SUFFIXES = (".dcm", ".dicom")
_COLOUR = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_PARTIAL_420", "YBR_ICT", "YBR_RCT", "PALETTE COLOR")
_MOST_BITS = 16


def is_dicom(path: Path) -> bool:
    """Whether a file is DICOM: by its name, or, as many have none, by the four letters behind the preamble."""
    if path.suffix.lower() in SUFFIXES:
        return True
    with path.open("rb") as stream:
        return stream.read(132)[128:] == b"DICM"


def read_dicom(path: Path) -> NDArray[np.uint8]:
    """Pixels uint8 (h, w) or (h, w, 3).

    Grey values are rescaled as the file says (slope and intercept, or its table), then seen through its first window or
    table of grey levels; without one, the whole range that its bits can hold becomes 0 to 255. MONOCHROME1, in which
    much is dark, is inverted.

    Raises
    ------
    DataError
        No pydicom, no DICOM, no pixels, several frames, more than 16 bits, or a compression that nothing here decodes.
    """
    try:
        from pydicom import dcmread
        from pydicom.errors import InvalidDicomError
    except ImportError as error:
        raise DataError(f"{path}: DICOM needs pydicom; run pip install 'fedballot[medical]'") from error
    try:
        dataset = dcmread(path)
    except (InvalidDicomError, OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: cannot be read as DICOM ({error}); expected a complete file") from error
    frames = int(dataset.get("NumberOfFrames") or 1)
    kind = str(dataset.get("PhotometricInterpretation", ""))
    bits = int(dataset.get("BitsStored", 0))
    if "PixelData" not in dataset:
        raise DataError(f"{path}: holds no pixels ({dataset.get('Modality', 'DICOM')}); expected one image")
    if frames > 1:
        raise DataError(f"{path}: {frames} frames in one file; expected one image: image_reader names what picks one")
    if not 0 < bits <= _MOST_BITS or (kind not in _COLOUR and not kind.startswith("MONOCHROME")):
        raise DataError(f"{path}: {kind or 'unknown pixels'} of {bits} bits; expected grey or colour of 1 to 16 bits")
    try:
        return _colour(dataset, kind, bits) if kind in _COLOUR else _grey(dataset, kind)
    except Exception as error:  # decoders of several packages raise what they like
        raise DataError(f"{path}: its pixels cannot be decoded ({' '.join(str(error).split())})") from error


def _colour(dataset: Dataset, kind: str, bits: int) -> NDArray[np.uint8]:
    from pydicom.pixels.processing import apply_color_lut

    pixels = np.asarray(dataset.pixel_array)
    if kind == "PALETTE COLOR":
        pixels = apply_color_lut(pixels, dataset)[..., :3]
        bits = 8 * pixels.dtype.itemsize
    return (pixels >> max(0, bits - 8)).astype(np.uint8)


def _grey(dataset: Dataset, kind: str) -> NDArray[np.uint8]:
    from pydicom.pixels.processing import apply_modality_lut, apply_voi_lut

    values = np.asarray(apply_modality_lut(dataset.pixel_array, dataset), dtype=np.float64)
    low, high = _range(dataset)
    if "VOILUTSequence" in dataset:
        values = np.asarray(apply_voi_lut(values.astype(np.int64), dataset), dtype=np.float64)
        low, high = 0.0, 2.0 ** int(dataset.VOILUTSequence[0].LUTDescriptor[2]) - 1
    elif "WindowCenter" in dataset and "WindowWidth" in dataset:
        values = np.asarray(apply_voi_lut(values, dataset), dtype=np.float64)
    if not (np.isfinite(values).all() and high > low):
        raise ValueError(f"values {values.min():g} to {values.max():g} in the range {low:g} to {high:g}")
    grey = np.rint(255 * (np.clip(values, low, high) - low) / (high - low)).astype(np.uint8)
    return 255 - grey if kind == "MONOCHROME1" else grey


def _range(dataset: Any) -> tuple[float, float]:
    """Lowest and highest value that pixels can have once they are rescaled, which is also what a window gives."""
    if "ModalityLUTSequence" in dataset:
        return 0.0, 2.0 ** int(dataset.ModalityLUTSequence[0].LUTDescriptor[2]) - 1
    bits, signed = int(dataset.BitsStored), int(dataset.PixelRepresentation) == 1
    ends = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if signed else (0.0, 2.0**bits - 1)
    slope, intercept = dataset.get("RescaleSlope"), dataset.get("RescaleIntercept")
    if slope is not None and intercept is not None:
        ends = (ends[0] * float(slope) + float(intercept), ends[1] * float(slope) + float(intercept))
    return min(ends), max(ends)
