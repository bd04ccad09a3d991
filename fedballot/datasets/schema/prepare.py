"""What turns a table's cells into a model's numbers, fitted on public records alone, so that it costs no privacy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.errors import DataError
from fedballot.core.files import write_atomic
from fedballot.datasets.examples import Array, Source
from fedballot.datasets.schema.contract import Schema


@dataclass(frozen=True, eq=False)
class Preparation:
    """A fitted transformer, the same at every party.

    Attributes
    ----------
    transformer : scikit-learn's `ColumnTransformer`, of rows as `Rows.x` has them.
    digest : of all that was fitted.
    """

    transformer: Any
    digest: str

    def __call__(self, x: Array) -> Array:
        """Finite float32 (n, d) of rows as the contract reads them; each depends on its own row and the public ones."""
        return np.ascontiguousarray(self.transformer.transform(x), dtype=np.float32)

    def save(self, path: Path) -> None:
        """Write it as skops does, without pickle."""
        from fedballot.core import skops_io

        content = skops_io.dumps(self.transformer)
        write_atomic(path, lambda stream: stream.write(content))

    @classmethod
    def load(cls, path: Path) -> Preparation:
        """One that was saved; of what it was fitted on is not looked at.

        Raises
        ------
        DataError
            If it is none, or damaged.
        """
        from sklearn.compose import ColumnTransformer

        from fedballot.core import skops_io

        try:
            transformer = skops_io.loads(path.read_bytes(), trusted=["numpy.dtype"])
        except Exception as error:  # of a damaged file, whatever it leads to
            raise DataError(f"{path}: no preparation of a table's cells, or a damaged one ({error!r})") from error
        if not isinstance(transformer, ColumnTransformer):
            raise DataError(f"{path}: holds a {type(transformer).__name__}; expected a ColumnTransformer")
        return cls(transformer, "")


def fit_preparation(schema: Schema, public: Array) -> Preparation:
    """Fit medians, means and deviations on public rows.

    What is fitted is rounded to float32, so that machines that add up in another order agree to the last bit.

    Parameters
    ----------
    public : rows of public records, as `Rows.x` has them.
    """
    from sklearn.compose import ColumnTransformer

    transformer = ColumnTransformer(_steps(schema), verbose_feature_names_out=False)
    transformer.fit(public)
    digest = hashlib.sha256()
    for _, step, _ in transformer.transformers_:
        for part in getattr(step, "named_steps", {"": step}).values():
            for name in ("statistics_", "mean_", "scale_"):
                fitted = getattr(part, name, None)
                if fitted is not None:
                    rounded = np.asarray(fitted, dtype=np.float32)
                    setattr(part, name, rounded.astype(fitted.dtype))
                    digest.update(name.encode() + rounded.astype("<f4").tobytes())
    return Preparation(transformer, f"sha256:{digest.hexdigest()}")


@lru_cache(maxsize=2)
def public_preparation(public: Source) -> Preparation:
    """Fitted on all training records of a public table, which every party of a federation holds."""
    if public.schema is None:
        raise ValueError(f"{public.name} has no schema")
    return fit_preparation(public.schema, public.train.x)


def _steps(schema: Schema) -> list[tuple[str, Any, list[int]]]:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    starts = np.cumsum([0, *(column.width for column in schema.columns)])
    at: dict[str, list[int]] = {"number": [], "boolean": [], "category": [], "text": []}
    for start, column in zip(starts, schema.columns, strict=False):
        kind = "number" if column.kind == "date" else column.kind
        at[kind] += range(start, start + column.width)
    words = [len(column.words) for column in schema.columns if column.kind == "category"]
    usual = SimpleImputer(strategy="most_frequent", keep_empty_features=True)
    if schema.categories == "one-hot":
        categories: Any = OneHotEncoder(
            categories=[np.arange(count, dtype=np.float32) for count in words],
            handle_unknown="ignore",  # a missing word is none of them
            sparse_output=False,
            dtype=np.float32,
        )
    else:
        categories = usual
    median = SimpleImputer(strategy="median", keep_empty_features=True)
    steps = {
        "number": make_pipeline(median, StandardScaler()) if schema.scale == "standardise" else median,
        "boolean": usual,
        "category": categories,
        "text": "passthrough",
    }
    return [(kind, step, at[kind]) for kind, step in steps.items() if at[kind]]
