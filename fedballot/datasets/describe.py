"""What a data set holds and how a partition of it looks, as JSON values."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedballot.datasets.examples import Array, Examples, Indices, Source
from fedballot.datasets.federation import build
from fedballot.datasets.fingerprint import source_fingerprint
from fedballot.datasets.multilabel import is_multi_label
from fedballot.datasets.sources import load_as
from fedballot.datasets.spec import FederationSpec


def describe(what: Source | FederationSpec) -> dict[str, Any]:
    """Describe a source, or a federation built from one.

    Returns
    -------
    dict with `name, shape, dtype, classes, train, test, fingerprint, groups`, where `train` and `test` hold
    `records` and `per_class`; `fingerprint` is that of the training records and their schema; `groups` maps names to
    records; `notes` says what was decided about the files. For a
    spec also `partition`: `scheme, clients, records, size, classes_per_client, counts, public, test`, where `size` and
    `classes_per_client` hold `min, median, max` over clients, `counts` is the clients x classes matrix, `classes` are
    those that models answer for.
    """
    if isinstance(what, Source):
        return _source(what)
    data = build(what)
    counts = label_counts(data.private.y, data.parts, len(data.classes))
    sizes = np.array([len(part) for part in data.parts])
    reading = what.reading.through(data.schema if what.public_dataset else None, what.test_source == "public")
    return _source(load_as(what.dataset, reading)) | {
        "classes": list(data.classes),
        "partition": {
            "scheme": what.partition,
            "clients": what.clients,
            "records": int(sizes.sum()),
            "size": _spread(sizes),
            "classes_per_client": _spread((counts > 0).sum(1)),
            "counts": counts.tolist(),
            "public": {
                "records": len(data.public_y),
                "per_class": _per_class(data.public_y, len(data.classes)).tolist(),
                "fingerprint": data.public_fingerprint,
            },
            "test": {
                "records": len(data.test_y),
                "per_class": _per_class(data.test_y, len(data.classes)).tolist(),
            },
        },
    }


def label_counts(y: Array, parts: Sequence[Indices], n_classes: int) -> Indices:
    """Records per client and class, int64 (clients, classes)."""
    return np.stack([_per_class(y[part], n_classes) for part in parts])


def _per_class(y: Array, n_classes: int) -> Indices:
    """Records of each class, or with a positive label of each class; unknown ones (-1) do not count."""
    if is_multi_label(y):
        return np.asarray((y == 1).sum(axis=0), dtype=np.int64)
    return np.bincount(y[y >= 0], minlength=n_classes).astype(np.int64)


def _source(source: Source) -> dict[str, Any]:
    groups = source.train.groups
    sizes = [] if groups is None else np.bincount(groups, minlength=len(source.group_names)).tolist()
    return {
        "name": source.name,
        "shape": list(source.train.x.shape[1:]),
        "dtype": str(source.train.x.dtype),
        "classes": list(source.classes),
        "train": _examples(source.train, len(source.classes)),
        "test": None if source.test is None else _examples(source.test, len(source.classes)),
        "fingerprint": source_fingerprint(source),
        "groups": dict(zip(source.group_names, sizes, strict=True)),
        "notes": list(source.notes),
    }


def _examples(examples: Examples, n_classes: int) -> dict[str, Any]:
    return {"records": len(examples), "per_class": _per_class(examples.y, n_classes).tolist()}


def _spread(values: Indices) -> dict[str, float]:
    return {"min": int(values.min()), "median": float(np.median(values)), "max": int(values.max())}
