"""Audits of whole methods: what their releases give away, measured, against what is claimed.

Two parts. The mechanism alone, many times; and real clients, which train on real digits, vote, charge their ledgers and
answer through the wire format, with the tally added up as the server does it.
"""

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from fedballot.clients.base import Party
from fedballot.clients.fedaux_sum import FedauxfdpSumSettings
from fedballot.clients.pate import PateSettings
from fedballot.clients.private_heads import HeadSettings
from fedballot.clients.voting import VotingClient, VotingSettings
from fedballot.engine import federated_data
from fedballot.errors import RunError, SettingsError
from fedballot.methods import get_method
from fedballot.privacy.audit_runs import (
    CANARIES,
    Finding,
    audit_class_sums,
    audit_head,
    audit_logits,
    audit_votes,
    first_layers,
)
from fedballot.privacy.class_sums import ClassSums
from fedballot.privacy.heads import PrivateHead
from fedballot.privacy.ledger import Account, Ledger
from fedballot.privacy.logits import NoisyLogits
from fedballot.privacy.randomness import NoiseSource, os_noise, seeded_noise
from fedballot.privacy.votes import NoisyVotes
from fedballot.progress import Progress
from fedballot.runfolder import AgentFolder
from fedballot.settings import build
from fedballot.strategies.aggregation import tally
from fedballot.wire import unpack_integers

DELTA = 1e-5
AGENTS = 3  # with more of them, integer shares make a single query so private that no audit can see anything
QUERIES = 1200
RECORDS = 2000  # that a head is trained on
BUDGET = 1e6  # an audit answers far more than any party would


@dataclass(frozen=True)
class Layer:
    """One layer's finding, and which part of the method it looked at."""

    part: Literal["mechanism", "clients"]
    finding: Finding


@dataclass(frozen=True)
class AuditReport:
    """What an audit found.

    Parameters
    ----------
    method : str
    release : str
        What was audited, in words.
    claim : float
        Epsilon of that release at `delta`: zero-out for an agent, replace-one for a record.
    delta, sigma : float
        sigma is the noise on each sum.
    runs : int
        Independent releases in each of two worlds, of the mechanism; of the clients about as many.
    layers : tuple of Layer
    """

    method: str
    release: str
    claim: float
    delta: float
    sigma: float
    runs: int
    layers: tuple[Layer, ...]

    @property
    def passed(self) -> bool:
        """Whether no layer contradicts the claim."""
        return all(layer.finding.passed for layer in self.layers)

    @property
    def lower_bound(self) -> float:
        """The largest epsilon that a layer showed, each with 95 % confidence."""
        return max(layer.finding.found for layer in self.layers if layer.finding.layer != "variance")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        layers = [{"part": layer.part, **asdict(layer.finding)} for layer in self.layers]
        return {**asdict(self), "layers": layers, "passed": self.passed, "lower_bound": self.lower_bound}


def audit_method(name: str, claim: float, runs: int, progress: Progress, seed: int | None = None) -> AuditReport:
    """Audit a method by name.

    Parameters
    ----------
    name : str
    claim : float
        Epsilon, at delta = 1e-5, of the single query at which the noise is audited; about 1 or less has power.
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
            f"method {name!r} cannot be audited (it protects {method.protects}): there are audits of releases with "
            f"noise whose worst case is known: {', '.join(AUDITS)}"
        )
    if runs < 1000:
        raise SettingsError(f"runs={runs}: fewer than 1,000 show nothing")
    return AUDITS[name](name, claim, runs, progress, seed)


def audit_voting(name: str, claim: float, runs: int, progress: Progress, seed: int | None) -> AuditReport:
    """Audit noisy votes, then the method's clients at the same noise."""
    settings = _clients_settings(name)
    noisy = NoisyVotes.solve(claim, DELTA, queries=1, max_votes=1, contributors=AGENTS, k=settings.votes_per_query)
    reached = _near(claim, noisy.epsilon(DELTA))
    rounds = -(-runs // QUERIES)
    progress.start("audit: the mechanism", 1)
    found = [Layer("mechanism", finding) for finding in audit_votes(noisy, DELTA, _noise(seed), runs)]
    progress.advance(1)
    progress.start("audit: real clients", rounds)
    found += [Layer("clients", finding) for finding in _audit_clients(name, settings, noisy, rounds, progress, seed)]
    progress.stop()
    return AuditReport(name, "one query, for an agent", reached, DELTA, noisy.sigma, runs, tuple(found))


def audit_logit_sums(name: str, claim: float, runs: int, progress: Progress, seed: int | None) -> AuditReport:
    """Audit the noisy sum of clipped logits."""
    noisy = NoisyLogits.solve(claim, DELTA, queries=1, classes=2, bound=1.0, contributors=AGENTS)
    reached = _near(claim, noisy.mechanism.epsilon(DELTA))
    found = _mechanism(progress, lambda: audit_logits(noisy, DELTA, _noise(seed), runs))
    return AuditReport(name, "one query, for an agent", reached, DELTA, noisy.sigma, runs, found)


def audit_sums(name: str, claim: float, runs: int, progress: Progress, seed: int | None) -> AuditReport:
    """Audit class sums: a party's own, or those that several parties add up with a share of the noise each."""
    kind = get_method(name).settings
    contributors = AGENTS if issubclass(kind, FedauxfdpSumSettings) else 1
    noisy = ClassSums.solve(claim, DELTA, classes=2, features=CANARIES, signed=False, contributors=contributors)
    reached = _near(claim, noisy.mechanism.epsilon(DELTA))
    found = _mechanism(progress, lambda: audit_class_sums(noisy, DELTA, _noise(seed), runs))
    return AuditReport(name, "class sums, for a record", reached, DELTA, noisy.sigma, runs, found)


def audit_heads(name: str, claim: float, runs: int, progress: Progress, seed: int | None) -> AuditReport:
    """Audit private heads on data sets near the worst ones."""
    head = PrivateHead.solve(claim, DELTA, records=RECORDS, features=2, classes=2, lam=HeadSettings().lam)
    reached = _near(claim, head.mechanism.epsilon(DELTA))
    found = _mechanism(progress, lambda: audit_head(head, DELTA, _noise(seed), runs))
    return AuditReport(name, "one head, for a record", reached, DELTA, head.sigma, runs, found)


AUDITS: dict[str, Callable[[str, float, int, Progress, int | None], AuditReport]] = {
    "pate-fl": audit_voting,
    "private-knn-fl": audit_voting,
    "fedkd-dp": audit_logit_sums,
    "fedauxfdp": audit_sums,
    "fedauxfdp-sum": audit_sums,
    "fedd-p": audit_heads,
    "fedavg-p": audit_heads,
}


def _near(claim: float, reached: float) -> float:
    """The epsilon that the noise for a claim gives, if it is about the claim.

    Raises
    ------
    SettingsError
        If integer shares are too private for it.
    """
    if reached < claim * (1 - 1e-6):
        raise SettingsError(
            f"claim={claim:g}: a release with integer noise from {AGENTS} agents costs at most epsilon {reached:.4g} "
            f"at delta {DELTA:g}, and an audit sees little beyond; give a claim above 0 and up to that"
        )
    return reached


def _mechanism(progress: Progress, layers: Callable[[], list[Finding]]) -> tuple[Layer, ...]:
    progress.start("audit: the mechanism", 1)
    found = tuple(Layer("mechanism", finding) for finding in layers())
    progress.advance(1)
    progress.stop()
    return found


def _noise(seed: int | None) -> NoiseSource:
    return os_noise() if seed is None else seeded_noise(seed)


def _clients_settings(name: str) -> VotingSettings:
    """Of a method whose agents vote: few of them, on real digits, and all vote on everything."""
    chosen = {
        "dataset": "digits",
        "agents": AGENTS,
        "min_agents": AGENTS,
        "private_size": 150,
        "public_size": QUERIES,
        "test_size": 100,
        "client_models": "logistic-regression",
        "evaluate_agents": False,
        "delta": DELTA,
        "unit": "agent",
    }
    kind = get_method(name).settings
    # with one neighbour the votes are one-hot too: a single query at a small epsilon is where an audit has power
    chosen |= {"abstain": False, "vote_fraction": 1.0} if issubclass(kind, PateSettings) else {"k": 1}
    return cast(VotingSettings, build(kind, chosen))


def _audit_clients(
    name: str, settings: VotingSettings, noisy: NoisyVotes, rounds: int, progress: Progress, seed: int | None
) -> list[Finding]:
    """Variance of each share, and two worlds for one agent's votes in the tally, on real digits."""
    shares, inside, outside = [], [], []
    with tempfile.TemporaryDirectory(prefix="fedballot-audit-") as folder:
        for number in range(rounds):
            this = replace(settings, sigma=noisy.sigma, noise_seed=None if seed is None else seed + number)
            votes, released = _one_round(name, this, Path(folder), f"audit/{number}")
            shares.append(released - votes)
            noise = tally(released, released[0].shape) - votes.sum(axis=0)  # the votes are no secret here
            rows, column = np.arange(QUERIES), votes[0].argmax(axis=1)
            inside.append(noise[rows, column] + votes[0][rows, column])
            outside.append(noise[rows, (column + 1) % votes.shape[2]])
            progress.advance(1)
    return first_layers(
        np.concatenate(shares),
        float(noisy.share_variance),
        np.concatenate(inside),
        np.concatenate(outside),
        noisy.epsilon(DELTA),
        DELTA,
    )


def _one_round(
    name: str, settings: VotingSettings, root: Path, request: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Votes and releases of all agents for all queries, each of shape (agents, Q, C)."""
    data, queries = federated_data(settings), np.arange(QUERIES, dtype=np.int32)
    shape = (QUERIES, len(data.classes))
    votes, released = np.empty((AGENTS, *shape), dtype=np.int64), np.empty((AGENTS, *shape), dtype=np.int64)
    for agent in range(AGENTS):
        folder = root / str(agent)
        account = Account(f"agent {agent}", "audit", "agent", "zero-out", BUDGET, DELTA)
        party = Party(agent, settings, data, AgentFolder(folder), "cpu", Ledger(folder / "ledger", account))
        client = cast(VotingClient[VotingSettings], get_method(name).client(party))
        arrays, _, told = client.fit([queries], {"request": request, "fingerprint": data.public_fingerprint})
        if told["refused"]:
            raise RunError(f"audit: agent {agent} refused ({told['refused']!s}): {told['detail']!s}")
        released[agent] = unpack_integers(arrays[0], shape)
        votes[agent] = client.votes(queries.astype(np.int64))
    return votes, released
