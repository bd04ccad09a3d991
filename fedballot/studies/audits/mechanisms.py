"""Audits of a mechanism by itself, by its type."""

from __future__ import annotations

from functools import singledispatch

from fedballot.core.errors import SettingsError
from fedballot.privacy.audit.mechanisms import (
    Finding,
    audit_class_sums,
    audit_head,
    audit_logits,
    audit_votes,
    audit_worst_case,
)
from fedballot.privacy.mechanism import Auditable, Mechanism
from fedballot.privacy.mechanisms.heads import PrivateHead
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.privacy.mechanisms.parts import OwnSums, SharedSums
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.mechanisms.weighted import WeightedVotes
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.studies.audits.worlds import CLIENTS, DELTA

MOST = 4000  # releases of real clients, or of private heads, in each world


@singledispatch
def audit_alone(mechanism: Mechanism, claim: float, noise: NoiseSource, runs: int) -> list[Finding]:
    """Audit a mechanism through its own releases: by its worst case, unless its type has a sharper audit.

    Parameters
    ----------
    mechanism : Mechanism
        Made for an epsilon of ``claim`` at `DELTA` where its settings have a target.
    claim : float
    noise : NoiseSource
    runs : int
        Releases in each of two worlds.

    Returns
    -------
    list of Finding
        Empty if the mechanism names no worst case.

    Raises
    ------
    SettingsError
        If integer noise makes the mechanism so private that the claim cannot be reached.
    """
    return audit_worst_case(mechanism, noise, runs) if isinstance(mechanism, Auditable) else []


def knows(mechanism: Mechanism) -> bool:
    """Whether `audit_alone` has something to audit it by."""
    sharper = audit_alone.dispatch(type(mechanism)) is not audit_alone.dispatch(object)
    return sharper or isinstance(mechanism, Auditable)


@audit_alone.register(NoisyVotes)
def _votes(mechanism: NoisyVotes, claim: float, noise: NoiseSource, runs: int) -> list[Finding]:
    _check_reached(claim, mechanism.epsilon(DELTA))
    return audit_votes(mechanism, DELTA, noise, runs)


@audit_alone.register(WeightedVotes)
def _weighted_votes(mechanism: WeightedVotes, claim: float, noise: NoiseSource, runs: int) -> list[Finding]:
    return audit_votes(mechanism, DELTA, noise, runs)  # a vote that counts less claims less


@audit_alone.register(NoisyLogits)
def _logits(mechanism: NoisyLogits, claim: float, noise: NoiseSource, runs: int) -> list[Finding]:
    _check_reached(claim, mechanism.mechanism.epsilon(DELTA))
    return audit_logits(mechanism, DELTA, noise, runs)


@audit_alone.register(OwnSums)
@audit_alone.register(SharedSums)
def _class_sums(mechanism: OwnSums | SharedSums, claim: float, noise: NoiseSource, runs: int) -> list[Finding]:
    if mechanism.noisy is None:
        return []
    _check_reached(claim, mechanism.noisy.mechanism.epsilon(DELTA))
    return audit_class_sums(mechanism.noisy, DELTA, noise, runs)


@audit_alone.register(PrivateHead)
def _heads(mechanism: PrivateHead, claim: float, noise: NoiseSource, runs: int) -> list[Finding]:
    _check_reached(claim, mechanism.mechanism.epsilon(DELTA))
    return audit_head(mechanism, DELTA, noise, min(runs, MOST))


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
