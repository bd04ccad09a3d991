"""Which records are private, public and test ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Indices
from fedballot.datasets.spec import FederationSpec


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of the private records into the private source, of public and test ones into the public pool."""

    private: Indices
    public: Indices
    test: Indices


def split_records(n_private: int, n_pool: int, shared: bool, spec: FederationSpec, rng: np.random.Generator) -> Split:
    """Draw private, public and test records without overlap.

    Parameters
    ----------
    n_private, n_pool : records of the private source and of the pool for public and test records.
    shared : both are the same records.

    Returns
    -------
    Split with sorted private indices; public and test indices are in random order.

    Raises
    ------
    SettingsError
        A size that exceeds what is there, or nothing left for testing.
    """
    order = rng.permutation(n_pool)
    if shared and not spec.test_size:
        raise SettingsError(
            f"test_size: 0, but {spec.dataset!r} has no test split and all {n_pool} records could be private or test; "
            "set test_size"
        )
    asked = spec.public_size + spec.test_size + (spec.private_size or 1 if shared else 0)
    if asked > n_pool or (not spec.test_size and spec.public_size == n_pool):
        private = f" + private_size={spec.private_size or 'at least 1'}" if shared else ""
        raise SettingsError(
            f"public_size={spec.public_size} + test_size={spec.test_size or 'at least 1'}{private} exceed the "
            f"{n_pool} records of {spec.public_dataset or spec.dataset!r} that they are taken from; "
            "`fedballot try FILE` chooses sizes that fit"
        )
    public, rest = order[: spec.public_size], order[spec.public_size :]
    test = rest[: spec.test_size or None]
    private_order = rest[spec.test_size :] if shared else rng.permutation(n_private)
    if spec.private_size > len(private_order):
        raise SettingsError(
            f"private_size={spec.private_size} exceeds the {len(private_order)} private records of {spec.dataset!r}"
        )
    return Split(np.sort(private_order[: spec.private_size or None]), public, test)


def split_training(n_train: int, n_test: int, spec: FederationSpec, rng: np.random.Generator) -> Split:
    """Part the training records into public and private ones, and draw test records from the test split.

    Returns
    -------
    Split with sorted private indices; public ones, into the same records, and test ones are in random order.

    Raises
    ------
    SettingsError
        A size that exceeds what is there.
    """
    order, tests = rng.permutation(n_train), rng.permutation(n_test)
    private = order[spec.public_size :][: spec.private_size or None]
    for name, asked, there in (
        ("public_size + private_size", spec.public_size + (spec.private_size or 1), n_train),
        ("test_size", spec.test_size, n_test),
    ):
        if asked > there:
            raise SettingsError(f"{name}: {asked} exceed the {there} records of {spec.dataset!r} that there are")
    return Split(np.sort(private), order[: spec.public_size], tests[: spec.test_size or None])
