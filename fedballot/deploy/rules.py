"""What a site refuses whatever its data are: requests beyond its file's rules, and releases beyond its budget."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedballot.clients.workspace import Refusal
from fedballot.core.errors import SettingsError
from fedballot.core.setting import declaration
from fedballot.datasets.own import SITES
from fedballot.deploy.limits import Limit, can_be_limited
from fedballot.deploy.site_file import Allowed, Site
from fedballot.learners.extractors import network_digest
from fedballot.learners.steps import chain_name, takes_network
from fedballot.methods.api import Method
from fedballot.methods.registry import entry_paths, get_method
from fedballot.settings.heads import FrozenSettings
from fedballot.settings.parts import CommonSettings, LocalTraining
from fedballot.settings.weights import WeightsSettings

S = TypeVar("S", bound=CommonSettings)


def check_request(site: Site, method: Method, settings: CommonSettings) -> None:
    """Refuse what the site's file does not allow, before any data are read: a function of public facts alone.

    Raises
    ------
    Refusal
        With reason ``policy`` and a sentence that names the setting, its value and what the site allows; it holds
        nothing of the site's data.
    """
    allowed, queries = site.allowed, getattr(settings, "query_count", settings.public_size)
    rules = (
        (
            method.name in [get_method(name).name for name in allowed.methods],
            f"method {method.name!r} is not allowed here; allowed are {', '.join(allowed.methods)}",
        ),
        (not method.single_client, f"method {method.name!r} runs on a single client: no site takes part in it"),
        (settings.dataset == SITES, f"dataset={settings.dataset!r}: this site answers with its own records only"),
        (
            settings.clients == site.sites,
            f"clients={settings.clients}, but this site joined a federation of {site.sites}",
        ),
        (
            bool(settings.encoder) == bool(site.data.encoder),
            f"encoder={settings.encoder!r}, but this site's file names {'one' if site.data.encoder else 'none'}",
        ),
        (queries <= allowed.queries, f"{queries} queries are more than the {allowed.queries} that this site allows"),
        (getattr(settings, "noise_seed", None) is None, "noise_seed is set: seeded noise protects nobody"),
        (
            settings.min_clients >= allowed.least_clients,
            f"min_clients={settings.min_clients}; this site allows at least {allowed.least_clients}",
        ),
        *((False, f"{name}=inf: this site releases nothing without noise") for name in _infinite(settings)),
        *_within_limits(allowed, settings),
    )
    for holds, words in rules:
        if not holds:
            raise Refusal("policy", words)


def check_import(site: Site, method_name: str) -> None:
    """Refuse an import path that neither the site's file nor an entry point names: a server imports nothing else here.

    Raises
    ------
    SettingsError
        With what to add to the site's file.
    """
    if ":" in method_name and method_name not in (*site.allowed.methods, *entry_paths()):
        raise SettingsError(f"method {method_name!r} is not allowed here: add it to methods under [allowed]")


def _infinite(settings: CommonSettings) -> list[str]:
    """Names of all settings that are infinite, whoever reads them."""
    values = ((field.name, getattr(settings, field.name)) for field in dataclasses.fields(settings))
    return [name for name, value in values if isinstance(value, float) and not math.isfinite(value)]


def _within_limits(allowed: Allowed, settings: CommonSettings) -> Iterator[tuple[bool, str]]:
    """Whether each setting that clients read lies within the site's limit, and what to say if not."""
    for field in dataclasses.fields(settings):
        if declaration(field).reads == "client":
            limit, value = limit_of(allowed, field), getattr(settings, field.name)
            canonical = chain_name(value) if value and declaration(field).kind == "extractor" else value
            yield limit.holds(canonical), f"{field.name}={value!r}; this site allows {limit.words}"


def limit_of(allowed: Allowed, field: dataclasses.Field[Any]) -> Limit:
    """What a site accepts of a setting that clients read: its file's limit, the built-in one, or the default alone."""
    declared = declaration(field)
    if declared.kind == "extractor":
        own = () if field.default else ("",)  # none at all needs no leave
        return Limit(values=(*own, *dict.fromkeys(entry.partition("@")[0] for entry in allowed.extractors)))
    limit = allowed.settings.get(field.name) if can_be_limited(field) else None
    if limit is None:
        built_in = declared.site_limit if can_be_limited(field) else None
        limit = Limit.of(built_in) if built_in else Limit(values=(field.default,))
    if field.name == "colluders" and limit.low is not None:
        return dataclasses.replace(limit, low=max(limit.low, allowed.least_colluders))
    return limit


def limits_of(site: Site, method: Method) -> dict[str, Limit]:
    """What a site accepts of every setting of a method that clients read, by name."""
    fields = dataclasses.fields(method.settings)
    return {field.name: limit_of(site.allowed, field) for field in fields if declaration(field).reads == "client"}


def site_settings(site: Site, settings: S) -> S:
    """The settings as the site's client reads them: the server's values only where clients read them.

    What the server, or each machine, reads for itself stands at its default, so that nothing depends on what was
    sent; model, public source and schema are the site's own. Two requests that differ in no more than that are the
    same.
    """
    changes: dict[str, Any] = {
        field.name: field.default
        for field in dataclasses.fields(settings)
        if declaration(field).reads in ("server", "machine")
    }
    if isinstance(settings, LocalTraining):
        changes["client_models"] = (site.model,)
    data = site.data
    changes |= {"public_dataset": str(data.public), "schema": str(data.schema or ""), "image_reader": data.image_reader}
    changes |= {"encoder": data.encoder}
    changes |= {"label": "", "id": "", "drop": "", "image_size": 0}
    return dataclasses.replace(settings, **changes)


def check_weights(site: Site, settings: CommonSettings, arrays: Sequence[NDArray[np.generic]]) -> None:
    """Refuse weights of an extractor that the site's file does not list by their digest, before they are used.

    Parameters
    ----------
    arrays
        Of the request, as they came.

    Raises
    ------
    Refusal
        With reason ``policy``; the sentence tells the digest, and what to add to the file.
    """
    if not isinstance(settings, FrozenSettings):  # no other method takes any
        return
    for weights in _sent_weights(settings, arrays):
        chain = chain_name(settings.extractor)
        if not takes_network(chain):
            raise Refusal("policy", f"the request holds weights, but extractor={chain!r} takes none")
        entry = f"{chain}@{network_digest(weights)}"
        if entry not in site.allowed.extractors:
            raise Refusal(
                "policy",
                f"the request holds weights of extractor={chain!r} that this site does not allow; once its officer has "
                f"verified them, {entry!r} goes to extractors under [allowed]",
            )


def _sent_weights(settings: FrozenSettings, arrays: Sequence[NDArray[np.generic]]) -> list[NDArray[np.generic]]:
    """The arrays of a request that a client would take for an extractor's weights."""
    if isinstance(settings, WeightsSettings):  # the first are those of the model that all train
        return list(arrays[1:])
    return [array for array in arrays if array.ndim == 1 and np.issubdtype(array.dtype, np.floating)]
