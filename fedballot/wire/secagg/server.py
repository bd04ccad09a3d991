"""The server's side of the exchanges."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.wire.packing import unpack_labels
from fedballot.wire.secagg import crypto, sharing
from fedballot.wire.secagg.messages import (
    CONFIRM,
    KEYS,
    MASKED,
    SEALED,
    SECRET,
    SHARES,
    SIGNATURE,
    STAGES,
    UNMASK,
    Arrays,
    Bytes,
    SecaggError,
    chained,
    check_answer,
    numbers,
    view_of,
)
from fedballot.wire.secagg.plan import Form, Plan, near, seats


class Exchange:
    """The server's side: what each client is asked, and the sum.

    Use: for each stage, send `ask(client_id)` to all `clients`, `read` each answer, `receive` it if it is good, and
    `advance`. A masked ballot is added to the sum as it comes, and not kept.

    Parameters
    ----------
    plan : Plan
    form : Form
    request : str
        As the clients' :class:`~fedballot.wire.secagg.Holder` has it.

    Attributes
    ----------
    stage : str
        One of `STAGES`.
    session : str
        Names this attempt.
    clients : list of int
        Who is still there.
    inside : list of int
        Whose integers are in the sum.
    total : ndarray of int64 or None
        The sum, in the form's shape, once it is open.
    """

    def __init__(self, plan: Plan, form: Form, request: str) -> None:
        self.plan, self.form, self.request = plan, form, request
        self.bits = plan.bits(form)
        self.session = secrets.token_hex(16)
        self.stage = KEYS
        self.clients: list[int] = []
        self.inside: list[int] = []
        self.total: npt.NDArray[np.int64] | None = None
        self._answers: dict[int, Arrays] = {}  # of this stage
        self._sharers: list[int] = []
        self._sharing_clients: Set[int] = frozenset()
        self._view = self._sharing = ""  # as the clients have them
        self._keys: dict[int, npt.NDArray[Any]] = {}
        self._roster: Arrays = []  # with all keys
        self._signatures: Arrays = []  # who has signed the list, and how
        self._neighbours: dict[int, list[int]] = {}
        self._commitments: dict[int, bytes] = {}
        self._sealed: dict[int, Bytes] = {}
        self._sum = np.zeros(form.size, dtype=crypto.residue_type(self.bits))

    def ask(self, client_id: int) -> Arrays:
        """What goes to a client in this stage; in the first, the request itself goes, the same to all."""
        if self.stage == SHARES:
            return self._roster
        if self.stage == MASKED:
            senders = self._near(client_id, self._sharing_clients)
            sealed = [self._sealed[peer][self._neighbours[peer].index(client_id)] for peer in senders]
            return [numbers(self._sharers), np.array(sealed, dtype=np.uint8).reshape(-1, SEALED)]
        if self.stage == CONFIRM:
            return [numbers(self.inside)]
        return self._signatures

    def _near(self, client_id: int, among: Set[int]) -> list[int]:
        """The client's neighbours among these, sorted."""
        return [peer for peer in self._neighbours[client_id] if peer in among]

    def read(self, client_id: int, arrays: Arrays) -> Arrays:
        """A client's answer in this stage.

        Raises
        ------
        WireError
            With reason ``count``, ``dtype`` or ``shape``.
        """
        shapes: list[tuple[int, ...]] = [(3, 32)]
        if self.stage == SHARES:
            shapes = [(32,), (len(self._neighbours[client_id]), SEALED)]
        elif self.stage == MASKED:
            shapes = [(-(-self.form.size * self.bits // 8),)]
        elif self.stage == CONFIRM:
            shapes = [(SIGNATURE,)]
        elif self.stage == UNMASK:
            shapes = [(1 + len(self._near(client_id, self._sharing_clients)), SECRET)]
        return check_answer(arrays, shapes)

    def receive(self, client_id: int, arrays: Arrays) -> None:
        """Take a good answer of this stage, one of each client, in any order."""
        if self.stage == MASKED:
            self._sum += unpack_labels(arrays[0], self.form.size, 2**self.bits).astype(self._sum.dtype)
            arrays = []
        self._answers[client_id] = arrays

    def advance(self) -> None:
        """Go on to the next stage, or to the sum, with all that were received.

        Raises
        ------
        SecaggError
            If too few have answered, or shares do not fit.
        """
        answers, self._answers = self._answers, {}
        count, plan = len(answers), self.plan
        if self.stage not in (CONFIRM, UNMASK) and count < plan.min_clients:
            raise SecaggError("dropouts", f"{count} clients are left, min_clients asks for {plan.min_clients}")
        if self.stage == CONFIRM and count < plan.quorum:
            raise SecaggError("dropouts", f"{count} clients confirmed the sum, {plan.quorum} are needed")
        self.clients = sorted(answers)
        if self.stage == KEYS:
            self._keys = {client_id: arrays[0] for client_id, arrays in answers.items()}
            self._roster = [numbers(self.clients), np.stack([self._keys[client_id] for client_id in self.clients])]
            self._view = view_of(self.session, self.request, plan, self.clients, self._roster[1])
            order = seats(self._view, self.clients)
            self._neighbours = {client_id: near(order, client_id, plan.neighbours) for client_id in self.clients}
        elif self.stage == SHARES:
            self._sharers, self._sharing_clients = self.clients, frozenset(self.clients)
            self._sharing = chained(self._view, numbers(self._sharers))
            self._commitments = {client_id: arrays[0].tobytes() for client_id, arrays in answers.items()}
            self._sealed = {client_id: arrays[1] for client_id, arrays in answers.items()}
        elif self.stage == MASKED:
            self.inside = self.clients
        elif self.stage == CONFIRM:
            self._signatures = [numbers(self.clients), np.stack([answers[client_id][0] for client_id in self.clients])]
        else:
            self._open(answers)
            return
        self.stage = STAGES[STAGES.index(self.stage) + 1]

    def _open(self, answers: Mapping[int, Arrays]) -> None:
        """Take off each client's own mask, and the pairwise masks that a missing client has left behind."""
        inside = frozenset(self.inside)
        for client_id, secret in zip(self._sharers, self._restored(answers), strict=True):
            if client_id in inside:
                if crypto.commitment(secret, self.session, client_id) != self._commitments[client_id]:
                    raise SecaggError("shares", f"the shares of client {client_id}'s seed do not fit together")
                self._sum -= crypto.own_mask(secret, self.session, client_id, self.form.size, self.bits)
                continue
            if crypto.public_key(secret, self.session) != self._keys[client_id][1].tobytes():
                raise SecaggError("shares", f"the shares of client {client_id}'s key do not fit together")
            masking = crypto.private_key(secret, self.session)
            for peer in self._near(client_id, inside):
                pair = crypto.shared_secret(masking, self._keys[peer][1].tobytes())
                self._sum -= crypto.pair_mask(pair, self._sharing, peer, client_id, self.form.size, self.bits)
        modulus = 2**self.bits
        values = crypto.modulo(self._sum, self.bits).astype(np.int64)
        self.total = np.where(values >= modulus // 2, values - modulus, values).reshape(self.form.shape)

    def _restored(self, answers: Mapping[int, Arrays]) -> list[bytes]:
        """The seed of each client in the sum, or the key of one that is missing, from its holders' shares."""
        places = {  # of each owner's share in a holder's answer
            holder: {
                owner: place for place, owner in enumerate(sorted([holder, *self._near(holder, self._sharing_clients)]))
            }
            for holder in answers
        }
        threshold = self.plan.threshold
        holders = np.empty((len(self._sharers), threshold), dtype=np.int64)
        shares = np.empty((*holders.shape, SECRET), dtype=np.uint8)
        for row, owner in enumerate(self._sharers):
            there = [
                (number, holder)
                for number, holder in enumerate(sorted([owner, *self._neighbours[owner]]), start=1)
                if holder in answers
            ]
            if len(there) < threshold:
                raise SecaggError(
                    "dropouts",
                    f"{len(there)} clients sent their share of client {owner}'s secret, {threshold} are needed",
                )
            for place, (number, holder) in enumerate(there[:threshold]):
                holders[row, place] = number
                shares[row, place] = answers[holder][0][places[holder][owner]]
        return [secret.tobytes() for secret in sharing.join(holders, shares)]
