"""``site.toml``: everything that a site decides for itself, in one file on its own disk."""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedballot.core.calls import read_table
from fedballot.core.errors import SettingsError, did_you_mean
from fedballot.core.files import with_home
from fedballot.core.setting import types_of
from fedballot.datasets.encoders.encoder import HINT as ENCODERS
from fedballot.datasets.encoders.encoder import known as known_encoder
from fedballot.datasets.own import Persons
from fedballot.deploy.limits import Limit, read_limits
from fedballot.learners.steps import chain_name, takes_network
from fedballot.methods.registry import all_methods, load_method
from fedballot.privacy.accounting import FILTERS, Accountant
from fedballot.privacy.guarantee import Unit

DIGEST = re.compile("sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Data:
    """Where a site's records and its copy of the public source are, and the agreed fingerprint of the latter.

    Attributes
    ----------
    population : whose records these are, in whatever version; one ledger is about one population.
    schema : the agreed contract of columns and classes; None: what the public file suggests.
    id : column that says whose record each is, never a feature; empty: nobody says.
    records_per_person : most records of one person that are used; 0 without ``id``.
    image_reader : ``package.module:function``, installed here, that makes pixels of an image file's path.
    encoder : frozen encoder, installed here, whose features stand for public and own records; empty: none.
    """

    population: str
    private: Path
    public: Path
    public_fingerprint: str
    schema: Path | None = None
    id: str = ""
    records_per_person: int = 0
    image_reader: str = ""
    encoder: str = ""

    @property
    def persons(self) -> Persons | None:
        """How records belong to persons, or None."""
        return Persons(self.id, self.records_per_person) if self.id else None


@dataclass(frozen=True)
class Budget:
    """What a site may spend in all, and the folder of its ledger."""

    ledger: Path
    unit: Unit
    epsilon: float
    delta: float
    accountant: Accountant


@dataclass(frozen=True)
class Allowed:
    """What the server may ask for.

    Attributes
    ----------
    methods : that this site takes part in: names, or import paths of what is installed here (``package:METHOD``).
    extractors : chains that it runs, as `fedballot.learners.steps.chain_name` writes them; with
        ``@sha256:HEX``, as `network_digest` makes it, a chain with the weights of that digest, sent by the server.
    queries : most public records in one request.
    smallest_epsilon, largest_epsilon : that a single release may cost.
    secure_aggregation : whether nothing leaves that only a trusted server would protect: ballots that are added up
        leave under masks.
    least_clients : fewest answers for a result (``min_clients``) that it joins in.
    least_colluders : fewest colluders that the noise and the masks must bear.
    longest_training_s : longest work on one request, in seconds.
    approve : whether what keeps all these rules passes (``by-rule``), or waits for a decision (``by-hand``).
    unasked_epsilon : with ``by-hand``, what a run may cost in all without being asked about.
    settings : limits of single settings, in place of the built-in ones.
    """

    methods: tuple[str, ...]
    extractors: tuple[str, ...]
    queries: int
    smallest_epsilon: float
    largest_epsilon: float
    secure_aggregation: bool
    least_clients: int
    least_colluders: int
    longest_training_s: float
    approve: Literal["by-rule", "by-hand"] = "by-rule"
    unasked_epsilon: float = 0.0
    settings: Mapping[str, Limit] = dataclasses.field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Site:
    """A site as its file (``path``) describes it.

    Attributes
    ----------
    number : the site's number in the federation, from 0; every site has another one.
    sites : how many sites the federation has; a request that says otherwise is refused.
    server : HOST:PORT of the server's Fleet API.
    model : the learner that this site trains, whatever the server's settings say; parameters stand in brackets.
    key, ca : the site's private key, and the certificate of the authority that the server's certificate must be from.
    state : folder of the site's models and stored releases.
    """

    path: Path
    number: int
    sites: int
    server: str
    model: str
    key: Path
    ca: Path
    state: Path
    data: Data
    budget: Budget
    allowed: Allowed


def first_key(site: Site) -> Path:
    """The site's first key, kept when it is renewed: the server knows the site's ledger by it."""
    return site.key.with_name(site.key.name + ".first")


def read_site(path: Path) -> Site:
    """Read and check a site's file; relative paths in it are relative to its folder.

    Raises
    ------
    SettingsError
        Not readable, not TOML, a missing, unknown or wrong key: names the file, the key, and what is allowed.
    """
    path = with_home(path).absolute()
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}; `fedballot site init` writes one") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    _check(site := _table(path, "", Site, {**values, "path": str(path)}))
    return site  # type: ignore[no-any-return]


def _table(path: Path, prefix: str, kind: type[Any], values: Any) -> Any:
    """A dataclass out of a TOML table: all keys without a default must be there, and no unknown one."""
    if not isinstance(values, Mapping):
        raise SettingsError(f"{path}: {prefix[:-1]} = {values!r} is not a table; expected [{prefix[:-1]}]")
    kinds = types_of(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    for key in values:
        if key not in names:
            allowed = ", ".join(name for name in names if name != "path")
            raise SettingsError(f"{path}: unknown key '{prefix}{key}'{did_you_mean(key, names)}. Allowed: {allowed}")
    optional = [field.name for field in dataclasses.fields(kind) if _has_default(field)]
    missing = [name for name in names if name not in values and name not in optional]
    if missing:
        raise SettingsError(f"{path}: key '{prefix}{missing[0]}' is missing; `fedballot site init` writes a whole file")
    return kind(
        **{name: _value(path, f"{prefix}{name}", kinds[name], values[name]) for name in names if name in values}
    )


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _value(path: Path, key: str, kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        return _table(path, f"{key}.", typing.cast(type[Any], kind), value)
    if key == "model":
        try:
            return read_table(value)
        except SettingsError as error:
            raise SettingsError(f"{path}: model: {error}") from error
    if key == "allowed.settings":
        return read_limits(path, value)
    if typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            raise SettingsError(f"{path}: {key} = {value!r}; expected one of {', '.join(typing.get_args(kind))}")
        return value
    if kind in (Path, Path | None) and isinstance(value, str) and value:
        return path.parent / with_home(value)
    if kind is str and isinstance(value, str) and value:
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if kind == tuple[str, ...] and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return _chains(path, value) if key == "allowed.extractors" else tuple(value)
    wanted = {Path: "a path", str: "a text", int: "a whole number", float: "a finite number", bool: "true or false"}
    raise SettingsError(f"{path}: {key} = {value!r}; expected {wanted.get(kind, 'a list of texts')}")


def _chains(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Extractors that a site allows, each written in one way."""
    chains = []
    for name in names:
        chain, at, digest = name.partition("@")
        try:
            chain = chain_name(chain)
            if at and not takes_network(chain):
                raise SettingsError(f"{chain!r} takes no weights from a server, so it has no digest: leave '@' out")
        except SettingsError as error:
            raise SettingsError(f"{path}: allowed.extractors holds {name!r}: {error}") from error
        if at and not DIGEST.fullmatch(digest):
            raise SettingsError(
                f"{path}: allowed.extractors holds {name!r}; expected {chain}@sha256: and 64 hex digits"
            )
        chains.append(chain + at + digest)
    return tuple(chains)


def _check(site: Site) -> None:
    limits = (
        ("sites", site.sites >= 1, "at least 1"),
        ("number", 0 <= site.number < site.sites, f"0 to {site.sites - 1}, as sites = {site.sites}"),
        ("allowed.methods", bool(site.allowed.methods), "a list of texts that holds at least one"),
        ("allowed.queries", site.allowed.queries >= 1, "at least 1"),
        ("data.population", site.data.population.isprintable(), "one line of text"),
        ("data.encoder", not site.data.encoder or known_encoder(site.data.encoder), ENCODERS),
        ("data.id", site.data.id != "label", "the column that says whose record each is, not the label"),
        (
            "data.records_per_person",
            site.data.records_per_person >= 1 if site.data.id else site.data.records_per_person == 0,
            "at least 1, together with data.id, or neither of them",
        ),
        (
            "budget.unit",
            site.budget.unit != "person" or bool(site.data.id),
            '"client" or "record", or data.id and data.records_per_person, which say whose record each is',
        ),
        ("allowed.least_clients", 1 <= site.allowed.least_clients <= site.sites, f"1 to sites = {site.sites}"),
        (
            "allowed.least_colluders",
            0 <= site.allowed.least_colluders < site.sites,
            f"0 to {site.sites - 1}, as sites = {site.sites}",
        ),
        ("allowed.longest_training_s", site.allowed.longest_training_s > 0, "more than 0"),
        ("allowed.unasked_epsilon", site.allowed.unasked_epsilon >= 0, "at least 0"),
        ("budget.epsilon", site.budget.epsilon > 0, "more than 0"),
        ("budget.delta", 0 < site.budget.delta < 1, "more than 0 and less than 1"),
        ("budget.accountant", site.budget.accountant in FILTERS, f"one of {', '.join(FILTERS)}"),
        ("allowed.smallest_epsilon", site.allowed.smallest_epsilon >= 0, "at least 0"),
        (
            "allowed.largest_epsilon",
            site.allowed.smallest_epsilon <= site.allowed.largest_epsilon,
            "at least allowed.smallest_epsilon",
        ),
        ("server", _is_address(site.server), "HOST:PORT, such as flower.example.org:9092"),
    )
    for key, holds, wanted in limits:
        if not holds:
            value: Any = site
            for part in key.split("."):
                value = getattr(value, part)
            raise SettingsError(f"{site.path}: {key} = {value!r}; expected {wanted}")
    for name in site.allowed.methods:
        if ":" in name:
            load_method(name)
        elif name not in all_methods():
            near = did_you_mean(name, all_methods())
            raise SettingsError(f"{site.path}: allowed.methods holds {name!r}{near}. Known: {', '.join(all_methods())}")


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and port.isdecimal() and 0 < int(port) < 65536
