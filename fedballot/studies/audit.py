"""Audits of whole methods: what their releases give away, measured, against what is claimed.

Two parts: each mechanism alone, many times; and real clients on worlds that differ in one unit. Which ones follows
from the mechanisms of the method's composition (`audits`).
"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fedballot.core.errors import SettingsError
from fedballot.core.progress import Progress
from fedballot.core.setting import choices_of, names_of
from fedballot.methods.registry import get_method
from fedballot.privacy.audit.mechanisms import CANARIES, Finding
from fedballot.privacy.mechanism import Composition, Facts, Mechanism
from fedballot.privacy.noise.randomness import os_noise, seeded_noise
from fedballot.studies.audits import (  # noqa: F401 each adds its audits to the registry
    class_sums,
    heads,
    histogram,
    logits,
    predictions,
    samples,
    votes,
    weights,
)
from fedballot.studies.audits.mechanisms import MOST, audit_alone, knows
from fedballot.studies.audits.registry import ClientAudit, client_audits
from fedballot.studies.audits.worlds import CLIENTS, COLLUDERS, DELTA, Desk

RECORDS = 2000  # that a head is trained on
SMALL: Mapping[str, Any] = {
    "clients": CLIENTS,
    "min_clients": CLIENTS,
    "colluders": COLLUDERS,
    "participation": 1.0,
    "public_size": CANARIES + 1,  # more than the coordinates of class sums
    "queries": 1,
    "k": 1,
    "rounds": 1,
    "epochs": 1,
    "rate": 1.0,
    "dimension": CANARIES,
    "records": RECORDS,
    "unit": "client",
}
"""Settings, as far as a method has them, at which a mechanism is audited by itself: of one query, step or round."""
FACTS = Facts(classes=2, records=RECORDS, features=CANARIES, negatives=RECORDS, weights=CANARIES, client=0)


@dataclass(frozen=True)
class Layer:
    """One layer's finding, and what it looked at."""

    release: str
    part: Literal["mechanism", "clients"]
    finding: Finding


@dataclass(frozen=True)
class AuditReport:
    """What an audit found.

    Parameters
    ----------
    method : str
    claim : float
        Epsilon, at `delta`, of each release that was audited. A sample without noise claims a delta of its own, and a
        worst case its own epsilon and delta; a vote that counts less, a smaller epsilon.
    delta : float
    runs : int
        Independent releases in each of two worlds, of the mechanism; of the clients at most 4,000, of a server 2,000.
    layers : tuple of Layer
    """

    method: str
    claim: float
    delta: float
    runs: int
    layers: tuple[Layer, ...]

    @property
    def passed(self) -> bool:
        """Whether no layer contradicts the claim."""
        return all(layer.finding.passed for layer in self.layers)

    @property
    def lower_bound(self) -> float:
        """The largest epsilon that a layer showed, each with 95 % confidence."""
        return max((layer.finding.found for layer in self.layers if layer.finding.about[1] == "ε"), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        layers = [{"release": one.release, "part": one.part, **asdict(one.finding)} for one in self.layers]
        return {**asdict(self), "layers": layers, "passed": self.passed, "lower_bound": self.lower_bound}


@dataclass(frozen=True)
class Release:
    """A part of what a method releases, and how it is audited.

    Parameters
    ----------
    part : str
    mechanism : Mechanism
        Made for small settings and an epsilon of the claim.
    choice : mapping
        Settings that lead to it, where the defaults do not.
    clients : list of ClientAudit
        Audits through real clients; none for a mechanism that we do not know.
    """

    part: str
    mechanism: Mechanism
    choice: Mapping[str, Any]
    clients: list[ClientAudit]

    @property
    def name(self) -> str:
        """Of the mechanism's own audit."""
        return self.clients[0].release if self.clients else self.part


def releases(name: str, claim: float) -> list[Release]:
    """All that a method can release, by each choice of its settings that leads to other mechanisms.

    Raises
    ------
    SettingsError
        If a part has no guarantee, or a mechanism that nobody has said how to audit.
    """
    method = get_method(name)
    out: dict[tuple[str, type[Mechanism]], Release] = {}
    for choice, composition in _compositions(name, claim):
        if not composition.private:
            if choice:
                continue
            raise SettingsError(
                f"method {name!r} cannot be audited (it protects {method.protects}): there are audits of methods whose "
                f"releases are private as a whole, and of this one {', '.join(composition.uncharged)} is not"
            )
        for part, mechanism in composition.parts.items():
            if (part, type(mechanism)) not in out:
                release = Release(part, mechanism, choice, client_audits(part, mechanism))
                if not release.clients and not knows(mechanism):
                    raise SettingsError(
                        f"method {name!r} cannot be audited: nobody has said how to audit {type(mechanism).__name__} "
                        f"(part {part!r}): give it a `worst_case`, see fedballot.privacy.mechanism.WorstCase"
                    )
                out[part, type(mechanism)] = release
    return list(out.values())


def _compositions(name: str, claim: float) -> Iterator[tuple[Mapping[str, Any], Composition]]:
    """Of the defaults, then of each other choice."""
    kind = get_method(name).settings
    others: list[dict[str, Any]] = [{key: word} for key, words in choices_of(kind).items() for word in words]
    if "client_epsilons" in names_of(kind):
        others.append({"client_epsilons": (claim / 2, claim)})
    for choice in [{}, *others]:
        try:
            settings = Desk(name, Path(), 0, choice=choice).settings(**SMALL, epsilon=claim, score_epsilon=claim)
            composition: Composition = settings.composition(FACTS)
        except SettingsError:
            if not choice:
                raise
            continue  # a choice that the other settings do not allow
        yield choice, composition


def audit_method(name: str, claim: float, runs: int, progress: Progress, seed: int | None = None) -> AuditReport:
    """Audit a method.

    Parameters
    ----------
    name : str
        Of a method, or where it can be imported from (``package.module:METHOD``).
    claim : float
        Epsilon, at delta = 1e-5, of the single release at which the noise is audited; about 1 or less has power.
    runs : int
        At least 1,000.
    progress : Progress
    seed : int, optional
        Of all noise, for tests; None takes the operating system's.

    Raises
    ------
    SettingsError
        If the method has nothing to audit, or the claim or runs are out of range.
    """
    if runs < 1000:
        raise SettingsError(f"runs={runs}: fewer than 1,000 show nothing")
    layers: list[Layer] = []
    for release in releases(name, claim):
        if knows(release.mechanism):
            progress.start(f"audit: the mechanism, {release.name}", 1)
            noise = os_noise() if seed is None else seeded_noise(seed)
            findings = audit_alone(release.mechanism, claim, noise, runs)
            layers += [Layer(release.name, "mechanism", finding) for finding in findings]
            progress.advance()
            progress.stop()
        for audit in release.clients:
            with tempfile.TemporaryDirectory(prefix="fedballot-audit-") as folder:
                desk = Desk(name, Path(folder), min(runs, MOST), seed, progress, release.choice)
                findings = audit.run(desk, release.part, claim)
            layers += [Layer(audit.release, "clients", finding) for finding in findings]
    return AuditReport(name, claim, DELTA, runs, tuple(layers))
