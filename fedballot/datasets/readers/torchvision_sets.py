"""torchvision's copies of public image sets, downloaded on first use."""

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.errors import DataError
from fedballot.datasets import cache
from fedballot.datasets.examples import Array

_TIMEOUT_S = 30.0

# Our name -> torchvision's class, and the arguments that choose its training and its test split.
SETS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "mnist": ("MNIST", {"train": True}, {"train": False}),
    "fashion-mnist": ("FashionMNIST", {"train": True}, {"train": False}),
    "usps": ("USPS", {"train": True}, {"train": False}),
    "cifar10": ("CIFAR10", {"train": True}, {"train": False}),
    "cifar100": ("CIFAR100", {"train": True}, {"train": False}),
    "svhn": ("SVHN", {"split": "train"}, {"split": "test"}),
    "emnist": ("EMNIST", {"split": "balanced", "train": True}, {"split": "balanced", "train": False}),
    "stl10": ("STL10", {"split": "train"}, {"split": "test"}),
}


def read(name: str) -> dict[str, Array]:
    """Both splits of a set as `x_train, y_train, x_test, y_test`: uint8 images (n, h, w[, 3]) and int64 labels.

    Where torchvision knows the names of the classes, they are under `classes`.

    Looks into `$FEDBALLOT_DATA` first, then downloads into the cache folder's `torchvision`.

    Raises
    ------
    DataError
        torchvision is missing, or the set is neither there nor to be downloaded.
    """
    try:
        from torchvision import datasets as torchvision_datasets
    except ImportError as error:
        raise DataError(
            f"{name}: not in $FEDBALLOT_DATA, and torchvision, which would download it, is not installed; "
            "run pip install 'fedballot[torch]' or set FEDBALLOT_DATA to a folder that holds it"
        ) from error
    kind, train, test = SETS[name]
    make = getattr(torchvision_datasets, kind)
    own = os.environ.get("FEDBALLOT_DATA")
    if own:
        with contextlib.suppress(RuntimeError, OSError):
            return _arrays(make, Path(own), train, test, download=False)
    root = cache.folder() / "torchvision"
    try:
        root.mkdir(parents=True, exist_ok=True)
        return _arrays(make, root, train, test, download=True)
    except (RuntimeError, OSError) as error:
        raise DataError(
            f"{name}: could not be downloaded into {root} ({error}); connect to the internet, or put torchvision's "
            "copy into the folder that FEDBALLOT_DATA names"
        ) from error


def _arrays(make: Any, root: Path, train: dict[str, Any], test: dict[str, Any], download: bool) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT_S)  # torchvision sets none: a dead connection would hang
    try:
        for part, options in (("train", train), ("test", test)):
            with contextlib.redirect_stdout(sys.stderr):
                loaded = make(str(root), download=download, **options)
            arrays[f"x_{part}"], arrays[f"y_{part}"] = _images(loaded), _labels(loaded)
        if hasattr(loaded, "classes"):
            arrays["classes"] = np.array(loaded.classes)
    finally:
        socket.setdefaulttimeout(before)
    return arrays


def _images(loaded: Any) -> Array:
    x = np.asarray(loaded.data)
    if x.ndim == 4 and x.shape[1] == 3:
        x = x.transpose(0, 2, 3, 1)
    if type(loaded).__name__ == "EMNIST":
        x = x.transpose(0, 2, 1)  # EMNIST's files hold the pictures with rows and columns exchanged
    return np.ascontiguousarray(x)


def _labels(loaded: Any) -> Array:
    labels = loaded.labels if hasattr(loaded, "labels") else loaded.targets
    return np.asarray(labels).astype(np.int64)
