"""Private and public records of different tasks, and test records of the private one.

The setting of "Federated model distillation with noise-free differential privacy": the public set has labels of its
own, such as digits, and the clients learn another task, such as six kinds of clothing. Models answer for the classes of
both, the public ones first.
"""

from dataclasses import dataclass

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Examples, Indices, Source
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.fingerprint import fingerprint
from fedballot.datasets.matching import check_sources
from fedballot.datasets.multilabel import is_multi_label, representative
from fedballot.datasets.partitions import partition
from fedballot.datasets.readers.images import transfer
from fedballot.datasets.spec import FederationSpec
from fedballot.datasets.splits import split_records

ALL = "all"


@dataclass(frozen=True, eq=False)
class Task:
    """The classes that are learnt, and for each class of the source its place among them, or -1: left out."""

    classes: tuple[str, ...]
    place: Indices

    def rows(self, y: Indices) -> Indices:
        """Rows whose class is learnt."""
        return np.flatnonzero(self.place[y] >= 0)


def choose_classes(source: Source, wanted: tuple[str, ...]) -> Task:
    """Read `private_classes`: names that are kept, `new=a+b` for joined ones, or the single word `all`.

    Raises
    ------
    SettingsError
        A name that the source does not have or that is used twice, or fewer than two classes.
    """
    if wanted == (ALL,):
        return Task(source.classes, np.arange(len(source.classes)))
    place = np.full(len(source.classes), -1, dtype=np.int64)
    number = {name: index for index, name in enumerate(source.classes)}
    names = []
    for word in wanted:
        name, joined, members = word.partition("=")
        names.append(name.strip())
        for member in (part.strip() for part in (members if joined else name).split("+")):
            if member not in number:
                raise SettingsError(
                    f"private_classes: {source.name!r} has no class {member!r}; expected {', '.join(source.classes)}"
                )
            if place[number[member]] >= 0:
                raise SettingsError(f"private_classes: {member!r} is named twice")
            place[number[member]] = len(names) - 1
    if len(set(names)) < max(2, len(names)):
        raise SettingsError(f"private_classes: {', '.join(names)}; expected at least two different classes")
    return Task(tuple(names), place)


def build_own_task(spec: FederationSpec, private: Source, public: Source) -> FederatedData:
    """Choose classes, split and partition; see `federation.build`.

    Test records come from the private source's test split, or are cut from its records where it has none. Public
    records come from all of the public source; from the rest of the test records where it is the private source itself.
    """
    same = public.name == private.name
    if not same:
        check_sources(private, public)
    if spec.public_labels == "ignored":
        return _build_unlabelled(spec, private, public)
    if is_multi_label(private.train.y) or is_multi_label(public.train.y):
        raise SettingsError("test_source: private, with several labels per record; set public_labels=ignored as well")
    task = choose_classes(private, spec.private_classes)
    extra = [name for name in task.classes if same or name not in public.classes]
    classes = tuple(extra) if same else (*public.classes, *extra)
    number = np.array([classes.index(name) for name in task.classes], dtype=np.int64)
    place = np.where(task.place >= 0, number[task.place], -1)

    records = private.train
    kept = task.rows(records.y)
    tests = records if private.test is None else private.test
    test_rows = task.rows(tests.y)
    splits, dealing = (np.random.default_rng(s) for s in np.random.SeedSequence(spec.seed).spawn(2))
    if same:
        split = split_records(len(kept), len(test_rows), private.test is None, spec, splits)
        chosen, public_rows, test_rows = kept[split.private], test_rows[split.public], test_rows[split.test]
        public_x, public_y = tests.x[public_rows], place[tests.y[public_rows]]
    else:
        chosen, test_rows = _private_and_test(kept, test_rows, private.test is None, spec, splits)
        public_x, public_y = _public(public, private, spec, splits)
    groups = records.groups
    if spec.partition == "subclass-per-client":
        groups = records.y if len(task.classes) < int((task.place >= 0).sum()) else None
    parts = partition(
        spec.partition,
        place[records.y[chosen]],
        None if groups is None else groups[chosen],
        spec.clients,
        alpha=spec.alpha,
        min_size=spec.min_size,
        classes_per_client=spec.classes_per_client,
        rng=dealing,
    )
    return FederatedData(
        classes=classes,
        private=Examples(records.x, place[records.y], records.groups),
        parts=tuple(chosen[part] for part in parts),
        public_x=np.ascontiguousarray(public_x),
        public_y=public_y,
        test_x=np.asarray(tests.x[test_rows]),
        test_y=place[tests.y[test_rows]],
        public_fingerprint=fingerprint(public_x),
        group_names=private.group_names,
    )


def _build_unlabelled(spec: FederationSpec, private: Source, public: Source) -> FederatedData:
    """The public records without their labels: the private classes, and the private source's test records."""
    if public.name == private.name:
        raise SettingsError("public_labels: ignored needs a public_dataset of its own; set one, or public_labels=known")
    if spec.private_classes != (ALL,):
        raise SettingsError("private_classes: all classes are learnt with public_labels=ignored; leave it out")
    records = private.train
    tests = records if private.test is None else private.test
    splits, dealing = (np.random.default_rng(s) for s in np.random.SeedSequence(spec.seed).spawn(2))
    every = np.arange(len(records)), np.arange(len(tests))
    chosen, test_rows = _private_and_test(*every, private.test is None, spec, splits)
    public_x, public_y = _public(public, private, spec, splits)
    if public.classes != private.classes:
        public_y = np.full((len(public_x), *records.y.shape[1:]), -1, dtype=records.y.dtype)
    parts = partition(
        spec.partition,
        representative(records.y[chosen]),
        None if records.groups is None else records.groups[chosen],
        spec.clients,
        alpha=spec.alpha,
        min_size=spec.min_size,
        classes_per_client=spec.classes_per_client,
        rng=dealing,
    )
    return FederatedData(
        classes=private.classes,
        private=records,
        parts=tuple(chosen[part] for part in parts),
        public_x=np.ascontiguousarray(public_x),
        public_y=public_y,
        test_x=np.asarray(tests.x[test_rows]),
        test_y=np.asarray(tests.y[test_rows]),
        public_fingerprint=fingerprint(public_x),
        group_names=private.group_names,
    )


def _private_and_test(
    kept: Indices, test_rows: Indices, cut: bool, spec: FederationSpec, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    if cut and not spec.test_size:
        raise SettingsError(f"test_size: 0, but {spec.dataset!r} has no test split; set test_size")
    tests = rng.permutation(test_rows)
    test, rest = tests[: spec.test_size or None], tests[spec.test_size :]
    order = rest if cut else rng.permutation(kept)
    for name, asked, there in (("test_size", spec.test_size, tests), ("private_size", spec.private_size, order)):
        if asked > len(there) or not len(there):
            raise SettingsError(
                f"{name}={asked or 'at least 1'} exceeds the {len(there)} records of {spec.dataset!r} that it is "
                "taken from"
            )
    return np.sort(order[: spec.private_size or None]), test


def _public(
    public: Source, private: Source, spec: FederationSpec, rng: np.random.Generator
) -> tuple[np.ndarray, Indices]:
    pool = [public.train] if public.test is None else [public.train, public.test]
    y = np.concatenate([part.y for part in pool])
    if spec.public_size > len(y):
        raise SettingsError(f"public_size={spec.public_size} exceeds the {len(y)} records of {public.name!r}")
    rows = rng.permutation(len(y))[: spec.public_size]
    first = len(pool[0])
    x = np.empty((len(rows), *pool[0].x.shape[1:]), pool[0].x.dtype)
    x[rows < first] = pool[0].x[rows[rows < first]]
    if len(pool) > 1:
        x[rows >= first] = pool[1].x[rows[rows >= first] - first]
    if private.train.x.ndim > 2:
        x = transfer(x, public.margin, private.train.x.shape[1:], private.margin)
    return x, y[rows]
