"""Audits of whole methods: what their releases give away, measured, against what is claimed.

Two parts. The mechanism alone, many times; and real clients, which train on real digits, vote, charge their ledgers and
answer through the wire format, with the tally added up as the server does it.
"""

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedballot.clients.base import Party
from fedballot.clients.pate import PateClient, PateSettings
from fedballot.engine import federated_data
from fedballot.errors import RunError, SettingsError
from fedballot.methods import get_method
from fedballot.privacy import audit
from fedballot.privacy.audit_runs import ALARM, Finding, audit_votes
from fedballot.privacy.ledger import Account, Ledger
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
    claim : float
        Epsilon of one query at agent level (zero-out), at `delta`.
    delta, sigma : float
        sigma is the noise on each sum.
    runs : int
        Independent releases in each of two worlds, of the mechanism; of the clients about as many.
    layers : tuple of Layer
    """

    method: str
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
            f"method {name!r} adds no noise that an audit could measure (it protects {method.protects}); "
            f"audited can be: {', '.join(AUDITS)}"
        )
    if runs < 1000:
        raise SettingsError(f"runs={runs}: fewer than 1,000 show nothing")
    return AUDITS[name](claim, runs, progress, seed)


def audit_pate(claim: float, runs: int, progress: Progress, seed: int | None) -> AuditReport:
    """Audit noisy votes, then PATE-FL's clients at the same noise."""
    noisy = NoisyVotes.solve(claim, DELTA, queries=1, max_votes=1, contributors=AGENTS)
    reached = noisy.epsilon(DELTA)
    if reached < claim * (1 - 1e-6):
        raise SettingsError(
            f"claim={claim:g}: one query with integer noise from {AGENTS} agents costs at most epsilon {reached:.4g} "
            f"at delta {DELTA:g}, and an audit sees little beyond; give a claim above 0 and up to that"
        )
    rounds = -(-runs // QUERIES)
    progress.start("audit: the mechanism", 1)
    found = [Layer("mechanism", finding) for finding in audit_votes(noisy, DELTA, _noise(seed), runs)]
    progress.advance(1)
    progress.start("audit: real clients", rounds)
    found += [Layer("clients", finding) for finding in _audit_clients(noisy, rounds, progress, seed)]
    progress.stop()
    return AuditReport("pate-fl", reached, DELTA, noisy.sigma, runs, tuple(found))


AUDITS: dict[str, Callable[[float, int, Progress, int | None], AuditReport]] = {"pate-fl": audit_pate}


def _noise(seed: int | None) -> NoiseSource:
    return os_noise() if seed is None else seeded_noise(seed)


def _audit_clients(noisy: NoisyVotes, rounds: int, progress: Progress, seed: int | None) -> list[Finding]:
    """Variance of each share, and two worlds for one agent's votes in the tally, on real digits."""
    settings = build(
        PateSettings,
        {
            "dataset": "digits",
            "agents": AGENTS,
            "min_agents": AGENTS,
            "private_size": 150,
            "public_size": QUERIES,
            "test_size": 100,
            "client_models": "logistic-regression",
            "evaluate_agents": False,
            "abstain": False,
            "vote_fraction": 1.0,
            "sigma": noisy.sigma,
            "delta": DELTA,
        },
    )
    shares, inside, outside = [], [], []
    with tempfile.TemporaryDirectory(prefix="fedballot-audit-") as folder:
        for number in range(rounds):
            this = replace(settings, noise_seed=None if seed is None else seed + number)
            votes, released = _one_round(this, Path(folder), f"audit/{number}")
            shares.append(released - votes)
            first = tally(released, released[0].shape) - votes[1:].sum(axis=0)  # the others' votes are no secret here
            rows, column = np.arange(QUERIES), votes[0].argmax(axis=1)
            inside.append(first[rows, column])
            outside.append(first[rows, (column + 1) % votes.shape[2]])
            progress.advance(1)
    declared = float(noisy.share_variance)
    p_value = audit.variance_p_value(np.concatenate(shares), declared)
    bound = audit.two_worlds_bound(np.concatenate(inside), np.concatenate(outside), DELTA)
    claim = noisy.epsilon(DELTA)
    return [
        Finding("variance", declared, p_value, p_value >= ALARM),
        Finding("two worlds", claim, bound, bound <= claim),
    ]


def _one_round(settings: PateSettings, root: Path, request: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Votes and releases of all agents for all queries, each of shape (agents, Q, C)."""
    data, queries = federated_data(settings), np.arange(QUERIES, dtype=np.int32)
    shape = (QUERIES, len(data.classes))
    votes, released = np.empty((AGENTS, *shape), dtype=np.int64), np.empty((AGENTS, *shape), dtype=np.int64)
    for agent in range(AGENTS):
        folder = root / str(agent)
        account = Account(f"agent {agent}", "audit", "agent", "zero-out", BUDGET, DELTA)
        party = Party(agent, settings, data, AgentFolder(folder), "cpu", Ledger(folder / "ledger", account))
        client = PateClient(party)
        arrays, _, told = client.fit([queries], {"request": request, "fingerprint": data.public_fingerprint})
        if told["refused"]:
            raise RunError(f"audit: agent {agent} refused ({told['refused']!s}): {told['detail']!s}")
        released[agent] = unpack_integers(arrays[0], shape)
        votes[agent] = client.votes(queries.astype(np.int64))
    return votes, released
