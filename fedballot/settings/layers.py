"""Where settings come from, joined once: defaults < recorded run < preset < file < command line or run-config."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from fedballot.core.errors import SettingsError, did_you_mean
from fedballot.core.setting import Settings, build, names_of, unknown_name

S = TypeVar("S", bound=Settings)
Layer = Mapping[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A settings file as read: settings for every method, and tables for single methods."""

    name: str
    about: str
    common: Layer
    by_method: Mapping[str, Layer]


def resolve(
    method: str,
    kinds: Mapping[str, type[S]],
    *,
    defaults: Layer | None = None,
    recorded: Layer | None = None,
    preset: str | None = None,
    config: Path | None = None,
    values: Layer | None = None,
) -> S:
    """The settings of a method from all layers, later ones winning.

    Parameters
    ----------
    method
        Its name, a key of ``kinds``.
    kinds
        The settings that each method takes.
    defaults
        Defaults other than the declared ones, for methods that have the settings.
    recorded
        Of the run that is taken up.
    preset
        Name of a preset. Its common part serves many methods: settings that only others have are left out.
    config
        A settings file in the form of a preset, which must fit the method. It excludes a preset.
    values
        From the command line, Python or the run-config.

    Raises
    ------
    SettingsError
        For a setting that the method does not have (with the nearest name, and the methods that have it), a value of
        the wrong type or out of range, or a combination that cannot work.
    """
    if preset and config:
        raise SettingsError("--preset and --config exclude each other: copy the preset's lines into the file")
    own = names_of(kinds[method])
    layers: list[Layer] = [_only(defaults or {}, own), recorded or {}]
    if preset:
        layers += preset_layers(load_preset(preset), method, kinds)
    if config:
        experiment = load_file(config, list(kinds))
        layers += [experiment.common, experiment.by_method.get(method, {})]
    layers.append(values or {})
    for layer in layers:
        require(layer, method, kinds)
    return build(kinds[method], *layers)


def preset_layers(preset: Experiment, method: str, kinds: Mapping[str, type[Settings]]) -> list[Layer]:
    """What a preset says for ``method``: of the common part the settings that it has, then its own table."""
    anywhere = {name for kind in kinds.values() for name in names_of(kind)}
    own = names_of(kinds[method])
    strange = {key: value for key, value in preset.common.items() if _name(key) not in anywhere}
    return [{**_only(preset.common, own), **strange}, preset.by_method.get(method, {})]


def require(layer: Layer, method: str, kinds: Mapping[str, type[Settings]]) -> None:
    """Refuse settings that a method does not have.

    Raises
    ------
    SettingsError
        With the nearest name, and the methods that have the setting.
    """
    own = names_of(kinds[method])
    for key in layer:
        if (name := _name(key)) in own:
            continue
        listing = f"`fedballot methods --settings {method}` lists its own"
        having = [other for other, kind in kinds.items() if name in names_of(kind)]
        if not having:
            raise SettingsError(f"unknown setting {key!r}{did_you_mean(name, own)}; {listing}")
        verb = "has" if len(having) == 1 else "have"
        near = did_you_mean(name, own)
        raise SettingsError(f"{method} has no setting {key!r}{near}; {', '.join(having)} {verb} it; {listing}")


def _name(key: str) -> str:
    return key.replace("-", "_")


def _only(layer: Layer, names: Sequence[str]) -> Layer:
    return {key: value for key, value in layer.items() if _name(key) in names}


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
        experiment = _parse(str(path), path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read as a settings file: {error}") from error
    for name in experiment.by_method:
        if name not in methods:
            words = f"table [{name}] is for no method{did_you_mean(name, methods)}"
            raise SettingsError(f"{path}: {words}; `fedballot methods` lists them")
    return experiment
