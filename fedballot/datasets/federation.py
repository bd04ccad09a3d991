"""One experiment's data: private records dealt out to clients, a public pool, and test records."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.datasets.copies import Augment
from fedballot.datasets.encoders.encoder import Encoder
from fedballot.datasets.encoders.sources import make_encoder
from fedballot.datasets.encoders.stored import encoded
from fedballot.datasets.examples import Array, Examples, Indices, Source
from fedballot.datasets.fingerprint import fingerprint, joined
from fedballot.datasets.matching import check_match, check_sources
from fedballot.datasets.multilabel import is_multi_label, representative
from fedballot.datasets.own import SITES
from fedballot.datasets.partitions import partition
from fedballot.datasets.public import check_classes, contract_of, private_source, public_source
from fedballot.datasets.readers.images import transfer
from fedballot.datasets.schema.contract import Schema
from fedballot.datasets.schema.prepare import Preparation, fit_preparation, public_preparation
from fedballot.datasets.spec import FederationSpec
from fedballot.datasets.splits import split_records, split_training
from fedballot.datasets.unchanged import state_of, while_unchanged


@dataclass(frozen=True, eq=False)
class FederatedData:
    """Data of one experiment, shared read-only by everything in the process.

    Attributes
    ----------
    classes : names of the classes.
    private : the private source; records that are in no part belong to nobody in this experiment.
    parts : per client, sorted int64 indices into `private`.
    public_x : public pool in the shape and dtype of `private.x`.
    public_y : its labels, int64, -1 where there is none of `classes`; multi-label as `Examples.y`; held back for
        measuring, but for methods that say that they train on them.
    test_x, test_y : test records, likewise.
    public_fingerprint : fingerprint of `public_x`.
    group_names : name of each group id of `private.groups`.
    schema : the contract of a user's own files, through which all of them were read.
    preparation : of a table: what made `x` of its cells, fitted on public records.
    augment : how torch learners change images while they train.
    notes : what was decided about a user's own files, for people.
    encoder : what made features of all records, if anything.
    encoded_shape : shape of a record before that.
    """

    classes: tuple[str, ...]
    private: Examples
    parts: tuple[Indices, ...]
    public_x: Array
    public_y: Array
    test_x: Array
    test_y: Array
    public_fingerprint: str
    group_names: tuple[str, ...]
    schema: Schema | None = None
    preparation: Preparation | None = None
    augment: Augment = "usual"
    notes: tuple[str, ...] = ()
    encoder: Encoder | None = None
    encoded_shape: tuple[int, ...] = ()

    @cached_property
    def records(self) -> int | None:
        """How many private records all clients hold; None where that is not known: sites tell nobody."""
        return sum(part.size for part in self.parts) or None

    @cached_property
    def largest(self) -> int | None:
        """How many private records the largest client holds; None where that is not known."""
        return max((part.size for part in self.parts), default=0) or None

    @property
    def mirror(self) -> bool:
        """Whether colour images may be mirrored."""
        return self.augment in ("usual", "flip")

    @property
    def multi_label(self) -> bool:
        """Whether a record has several labels, that is `private.y` has shape (n, L)."""
        return is_multi_label(self.private.y)


@while_unchanged(lambda spec: state_of([spec.dataset, spec.public_dataset, spec.schema]), maxsize=4)
def build(spec: FederationSpec) -> FederatedData:
    """Load, split and partition; built once per process and spec, and again when files have changed.

    Private records come from the training split of `dataset`, or from all of it where it has none. Public and test
    records come from the test split of the same source, or from all of another source; with ``public_split="train"``
    public records are parted from the private ones. A source without a split that serves all three is cut in three.

    Raises
    ------
    DataError
        See `sources.load`.
    SettingsError
        Sizes that do not fit, sources that do not match or share records, or a partition that cannot be made.
    """
    if spec.dataset == SITES and not spec.public_dataset:
        raise SettingsError(f"public_dataset: empty, but dataset={SITES}; name the public source that all clients hold")
    public = public_source(spec)
    if spec.dataset == SITES:
        check_classes(public)
        return _encoded(_prepared(_public_only(spec, public), spec, None, public), spec)
    private = private_source(spec, public)
    if spec.test_source == "private":
        from fedballot.datasets.own_task import build_own_task  # which builds on this module

        return _encoded(_prepared(build_own_task(spec, private, public), spec, private, public), spec)
    return _encoded(_prepared(_dealt(spec, private, public), spec, private, public), spec)


def _encoded(data: FederatedData, spec: FederationSpec) -> FederatedData:
    """The data as the encoder's features, where the spec names one; of private records those that somebody holds."""
    if not spec.encoder:
        return data
    encoder, shape = make_encoder(spec.encoder), data.public_x.shape[1:]
    encoder.check(shape, repr(spec.public_dataset or spec.dataset))
    public_x = encoded(encoder, data.public_x)
    used = np.unique(np.concatenate(data.parts))
    y, groups = data.private.y[used], data.private.groups
    x = encoded(encoder, data.private.x[used]) if used.size else public_x[:0]
    return replace(
        data,
        private=Examples(x, y, None if groups is None else groups[used]),
        parts=tuple(_frozen(np.searchsorted(used, part)) for part in data.parts),
        public_x=public_x,
        test_x=encoded(encoder, data.test_x),
        public_fingerprint=joined(data.public_fingerprint, encoder.digest),
        encoder=encoder,
        encoded_shape=tuple(shape),
    )


def _prepared(data: FederatedData, spec: FederationSpec, private: Source | None, public: Source) -> FederatedData:
    """The data as models see them: a table's cells as the contract says, all else as it is.

    What is fitted is fitted on the public source; where private records come from that, too, on the public pool alone.
    """
    schema = public.schema
    usual: Augment = "usual" if schema is None else "shift"
    notes = dict.fromkeys((*public.notes, *(private.notes if private else ())))
    data = replace(data, augment=usual if spec.augment == "auto" else spec.augment, notes=tuple(notes))
    if schema is None:
        return data
    contract = contract_of(public, private)
    if not schema.tabular:
        return replace(data, schema=contract, public_fingerprint=fingerprint(data.public_x, schema.digest))
    same = private is not None and private.name == public.name
    prepare = fit_preparation(schema, data.public_x) if same else public_preparation(public)
    x = data.private.x
    return replace(
        data,
        private=replace(data.private, x=_frozen(prepare(x)) if len(x) else prepare(data.public_x[:1])[:0]),
        public_x=_frozen(prepare(data.public_x)),
        test_x=_frozen(prepare(data.test_x)),
        public_fingerprint=fingerprint(data.public_x, schema.digest, prepare.digest),
        schema=contract,
        preparation=prepare,
    )


def _dealt(spec: FederationSpec, private: Source, public: Source) -> FederatedData:
    same = public.name == private.name
    if not same:
        (check_match if public.classes else check_sources)(private, public)
    pool = tests = _public_pool(public, same)
    splits, dealing = (np.random.default_rng(s) for s in np.random.SeedSequence(spec.seed).spawn(2))
    shared = same and private.test is None
    if spec.public_split == "train":
        pool, tests = [private.train], _test_pool(private)
        split = split_training(len(private.train), sum(map(len, tests)), spec, splits)
    else:
        split = split_records(len(private.train), sum(map(len, pool)), shared, spec, splits)
    groups = private.train.groups
    parts = partition(
        spec.partition,
        representative(private.train.y[split.private]),
        None if groups is None else groups[split.private],
        spec.clients,
        alpha=spec.alpha,
        min_size=spec.min_size,
        classes_per_client=spec.classes_per_client,
        rng=dealing,
    )
    public_x, public_y = _take(pool, split.public, public, private)
    test_x, test_y = _take(tests, split.test, public, private)
    return FederatedData(
        private.classes,
        private.train,
        tuple(_frozen(split.private[part]) for part in parts),
        _frozen(public_x),
        _frozen(public_y),
        _frozen(test_x),
        _frozen(test_y),
        fingerprint(public_x),
        private.group_names,
    )


def _public_only(spec: FederationSpec, public: Source) -> FederatedData:
    """What everybody sees of a federation whose clients hold their own records: public and test records."""
    pool = _public_pool(public, same=False)
    split = split_records(0, sum(map(len, pool)), False, spec, np.random.default_rng(spec.seed))
    public_x, public_y = _take(pool, split.public, public, public)
    test_x, test_y = _take(pool, split.test, public, public)
    nobody = np.empty(0, np.int64)
    return FederatedData(
        public.classes,
        Examples(public.train.x[:0], public.train.y[:0]),
        tuple(nobody for _ in range(spec.clients)),
        _frozen(public_x),
        _frozen(public_y),
        _frozen(test_x),
        _frozen(test_y),
        fingerprint(public_x),
        (),
    )


def _test_pool(source: Source) -> list[Examples]:
    if source.test is None:
        raise SettingsError(
            f"public_split=train: {source.name!r} has no test split, so it is cut in three anyway; leave it out"
        )
    return [source.test]


def _public_pool(public: Source, same: bool) -> list[Examples]:
    if public.test is None:
        return [public.train]
    return [public.test] if same else [public.train, public.test]


def _take(pool: list[Examples], chosen: Indices, public: Source, private: Source) -> tuple[Array, Array]:
    """Records of the concatenated pool, in the private source's layout."""
    first = len(pool[0])
    head = chosen < first
    wanted = private.train.x
    x = np.empty((len(chosen), *pool[0].x.shape[1:]), pool[0].x.dtype)
    y = np.empty((len(chosen), *pool[0].y.shape[1:]), pool[0].y.dtype)
    x[head], y[head] = pool[0].x[chosen[head]], pool[0].y[chosen[head]]
    if len(pool) > 1:
        x[~head], y[~head] = pool[1].x[chosen[~head] - first], pool[1].y[chosen[~head] - first]
    if wanted.ndim > 2:
        x = transfer(x, public.margin, wanted.shape[1:], private.margin)
    return x, y


def _frozen(array: NDArray[np.generic]) -> Array:
    array.flags.writeable = False
    return array
