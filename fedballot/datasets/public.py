"""The sources of public and private records; public labels may lack where nobody reads them."""

from __future__ import annotations

from dataclasses import replace

from fedballot.core.errors import DataError, FedballotError, SettingsError
from fedballot.datasets.examples import Source
from fedballot.datasets.own import SITES
from fedballot.datasets.schema.contract import Column, Schema
from fedballot.datasets.sources import check_there, load_as
from fedballot.datasets.spec import FederationSpec


def check_all_there(spec: FederationSpec) -> None:
    """Refuse files and data sets that are not there; no record is read.

    Raises
    ------
    DataError
        Naming the file or the data set.
    """
    for name in (spec.dataset, spec.public_dataset):
        if name and name != SITES:
            check_there(name)
    _ = spec.reading  # the schema


def public_source(spec: FederationSpec) -> Source:
    """The source of public records; where labels are needed, an error says for what and what else there is to do.

    Raises
    ------
    DataError
        See `sources.load`.
    """
    if not spec.public_dataset:
        return load_as(spec.dataset, spec.reading)
    try:
        return load_as(spec.public_dataset, spec.public_reading)
    except DataError as error:
        if not spec.public_reading.labels or not lacks_labels(spec):
            raise
        instead = (
            "the server tests with them, so it needs some with labels"
            if spec.dataset == SITES
            else "where there are none, set public_labels=ignored and test_source=private: private records test then"
        )
        raise DataError(
            f"{error}. This run reads the labels of public records (public_labels=known): {instead}"
        ) from error


def private_source(spec: FederationSpec, public: Source) -> Source:
    """The source of private records, read through the public one's contract.

    Raises
    ------
    DataError
        See `sources.load`.
    """
    if not spec.public_dataset:
        return public
    own_classes = spec.test_source == "private" or not public.classes
    return load_as(spec.dataset, spec.reading.through(public.schema, classes=not own_classes))


def lacks_labels(spec: FederationSpec) -> bool:
    """Whether the public records can be read, and have no labels."""
    try:
        return not load_as(spec.public_dataset, replace(spec.reading, labels=False)).labelled
    except FedballotError:
        return False


def check_classes(public: Source) -> None:
    """Refuse public records without labels where nothing else says what classes there are.

    Raises
    ------
    SettingsError
        What would say it.
    """
    if not public.classes:
        raise SettingsError(
            f"public_dataset: {public.name!r} has no labels, so nothing says what classes the sites' records have: "
            "name a schema whose [label] has the column and its words, and give it to every site"
        )


def contract_of(public: Source, private: Source | None) -> Schema | None:
    """The public source's contract; where it has no classes of its own, with those of the private one."""
    schema = public.schema
    if schema is None or private is None or len(public.classes) > 1:
        return schema
    own = private.schema.label if private.schema else Column("", "category")
    return replace(schema, label=replace(own, words=private.classes))
