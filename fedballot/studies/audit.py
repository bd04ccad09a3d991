"""Audits of whole methods: what their releases give away, measured, against what is claimed.

Two parts: the mechanism alone, many times; and real clients on worlds that differ in one unit (`audit_clients`).
"""

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fedballot.core.errors import SettingsError
from fedballot.core.progress import Progress
from fedballot.methods.registry import get_method
from fedballot.privacy.audit.mechanisms import (
    CANARIES,
    Finding,
    audit_class_sums,
    audit_head,
    audit_logits,
    audit_votes,
)
from fedballot.privacy.mechanisms.class_sums import ClassSums
from fedballot.privacy.mechanisms.heads import PrivateHead
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.noise.randomness import NoiseSource, os_noise, seeded_noise
from fedballot.settings.heads import PrivateHeadSettings
from fedballot.studies import audit_clients
from fedballot.studies.audit_clients import CLIENTS, COLLUDERS, DELTA, Desk

RECORDS = 2000  # that a head is trained on
MOST = 4000  # releases of real clients in each world


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
        Epsilon, at `delta`, of each release that was audited. A sample without noise claims a delta of its own.
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


def audit_method(name: str, claim: float, runs: int, progress: Progress, seed: int | None = None) -> AuditReport:
    """Audit a method by name.

    Parameters
    ----------
    name : str
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
    method = get_method(name)
    if name not in AUDITS:
        raise SettingsError(
            f"method {name!r} cannot be audited (it protects {method.protects}): there are audits of every method "
            f"whose releases are private as a whole: {', '.join(AUDITS)}"
        )
    if runs < 1000:
        raise SettingsError(f"runs={runs}: fewer than 1,000 show nothing")
    layers: list[Layer] = []
    for release in AUDITS[name]:
        if release.mechanism:
            progress.start(f"audit: the mechanism, {release.name}", 1)
            found = release.mechanism(name, claim, runs, os_noise() if seed is None else seeded_noise(seed))
            layers += [Layer(release.name, "mechanism", finding) for finding in found]
            progress.advance()
            progress.stop()
        with tempfile.TemporaryDirectory(prefix="fedballot-audit-") as folder:
            desk = Desk(name, Path(folder), min(runs, MOST), seed, progress)
            layers += [Layer(release.name, "clients", finding) for finding in release.clients(desk, claim)]
    return AuditReport(name, claim, DELTA, runs, tuple(layers))


@dataclass(frozen=True)
class Release:
    """Something that a method releases, and how it is audited: through real clients, and as a mechanism by itself."""

    name: str
    clients: Callable[[Desk, float], list[Finding]]
    mechanism: Callable[[str, float, int, NoiseSource], list[Finding]] | None = None


def votes_alone(name: str, claim: float, runs: int, noise: NoiseSource) -> list[Finding]:
    """Audit noisy votes."""
    kind = get_method(name).settings
    k = 1 if "k" in kind.__dataclass_fields__ else None
    noisy = NoisyVotes.solve(claim, DELTA, queries=1, max_votes=1, contributors=CLIENTS, colluders=COLLUDERS, k=k)
    _check_reached(claim, noisy.epsilon(DELTA))
    return audit_votes(noisy, DELTA, noise, runs)


def logits_alone(name: str, claim: float, runs: int, noise: NoiseSource) -> list[Finding]:
    """Audit the noisy sum of clipped logits."""
    noisy = NoisyLogits.solve(claim, DELTA, queries=1, classes=2, bound=1.0, contributors=CLIENTS, colluders=COLLUDERS)
    _check_reached(claim, noisy.mechanism.epsilon(DELTA))
    return audit_logits(noisy, DELTA, noise, runs)


def class_sums_alone(name: str, claim: float, runs: int, noise: NoiseSource) -> list[Finding]:
    """Audit a client's own class sums."""
    return _class_sums(claim, runs, noise, 1, 0)


def shared_class_sums_alone(name: str, claim: float, runs: int, noise: NoiseSource) -> list[Finding]:
    """Audit class sums that several clients add up with a share of the noise each."""
    return _class_sums(claim, runs, noise, CLIENTS, COLLUDERS)


def _class_sums(claim: float, runs: int, noise: NoiseSource, contributors: int, colluders: int) -> list[Finding]:
    noisy = ClassSums.solve(
        claim, DELTA, classes=2, features=CANARIES, signed=False, contributors=contributors, colluders=colluders
    )
    _check_reached(claim, noisy.mechanism.epsilon(DELTA))
    return audit_class_sums(noisy, DELTA, noise, runs)


def heads_alone(name: str, claim: float, runs: int, noise: NoiseSource) -> list[Finding]:
    """Audit private heads on data sets near the worst ones."""
    head = PrivateHead.solve(claim, DELTA, records=RECORDS, features=2, classes=2, lam=PrivateHeadSettings().lam)
    _check_reached(claim, head.mechanism.epsilon(DELTA))
    return audit_head(head, DELTA, noise, min(runs, MOST))


_VOTES = (Release("votes", audit_clients.votes, votes_alone),)
_HEAD = Release("class head", audit_clients.class_head, heads_alone)
AUDITS: dict[str, tuple[Release, ...]] = {
    "pate-fl": _VOTES,
    "private-knn-fl": _VOTES,
    "fedkd-dp": (Release("logits", audit_clients.logits, logits_alone),),
    "fedauxfdp": (
        Release("class sums", audit_clients.class_sums, class_sums_alone),
        replace(_HEAD, mechanism=None),
        Release("score head", audit_clients.score_head),
    ),
    "fedauxfdp-sum": (Release("class sums", audit_clients.class_sums, shared_class_sums_alone),),
    "fedd-p": (_HEAD,),
    "fedavg-p": (_HEAD,),
    "fedmd-nfdp": (Release("fixed sample", audit_clients.fixed_sample),),
    "fedmd-ldp": (Release("predictions", audit_clients.predictions),),
    "dp-fedavg": (Release("the server's sum", audit_clients.client_sums),),
    "dp-fedsgd": (
        Release("noisy steps", audit_clients.record_sums),
        Release("Poisson batches", audit_clients.record_batches),
        Release("images", audit_clients.record_reach),
    ),
}


def _check_reached(claim: float, reached: float) -> None:
    """Refuse a claim that integer shares are too private for.

    Raises
    ------
    SettingsError
    """
    if reached < claim * (1 - 1e-6):
        raise SettingsError(
            f"claim={claim:g}: a release with integer noise from {CLIENTS} clients costs at most epsilon {reached:.4g} "
            f"at delta {DELTA:g}, and an audit sees little beyond; give a claim above 0 and up to that"
        )
