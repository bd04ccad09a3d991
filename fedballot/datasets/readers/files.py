"""A user's own data: one file, an image folder, or a pattern of files where each file is one client."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedballot.core.errors import DataError, FedballotError
from fedballot.datasets.checks import encode
from fedballot.datasets.examples import Array, Examples, Indices, Source
from fedballot.datasets.readers import foreign
from fedballot.datasets.readers.folders import images_of, read_folder
from fedballot.datasets.readers.leaf import read_leaf
from fedballot.datasets.readers.npz import read_npz
from fedballot.datasets.readers.paths import paths_of
from fedballot.datasets.readers.pictures import PLAIN as PLAIN_IMAGES
from fedballot.datasets.readers.pictures import ImageSpec
from fedballot.datasets.readers.places import KINDS, READERS, places
from fedballot.datasets.readers.raw import Raw, Texts
from fedballot.datasets.readers.tables import SUFFIXES, Table, is_table, joined, read_table
from fedballot.datasets.schema.apply import Rows, numbered, read_through
from fedballot.datasets.schema.contract import Column, Schema
from fedballot.datasets.schema.infer import image_column, infer_schema
from fedballot.datasets.schema.labels import infer_label, label_name
from fedballot.datasets.schema.reading import PLAIN, Reading
from fedballot.datasets.schema.words import listed

NO_LABELS = "the records have no labels, and are used without"


def load_path(name: str, reading: Reading = PLAIN) -> Source:
    """Load a file, an image folder, or all files that match a pattern.

    The arrays stay in memory and are never copied to the cache: private records stay where their owner put them.

    Raises
    ------
    DataError
        Nothing there, an unknown kind of file, bad content, files that do not fit together, or a single class.
    """
    full_name, paths, one_client_each = places(name)
    return _load(full_name, paths, reading, one_client_each)


def _load(name: str, paths: list[Path], reading: Reading, one_client_each: bool) -> Source:
    tables = [path for path in paths if path.is_file() and is_table(path)]
    if tables and len(tables) < len(paths):
        other = next(path for path in paths if path not in tables)
        raise DataError(f"{other}: is no table, but {tables[0]} is; expected files of one kind")
    load = _load_tables if tables else _load_arrays
    return load(name, paths, reading, one_client_each)


def images_at(name: str, label: str = "") -> list[Path]:
    """The images of a folder, or those that a table or a pattern of tables names; none where it holds other records.

    Raises
    ------
    DataError
        A table that cannot be read, or that names what is no file.
    """
    images: list[Path] = []
    for one in places(name)[1]:
        if one.is_file() and is_table(one):
            table = read_table(one)
            column = image_column(table, (label,))
            images += paths_of(table, column) if column else []
        else:
            images += images_of(one)
    return images


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever is raised while a file is read names the file."""
    try:
        yield
    except (FedballotError, OSError, MemoryError):
        raise
    except Exception as error:  # libraries raise many kinds for content that nobody expects
        raise DataError(f"{path}: {type(error).__name__} {error}; expected a {KINDS}") from error


def read_raw(
    path: Path,
    person: str = "",
    schema: Schema | None = None,
    images: ImageSpec = PLAIN_IMAGES,
    labels: bool = True,
) -> Raw:
    """Read an array file or image folder; labels stay text.

    Parameters
    ----------
    person : the key that says whose record each is.
    schema : of the public records.
    images : how images are read.
    labels : whether classes must stand there; see :func:`read_npz` and :func:`read_folder`.

    Raises
    ------
    DataError
        An unknown kind of file, or bad content.
    """
    with naming(path):
        if schema is not None and schema.tabular:
            raise DataError(f"{path}: has no columns to compare with the schema's by name; expected a table")
        if person:
            if path.suffix.lower() != ".npz":
                kinds = ", ".join((".npz", *SUFFIXES))
                raise DataError(f"{path}: has no columns, so none that says whose record each is; expected {kinds}")
            return read_npz(path, person)
        if path.is_dir():
            return read_leaf(path) if any(path.glob("*.json")) else read_folder(path, images, labels)
        if path.suffix.lower() == ".npz":
            return read_npz(path, labels=labels)
        read = READERS.get(path.suffix.lower()) or foreign.reader_of(path.suffix.lower())
        if read is None:
            raise DataError(f"{path}: unknown kind of file {path.suffix!r}; expected a {KINDS}")
        return read(path)


def read_rows(
    path: Path,
    schema: Schema,
    person: str = "",
    table: Table | None = None,
    images: ImageSpec = PLAIN_IMAGES,
    labels: bool = True,
) -> Rows:
    """Read a table through a schema; ``table`` is its content, where that has been read.

    Where the public records are images in folders, a table names images, too: in the column that holds their paths.

    Raises
    ------
    DataError
        See :func:`read_through`; also where the schema has no columns.
    """
    with naming(path):
        table = table or read_table(path)
        if not schema.columns:
            image = image_column(table, (person,)) if schema.channels else ""
            if not image:
                raise DataError(
                    f"{path}: its columns have names, the public source's have none; expected files of one kind"
                )
            label = replace(schema.label, name=label_name(table, schema.label.name))
            schema = replace(schema, label=label, columns=(Column(image, "image", missing="refuse"),))
        return read_through(schema, table, person, images, labels)


def _load_tables(name: str, paths: list[Path], reading: Reading, one_client_each: bool) -> Source:
    schema = reading.schema
    notes: tuple[str, ...] = ()
    with naming(paths[0]):
        tables = [read_table(path) for path in paths]
        every = joined(tables) if schema is None or not schema.classes else tables[0]
        if schema is None:
            schema, notes = infer_schema(every, reading.hints, reading.labels)
        elif not schema.classes:
            called = schema.label.name if schema.label.name in every.frame.columns else ""
            schema = replace(
                schema, label=infer_label(every, replace(reading.hints, label=reading.hints.label or called))
            )
    images = reading.images(schema)
    rows = [
        read_rows(path, schema, table=table, images=images, labels=reading.labels)
        for path, table in zip(paths, tables, strict=True)
    ]
    if len(schema.classes) < 2 and reading.labels:
        raise DataError(f"{name}: every row has the label {schema.classes[0]!r}; expected at least two classes")
    for path, one in zip(paths, rows, strict=True):
        if one_client_each and one.groups is not None:
            raise DataError(f"{path}: holds groups of its own, but each file of a pattern is one client")
    if reading.schema is not None:
        notes += _notes_of_extra(paths, rows)
    _check_shapes(paths, [one.x for one in rows])
    groups, group_names = _groups(paths, [(len(one.x), one.groups) for one in rows], one_client_each)
    x, y = (np.concatenate([getattr(one, part) for one in rows]) for part in ("x", "y"))
    origin = frozenset(str(path.resolve()) for path in (*paths, *(file for one in rows for file in one.files)))
    if (y < 0).all():
        notes += (f"{name}: {NO_LABELS}",)
    if schema.image:
        schema = replace(schema, channels=1 if x.ndim == 3 else 3)
    return Source(
        name, schema.classes, Examples(x, y, groups), None, group_names, None, origin, schema=schema, notes=notes
    )


def _notes_of_extra(paths: list[Path], rows: list[Rows]) -> tuple[str, ...]:
    """Columns that the schema does not have, once for all files that have the same."""
    by_columns: dict[tuple[str, ...], list[Path]] = {}
    for path, one in zip(paths, rows, strict=True):
        by_columns.setdefault(one.extra, []).append(path)
    return tuple(
        f"{some[0]}{f' and {len(some) - 1} more' if some[1:] else ''}: {listed(extra)}: not in the schema, left out"
        for extra, some in by_columns.items()
        if extra
    )


def _load_arrays(name: str, paths: list[Path], reading: Reading, one_client_each: bool) -> Source:
    schema, images = reading.schema, reading.images()
    raws = [read_raw(path, schema=schema, images=images, labels=reading.labels) for path in paths]
    if one_client_each:
        _check_alike(paths, raws)
    x = raws[0].x if len(raws) == 1 else np.concatenate([raw.x for raw in raws])
    n, test = len(x), raws[0].test
    labels = [(path, raw.labels) for path, raw in zip(paths, raws, strict=True)]
    labels += [] if test is None else [(paths[0], test[1])]
    if schema is None or not schema.classes:
        words = np.concatenate([words for _, words in labels])
        schema = replace(
            schema or Schema(Column("")), label=Column("", "category", words=encode(words[words != ""])[1])
        )
        if x.ndim > 2:
            schema = replace(schema, image_size=images.size, channels=1 if x.ndim == 3 else 3)
    y = np.concatenate([array_labels(path, words, schema, reading.labels) for path, words in labels])
    if len(schema.classes) < 2 and reading.labels:
        raise DataError(f"{name}: every row has the label {schema.classes[0]!r}; expected at least two classes")
    unseen = np.flatnonzero(~np.isin(y[n:], y[:n]))
    if len(unseen):
        raise DataError(
            f"{name}: key y_test: row {unseen[0]} has the label {schema.classes[y[n + unseen[0]]]!r}, which no row of "
            "y_train has; expected the classes of the training rows"
        )
    groups, group_names = _groups(paths, [(len(raw.x), raw.groups) for raw in raws], one_client_each)
    return Source(
        name,
        schema.classes,
        Examples(x, y[:n], groups),
        None if test is None else Examples(test[0], y[n:]),
        group_names,
        origin=frozenset(str(path.resolve()) for path in paths),
        schema=schema,
        notes=(f"{name}: {NO_LABELS}",) if (y < 0).all() else (),
    )


def array_labels(path: Path, labels: Texts, schema: Schema, needed: bool = True) -> Indices:
    """Class numbers of an array's labels, as the schema numbers its words; -1 of all where some lack, and may.

    Raises
    ------
    DataError
        A word that the schema does not know.
    """
    if not needed and (labels == "").any():
        return np.full(len(labels), -1, np.int64)
    return numbered(schema.label, labels, lambda row: f"{path}: row {row} has a label:")


def _groups(
    paths: list[Path], parts: list[tuple[int, Texts | None]], one_client_each: bool
) -> tuple[Indices | None, tuple[str, ...]]:
    if one_client_each:
        parents = [str(path.parent) for path in paths]
        same_folder = len(set(parents)) == 1
        names = tuple(path.stem if same_folder else str(path) for path in paths)
        return np.repeat(np.arange(len(parts)), [length for length, _ in parts]), names
    groups = parts[0][1]
    return (None, ()) if groups is None else encode(groups)


def _check_alike(paths: list[Path], raws: list[Raw]) -> None:
    first = raws[0]
    _check_shapes(paths, [raw.x for raw in raws])
    for path, raw in zip(paths, raws, strict=True):
        if raw.groups is not None or raw.test is not None:
            raise DataError(
                f"{path}: holds groups or a test split of its own, but each file of a pattern is one client"
            )
        if raw.columns != first.columns:
            i = next(i for i, pair in enumerate(zip(raw.columns, first.columns, strict=True)) if pair[0] != pair[1])
            raise DataError(
                f"{path}: feature column {i} is {raw.columns[i]!r}, in {paths[0]} {first.columns[i]!r}; "
                "expected the same columns in the same order in every file"
            )


def _check_shapes(paths: list[Path], parts: list[Array]) -> None:
    first = parts[0]
    for path, x in zip(paths, parts, strict=True):
        if x.shape[1:] != first.shape[1:] or x.dtype != first.dtype:
            raise DataError(
                f"{path}: rows of shape {x.shape[1:]} and dtype {x.dtype}, but {paths[0]} has {first.shape[1:]} and "
                f"{first.dtype}; expected the same in every file"
            )
