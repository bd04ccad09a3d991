"""A model that is not ours, tried on a few public records: trained, stored, taken up again, asked.

What fails here would fail at a client behind its charge, or at a server that has paid for its labels.
"""

from __future__ import annotations

import math
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from fedballot.core.errors import FedballotError, SettingsError
from fedballot.datasets.federation import FederatedData
from fedballot.learners.base import Learner
from fedballot.learners.checks import Inputs
from fedballot.learners.registry import LEARNERS, LearnerInfo, get_learner, make_learner

FEW = 40  # records of the first try
MOST = 4000  # of the second, for models that need more records than features
_passed: set[tuple[object, ...]] = set()


def try_learner(name: str, public_x: Inputs, *, n_classes: int, multi_label: bool = False) -> None:
    """Refuse a learner that cannot be trained, stored or asked; one of ours is built only.

    Parameters
    ----------
    public_x
        Public records, which it is tried on with made-up labels; once in a process for each kind of learner and data.

    Raises
    ------
    SettingsError
        Naming the learner, and what went wrong.
    """
    if name in LEARNERS and not multi_label and _surely_built(LEARNERS[name]):
        return
    info, shape = get_learner(name), tuple(public_x.shape[1:])
    make = partial(make_learner, name, input_shape=shape, seed=0, epochs=1, batch_size=8, lr=1e-3)
    made = make(n_classes=n_classes, multi_label=multi_label)
    key = (name, n_classes, shape, public_x.dtype.str, multi_label)
    if key in _passed or not (info.foreign or "(" in name) or len(public_x) == 0:
        return
    classes = 2 if multi_label else n_classes  # labels are alike
    width, few = math.prod(shape), 10 if info.needs_torch else FEW
    for count in (few, min(MOST, few + 6 * width)):
        x = np.resize(public_x[:count], (count, *shape))
        one = made if classes == n_classes else make(n_classes=classes, multi_label=multi_label)
        try:
            _try(one, make(n_classes=classes, multi_label=multi_label), x, classes, multi_label=multi_label)
        except _Unstored as error:
            raise SettingsError(f"learner {name!r} cannot be stored and taken up again: {error}") from error
        except Exception as error:  # foreign code: whatever it raises, the setting names it
            if count > few or info.needs_torch:
                words = str(error) if isinstance(error, FedballotError) else f"{type(error).__name__}: {error}"
                raise SettingsError(f"learner {name!r} failed when tried on {count} public records: {words}") from error
        else:
            _passed.add(key)
            return


def try_as(setting: str, name: str, x: Inputs, data: FederatedData, *, instead: str = "") -> None:
    """:func:`try_learner` on what it will read, naming the setting.

    Parameters
    ----------
    x
        Public records as it sees them.
    data
        Whose public records, classes and kind of labels it has.
    instead
        What to set for it to read the records themselves; told where it can.

    Raises
    ------
    SettingsError
        As `try_learner`.
    """
    of = partial(try_learner, n_classes=len(data.classes), multi_label=data.multi_label)
    try:
        of(name, x)
    except SettingsError as error:
        more = ""
        if instead:
            with suppress(SettingsError):
                of(name, data.public_x)
                more = f". With {instead} it reads the records themselves"
        raise SettingsError(f"{setting}={name}: {error}{more}") from error


def _surely_built(ours: LearnerInfo) -> bool:
    """Whether nothing can be wrong without parameters: building it would only import its library."""
    return not (ours.foreign or ours.needs_torch) and ours.shapes == "any"


class _Unstored(Exception):
    """Training worked, and then the model could not be kept."""


def _try(one: Learner, other: Learner, x: Inputs, n_classes: int, *, multi_label: bool) -> None:
    """Train on the first and the last class, as a client may have no others; keep, take up, ask; learn from others."""
    first = np.arange(len(x)) % 2 == 0
    labels = np.where(first, 0, n_classes - 1)
    y = np.where(first[:, None], 0, np.eye(n_classes, dtype=np.int8)[-1]) if multi_label else labels
    one.fit(x, y.astype(np.int64))
    said = one.predict_logits(x)
    if said.shape != (len(x), n_classes) or not np.isfinite(said).all():
        raise ValueError(f"gives logits of shape {said.shape}, not all finite")
    try:
        with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
            one.save(Path(scratch) / "model")
            other.load(Path(scratch) / "model")
        same = np.array_equal(other.predict_logits(x), said)
    except Exception as error:  # foreign code, as above
        raise _Unstored(str(error) if isinstance(error, FedballotError) else repr(error)) from error
    if not same:
        raise _Unstored("it predicts otherwise then")
    if not multi_label:
        soft = np.eye(n_classes, dtype=np.float32)[labels]
        weights = np.full(len(x), 0.5, dtype=np.float32)
        other.distill(x, soft, weights=weights, progress=lambda done, of: None)
    if not np.isfinite(other.predict_logits(x[:2])).all():
        raise ValueError("gives logits that are not finite")
