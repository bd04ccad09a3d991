"""Data and models given as objects, as the texts that settings hold: worker processes and ``--resume`` need names.

Data are written once into the cache, under a name that is a digest of their content; only their owner may read them.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.calls import write_name
from fedballot.core.errors import SettingsError
from fedballot.core.files import write_atomic
from fedballot.datasets import cache
from fedballot.learners.stored import store

DATA = ("dataset", "public_dataset")
LABEL = "label"


def as_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as their texts and numbers, where some were given as objects.

    Several private data sets are one for each client: ``clients`` and ``partition`` follow, unless they are given.

    Raises
    ------
    SettingsError
        If an object is nothing that can be handed to other processes: names the setting, and what can.
    """
    out: dict[str, Any] = {}
    for name, value in values.items():
        if name in DATA:
            out[name] = data_name(name, value)
        elif isinstance(value, list | tuple):
            out[name] = [plain(name, one) for one in value]
        else:
            out[name] = plain(name, value)
    private = values.get("dataset")
    if isinstance(private, list):
        out = {"clients": len(private), "partition": "by-group", **out}
    return out


def plain(name: str, value: Any) -> Any:
    """A setting's value as a text, a number, yes or no, or None."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    return model_name(name, value)


def values_in(name: str, values: Any) -> tuple[Any, ...]:
    """What an argument that takes several holds.

    Raises
    ------
    SettingsError
        If it is one value, or there is none.
    """
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise SettingsError(f"{name}={values!r}: expected a list of one or more, such as {name}=[{_example(values)}]")
    return tuple(values)


def _example(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float) and value else "..."


# models


def model_name(setting: str, model: Any) -> str:
    """What stands for a model in settings: where its class or function is imported from, and its parameters.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> model_name("server_model", SVC(C=3.0))
    'sklearn.svm:SVC(C=3.0)'
    """
    if isinstance(model, type) or inspect.isfunction(model):
        return _importable(setting, model)
    if not (hasattr(model, "fit") and hasattr(model, "get_params")):
        raise SettingsError(
            f"{setting}={model!r}: no model; give a name, an unfitted classifier with get_params, a class, or a "
            "function of a module that makes a classifier or a torch module"
        )
    try:
        parameters = _changed(model)
        return write_name(_importable(setting, type(model)), parameters)
    except (SettingsError, TypeError, ValueError):  # a pipeline, or a parameter that is an object
        return f"fedballot.learners.stored:estimator(digest={store(setting, model)!r})"


def _changed(model: Any) -> dict[str, Any]:
    """Parameters that are not their class's defaults."""
    usual = type(model)().get_params(deep=False)
    parameters = model.get_params(deep=False)
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in parameters.items()
        if name not in usual or (value is not usual[name] and repr(value) != repr(usual[name]))
    }


def _importable(setting: str, target: Callable[..., Any]) -> str:
    """``module:NAME`` of a class or function; the shortest module of its package that has it."""
    module, name = target.__module__, target.__qualname__
    if module == "__main__" or "<" in name:
        raise SettingsError(
            f"{setting}={name}: defined in {'a notebook or script' if module == '__main__' else 'a function'}, where "
            "the processes of clients cannot import it; put it into a module (a .py file beside it) and import it"
        )
    parts = module.split(".")
    for length in range(1, len(parts)):
        shorter = ".".join(parts[:length])
        if getattr(sys.modules.get(shorter), name, None) is target:
            return f"{shorter}:{name}"
    return f"{module}:{name}"


# data


def data_name(setting: str, data: Any) -> str:
    """A name or path as it is; else the file, or the pattern of the files, in which the records now stand.

    Parameters
    ----------
    data
        A text or path; a data frame with a column of classes; a pair ``(x, y)``, whose x is an array or a data frame;
        a list of these, one for each client.
    """
    if isinstance(data, str | Path):
        return str(data)
    if isinstance(data, list):
        parts = [_content(f"{setting}[{place}]", one) for place, one in enumerate(data)]
        kinds = {kind for kind, _, _ in parts}
        if len(kinds) != 1:
            raise SettingsError(
                f"{setting}: holds {' and '.join(sorted(kinds)) or 'nothing'}; expected data of one kind"
            )
        digest = hashlib.sha256("".join(found for _, found, _ in parts).encode()).hexdigest()[:32]
        folder, (kind,) = cache.folder() / "objects" / digest, kinds
        for place, (_, _, write) in enumerate(parts):
            _put(folder / f"{place:05d}.{kind}", write)
        return str(folder / f"*.{kind}")
    return _stored(*_content(setting, data))


def _content(setting: str, data: Any) -> tuple[str, str, Callable[[Any], object]]:
    """Kind of file, digest of the content, and what writes it."""
    if isinstance(data, tuple) and len(data) == 2:
        x, y = data
        if len(x) != len(y):
            raise SettingsError(f"{setting}: {len(x)} records with {len(y)} labels; expected as many of each")
        check_index(setting, x, y)
        if not hasattr(x, "to_csv"):
            return _arrays(x=np.asarray(x), y=np.asarray(y))
        if LABEL in x.columns:
            raise SettingsError(f"{setting}: x has a column {LABEL!r}, and y is given; leave one out")
        data = x.assign(**{LABEL: np.asarray(y)})
    if not hasattr(data, "to_csv") or not hasattr(data, "columns"):
        raise SettingsError(
            f"{setting}: a {type(data).__name__}; expected a name, a path, a data frame with a column of classes, a "
            "pair (x, y), or a list of such, one for each client"
        )
    named = any(name is not None for name in data.index.names)  # a column like any other
    text: bytes = (data.reset_index() if named else data).to_csv(index=False).encode()
    return "csv", hashlib.sha256(text).hexdigest()[:32], lambda stream: stream.write(text)


def check_index(what: str, x: Any, y: Any) -> None:
    """Refuse pandas objects whose rows are not the same: they would be paired by their places.

    Raises
    ------
    SettingsError
        Naming what they are.
    """
    if hasattr(x, "columns") and hasattr(y, "index") and hasattr(y, "to_numpy") and not x.index.equals(y.index):
        raise SettingsError(
            f"{what}: the indices of records and classes differ, so it is not sure which belong together; give "
            "y.loc[x.index], or y.to_numpy() if their order is the same"
        )


def _arrays(**arrays: Any) -> tuple[str, str, Callable[[Any], object]]:
    arrays = {name: array.astype(str) if array.dtype == object else array for name, array in arrays.items()}
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name}{array.dtype.str}{array.shape};".encode() + np.ascontiguousarray(array).tobytes())
    return "npz", digest.hexdigest()[:32], lambda stream: np.savez(stream, **arrays)


def stored_arrays(arrays: Mapping[str, Any]) -> str:
    """The path of an ``.npz`` file that holds these arrays."""
    return _stored(*_arrays(**arrays))


def _stored(kind: str, digest: str, write: Callable[[Any], object]) -> str:
    path = cache.folder() / "objects" / f"{digest}.{kind}"
    _put(path, write)
    return str(path)


def _put(path: Path, write: Callable[[Any], object]) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(path, write)
    path.chmod(0o600)
