"""A server's and a site's status as Prometheus reads it, and as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from fedballot.deploy.status import CertificateStatus, ServerStatus, SiteStatus

CONTENT_TYPE = CONTENT_TYPE_LATEST


def of_server(status: ServerStatus) -> bytes:
    """Whether the server answers, who is connected, which runs there are and how far they are, and what ends when."""
    registry = CollectorRegistry()
    _version(registry, status.version)
    _gauge(registry, "server_up", "Whether Flower's server answers").set(not status.problem)
    online = _gauge(registry, "site_online", "Whether a site is connected", "site")
    for site in status.sites:
        online.labels(site.name).set(site.status == "online")
    runs = _gauge(registry, "runs", "Runs by status", "status")
    for state, count in Counter(view.run.status for view in status.runs).items():
        runs.labels(state).set(count)
    done = _gauge(registry, "run_stage_done", "Steps done of a run's stage", "run", "method", "stage")
    total = _gauge(registry, "run_stage_total", "Steps of a run's stage", "run", "method", "stage")
    for view in status.runs:
        if view.stage.label:
            labels = (view.run.run_id, view.run.method, view.stage.label)
            done.labels(*labels).set(view.stage.done)
            total.labels(*labels).set(view.stage.total)
    _certificates(registry, status.certificates)
    return generate_latest(registry)


def of_site(status: SiteStatus) -> bytes:
    """What a site has spent and may spend, how often it was charged, and when its authority's certificate ends."""
    registry = CollectorRegistry()
    _version(registry, status.version)
    _gauge(registry, "ledger_usable", "Whether the ledger can be read, and is the one used last").set(
        not status.problem
    )
    for name, words, value in (
        ("epsilon_spent", "Epsilon of all charges at the ledger's delta", status.spent),
        ("epsilon_limit", "The most that may be spent", status.limit),
        ("delta", "Delta of both", status.delta),
        ("charges", "Charges in the ledger", sum(entry.charge is not None for entry in status.entries)),
    ):
        _gauge(registry, name, words, "unit").labels(status.unit).set(value)
    _certificates(registry, status.certificates)
    return generate_latest(registry)


def as_json(status: ServerStatus | SiteStatus) -> str:
    """The whole status; an infinite number becomes null."""
    return json.dumps(_finite(asdict(status)), ensure_ascii=False, indent=1)


def _gauge(registry: CollectorRegistry, name: str, words: str, *labels: str) -> Gauge:
    return Gauge(f"fedballot_{name}", words, labels, registry=registry)


def _version(registry: CollectorRegistry, version: str) -> None:
    _gauge(registry, "info", "The version of fedballot", "version").labels(version).set(1)


def _certificates(registry: CollectorRegistry, certificates: Sequence[CertificateStatus]) -> None:
    days = _gauge(registry, "certificate_days_left", "Days until a certificate ends", "file")
    for one in certificates:
        days.labels(one.name).set(one.days)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
