"""A site's files as its own file says that they are to be read."""

from __future__ import annotations

from dataclasses import replace

from fedballot.datasets.encoders.sources import make_encoder
from fedballot.datasets.encoders.stored import encoded
from fedballot.datasets.examples import Examples, Source
from fedballot.datasets.own import OwnRecords, load_own
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.schema.toml import read_schema
from fedballot.datasets.sources import load_as
from fedballot.deploy.site_file import Site


def public_source(site: Site) -> Source:
    """The site's copy of the public source, read through the agreed schema, or what the public file suggests.

    Raises
    ------
    DataError
        If it cannot be.
    """
    schema = read_schema(site.data.schema) if site.data.schema else None
    reading = Reading(schema, image_reader=site.data.image_reader, labels=schema is None)
    return load_as(str(site.data.public), reading)


def own_examples(site: Site, own: OwnRecords) -> Examples:
    """The site's records as its models take them: by its encoder, if its file names one; kept in its cache.

    Raises
    ------
    FedballotError
        If the encoder is not to be had, or takes no such records.
    """
    if not site.data.encoder:
        return own.examples
    return replace(own.examples, x=encoded(make_encoder(site.data.encoder), own.examples.x))


def own_records(site: Site) -> OwnRecords:
    """The site's records, read through the public source's schema.

    Raises
    ------
    DataError
        If they cannot be.
    """
    return load_own(site.data.private, public_source(site), site.data.persons, site.data.image_reader)
