"""Unfitted classifiers that no text describes, such as pipelines: kept in the cache by skops, named by a digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedballot.core.errors import SettingsError
from fedballot.core.files import write_atomic
from fedballot.datasets import cache


def store(setting: str, model: Any) -> str:
    """Keep an unfitted classifier; returns the digest that :func:`estimator` takes.

    Raises
    ------
    SettingsError
        If it cannot be stored, or would not be loaded again: it holds more than scikit-learn's own.
    """
    import joblib  # type: ignore[import-untyped]
    from sklearn.base import clone

    from fedballot.core import skops_io

    try:
        unfitted = clone(model)
        content = skops_io.dumps(unfitted)
    except Exception as error:  # of another package, whatever it raises
        raise SettingsError(f"{setting}={model!r}: cannot be stored ({type(error).__name__}: {error})") from error
    if strange := skops_io.get_untrusted_types(data=content):
        raise SettingsError(
            f"{setting}: a {type(model).__name__} that holds {', '.join(strange[:3])} cannot be handed to other "
            "processes; write a function that makes it, in a module, and give that function"
        )
    digest: str = joblib.hash(unfitted)
    path = _path(digest)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, lambda stream: stream.write(content))
    return digest


def estimator(digest: str) -> Any:
    """The classifier that :func:`store` kept.

    Raises
    ------
    SettingsError
        If there is none, or it is damaged.
    """
    from fedballot.core import skops_io

    path = _path(digest)
    try:
        return skops_io.loads(path.read_bytes())
    except Exception as error:  # missing, or whatever a damaged file leads to
        raise SettingsError(f"{path}: holds no classifier ({error}); give it once more as an object") from error


def _path(digest: str) -> Path:
    return cache.folder() / "objects" / f"{''.join(filter(str.isalnum, digest))}.skops"
