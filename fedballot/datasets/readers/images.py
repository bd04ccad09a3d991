"""Bringing images of one source to the shape of another."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Array


def fit(x: Array, shape: tuple[int, ...], margin: int = 0) -> NDArray[np.uint8]:
    """Resize images (bicubic, antialiased) into a frame, leaving a black margin.

    Parameters
    ----------
    x : uint8 (n, h, w) or (n, h, w, 3).
    shape : target (h, w) for grey or (h, w, 3) for RGB; grey and RGB are converted into each other.
    margin : pixels left black on every side: 4 of 28 turns a digit that fills its frame into MNIST's layout.

    Returns
    -------
    uint8 (n, *shape)

    Raises
    ------
    SettingsError
        `x` is not a stack of images, the target is not an image, or the margin leaves no room.
    """
    if x.ndim not in (3, 4) or x.dtype != np.uint8 or (x.ndim == 4 and x.shape[-1] != 3):
        raise SettingsError(f"fit: {x.dtype} array of shape {x.shape}; expected uint8 (n, h, w) or (n, h, w, 3)")
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] != 3):
        raise SettingsError(f"fit: target shape {shape}; expected (h, w) or (h, w, 3)")
    height, width = shape[0] - 2 * margin, shape[1] - 2 * margin
    if margin < 0 or height < 1 or width < 1:
        raise SettingsError(f"fit: margin {margin} in a frame {shape}; expected 0 <= margin < half the frame")
    mode = "L" if len(shape) == 2 else "RGB"
    out = np.zeros((len(x), *shape), np.uint8)
    for i, image in enumerate(x):
        resized = Image.fromarray(np.ascontiguousarray(image)).convert(mode)
        resized = resized.resize((width, height), Image.Resampling.BICUBIC)
        out[i, margin : margin + height, margin : margin + width] = np.asarray(resized)
    return out


def transfer(x: Array, margin: int | None, shape: tuple[int, ...], target_margin: int | None) -> Array:
    """Images of one source in the layout of another: same frame and, for centred digits, same margin.

    Parameters
    ----------
    x : uint8 (n, h, w) or (n, h, w, 3).
    margin, target_margin : margin of `x` and of the target in pixels of their own frame, None where a picture has
        none (see `Source.margin`); only when both are known is a margin cut off and another one added.
    shape : target (h, w) or (h, w, 3).
    """
    if margin is None or target_margin is None:
        margin = target_margin = 0
    if x.shape[1:] == shape and margin == target_margin:
        return x
    height, width = x.shape[1:3]
    return fit(x[:, margin : height - margin, margin : width - margin], shape, target_margin)
