"""Which audits through real clients there are of a mechanism, by its type.

A package adds one of its own mechanism's by the same decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from fedballot.privacy.audit.mechanisms import Finding
from fedballot.privacy.mechanism import Mechanism
from fedballot.studies.audits.worlds import Desk

Worlds = Callable[[Desk, str, float], list[Finding]]


@dataclass(frozen=True)
class ClientAudit:
    """An audit of a mechanism through real clients.

    Parameters
    ----------
    release
        What is audited, in a few words.
    run
        Takes a desk, the name of the answer's part and the claim; makes worlds and compares what clients tell in them.
    parts
        Names of the parts that it knows; empty: of any name.
    """

    release: str
    run: Worlds
    parts: Collection[str] = ()


_AUDITS: dict[type[Mechanism], list[ClientAudit]] = {}


def client_audit(mechanism: type[Mechanism], release: str, parts: Collection[str] = ()) -> Callable[[Worlds], Worlds]:
    """Audit each part of a method that has this type of mechanism by the decorated function, see `ClientAudit`.

    Examples
    --------
    >>> @client_audit(MyMechanism, "my release")
    ... def my_worlds(desk, part, claim): ...
    """

    def add(run: Worlds) -> Worlds:
        _AUDITS.setdefault(mechanism, []).append(ClientAudit(release, run, parts))
        return run

    return add


def client_audits(part: str, mechanism: Mechanism) -> list[ClientAudit]:
    """The audits of a part of an answer: those of its mechanism's type, or of the nearest one that this extends."""
    for kind in type(mechanism).__mro__:
        if kind in _AUDITS:
            return [audit for audit in _AUDITS[kind] if not audit.parts or part in audit.parts]
    return []
