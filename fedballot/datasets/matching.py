"""Whether a private and a public source can serve one experiment."""

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Source
from fedballot.datasets.multilabel import is_multi_label
from fedballot.datasets.schema.words import listed


def check_match(private: Source, public: Source) -> None:
    """Refuse sources that share records, or differ in classes or features.

    Raises
    ------
    SettingsError
        With what differs.
    """
    if private.origin & public.origin:
        raise SettingsError(
            f"public_dataset: {public.name!r} and the private {private.name!r} hold the same records "
            f"({listed(sorted(private.origin & public.origin), 3)}); use a source of other records"
        )
    if len(private.classes) != len(public.classes) or is_multi_label(private.train.y) != is_multi_label(public.train.y):
        raise SettingsError(
            f"public_dataset: {public.name!r} has {len(public.classes)} classes, the private {private.name!r} has "
            f"{len(private.classes)}; expected the same classes"
        )
    if private.classes != public.classes:
        raise SettingsError(
            f"public_dataset: {public.name!r} has the classes {listed(public.classes)}, the private {private.name!r} "
            f"{listed(private.classes)}; expected the same words, or public_labels=ignored with test_source=private"
        )
    _check_columns(private, public)
    shape, wanted = public.train.x.shape[1:], private.train.x.shape[1:]
    if (len(shape) == 1 or len(wanted) == 1) and shape != wanted:
        raise SettingsError(
            f"public_dataset: {public.name!r} has records of shape {shape}, the private {private.name!r} of {wanted}; "
            "expected the same features, or images on both sides"
        )


def check_sources(private: Source, public: Source) -> None:
    """Refuse sources of different tasks that share records or differ in features.

    Raises
    ------
    SettingsError
        With what differs.
    """
    if private.origin & public.origin:
        raise SettingsError(
            f"public_dataset: {public.name!r} and the private {private.name!r} hold the same records; use another"
        )
    _check_columns(private, public)
    shape, wanted = public.train.x.shape[1:], private.train.x.shape[1:]
    if (len(shape) == 1 or len(wanted) == 1) and shape != wanted:
        raise SettingsError(
            f"public_dataset: {public.name!r} has records of shape {shape}, the private {private.name!r} of {wanted}; "
            "expected the same features, or images on both sides"
        )


def _check_columns(private: Source, public: Source) -> None:
    """Refuse a private table whose columns no public ones can be compared with.

    Raises
    ------
    SettingsError
        If the public source is no table.
    """
    tables = [source.schema is not None and source.schema.tabular for source in (private, public)]
    if tables == [True, False]:
        raise SettingsError(
            f"public_dataset: {public.name!r} has no columns with names, but the private {private.name!r} has; "
            "expected tables on both sides"
        )
