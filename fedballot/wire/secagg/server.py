"""The server's side of the exchanges."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.wire.packing import WireError, unpack_labels
from fedballot.wire.secagg import crypto, sharing
from fedballot.wire.secagg.messages import (
    COMMITMENT,
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
    as_bytes,
    chained,
    check_answer,
    numbers,
    view_of,
)
from fedballot.wire.secagg.plan import Form, Plan, graph, seats


class Exchange:
    """The server's side: what each client is asked, and the sum.

    Use: for each stage, send `ask(client_id)` to all `clients`, `read` each answer, `receive` it if it is good, and
    `advance` when no more will come. A masked ballot is added to the one running sum and dropped.

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
    common : list of ndarray
        What goes to all clients in this stage.
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
        self.common: Arrays = []
        self.inside: list[int] = []
        self.total: npt.NDArray[np.int64] | None = None
        self._came: set[int] = set()  # whose answers of this stage have come
        self._answers: dict[int, Arrays] = {}  # theirs, as far as they are still needed
        self._sharers: list[int] = []
        self._view = self._sharing = ""  # as the clients have them
        self._keys: dict[int, Bytes] = {}
        self._neighbours: dict[int, list[int]] = {}
        self._senders: dict[int, list[int]] = {}  # of each client's neighbours those who have shared
        self._commitments: dict[int, bytes] = {}
        self._sealed: dict[int, Bytes] = {}
        self._sum = np.zeros(form.size, dtype=crypto.residue_type(self.bits))

    def ask(self, client_id: int) -> Arrays:
        """What goes to a client in this stage; in the first, the request itself goes, the same to all."""
        return [*self.common, *self.own(client_id)]

    def own(self, client_id: int) -> Arrays:
        """What goes to this client alone, behind what goes to all."""
        if self.stage != MASKED:
            return []
        sealed = [self._sealed[peer][self._neighbours[peer].index(client_id)] for peer in self._senders[client_id]]
        return [np.array(sealed, dtype=np.uint8).reshape(-1, SEALED)]

    def read(self, client_id: int, arrays: Arrays) -> Arrays:
        """A client's answer in this stage.

        Raises
        ------
        WireError
            With reason ``count``, ``dtype`` or ``shape``.
        """
        shapes: list[tuple[int, ...]] = [(3, 32)]
        if self.stage == SHARES:
            shapes = [(COMMITMENT + len(self._neighbours[client_id]) * SEALED,)]
        elif self.stage == MASKED:
            shapes = [(-(-self.form.size * self.bits // 8),)]
        elif self.stage == CONFIRM:
            shapes = [(SIGNATURE,)]
        elif self.stage == UNMASK:
            shapes = [(1 + len(self._senders[client_id]), SECRET)]
        return check_answer(arrays, shapes)

    def receive(self, client_id: int, arrays: Arrays) -> None:
        """Take a client's only answer in this stage, as :meth:`read` returns it.

        Raises
        ------
        WireError
            With reason ``duplicate``.
        """
        if client_id in self._came:
            raise WireError("duplicate", f"client {client_id} answered twice")
        self._came.add(client_id)
        if self.stage == MASKED:
            self._sum += unpack_labels(arrays[0], self.form.size, 2**self.bits).astype(self._sum.dtype)
        else:
            self._answers[client_id] = arrays

    def advance(self) -> None:
        """No more answers come in this stage: go on to the next one, or to the sum.

        Raises
        ------
        SecaggError
            If too few have come, or shares do not fit.
        """
        count, plan = len(self._came), self.plan
        if self.stage not in (CONFIRM, UNMASK) and count < plan.min_clients:
            raise SecaggError("dropouts", f"{count} clients are left, min_clients asks for {plan.min_clients}")
        if self.stage == CONFIRM and count < plan.quorum:
            raise SecaggError("dropouts", f"{count} clients confirmed the sum, {plan.quorum} are needed")
        self.clients, answers = sorted(self._came), self._answers
        if self.stage == KEYS:
            self._keys = {client_id: arrays[0] for client_id, arrays in answers.items()}
            self.common = [numbers(self.clients), np.stack([self._keys[client_id] for client_id in self.clients])]
            self._view = view_of(self.session, self.request, plan, self.clients, self.common[1])
            self._neighbours = graph(seats(self._view, self.clients), plan.neighbours)
        elif self.stage == SHARES:
            self._sharers = self.clients
            self._sharing = chained(self._view, numbers(self._sharers))
            self._senders = {client_id: self._near(client_id, self._came) for client_id in self._sharers}
            self._commitments = {client_id: arrays[0][:COMMITMENT].tobytes() for client_id, arrays in answers.items()}
            self._sealed = {
                client_id: arrays[0][COMMITMENT:].reshape(-1, SEALED) for client_id, arrays in answers.items()
            }
            self.common = [numbers(self._sharers)]
        elif self.stage == MASKED:
            self.inside, self._sealed = self.clients, {}
            self.common = [numbers(self.inside)]
        elif self.stage == CONFIRM:
            self.common = [numbers(self.clients), np.stack([answers[client_id][0] for client_id in self.clients])]
        else:
            self._open()
            return
        self._came, self._answers = set(), {}
        self.stage = STAGES[STAGES.index(self.stage) + 1]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What :meth:`taken_up` goes on from: in the last two exchanges, which a client takes part in once only."""
        roster = sorted(self._keys)
        commitments = b"".join(self._commitments[client_id] for client_id in self._sharers)
        return {
            "request": np.array(self.request),
            "session": np.array(self.session),
            "stage": np.array(self.stage),
            "clients": numbers(self.clients),
            "inside": numbers(self.inside),
            "sharers": numbers(self._sharers),
            "roster": numbers(roster),
            "keys": np.stack([self._keys[client_id] for client_id in roster]),
            "commitments": as_bytes(commitments).reshape(-1, COMMITMENT),
            "sum": self._sum,
            **{f"common {index}": array for index, array in enumerate(self.common)},
        }

    @classmethod
    def taken_up(cls, plan: Plan, form: Form, state: Mapping[str, npt.NDArray[Any]]) -> Exchange:
        """The exchange of that state, under the same plan and form, before any answer of its stage."""
        self = cls(plan, form, str(state["request"]))
        self.session, self.stage = str(state["session"]), str(state["stage"])
        self.clients, self.inside = state["clients"].tolist(), state["inside"].tolist()
        self.common = [state[name] for name in sorted(state) if name.startswith("common ")]
        roster, self._sharers = state["roster"].tolist(), state["sharers"].tolist()
        self._keys = dict(zip(roster, state["keys"], strict=True))
        self._view = view_of(self.session, self.request, plan, roster, state["keys"])
        self._sharing = chained(self._view, numbers(self._sharers))
        self._neighbours = graph(seats(self._view, roster), plan.neighbours)
        self._senders = {client_id: self._near(client_id, {*self._sharers}) for client_id in self._sharers}
        made = [row.tobytes() for row in state["commitments"]]
        self._commitments = dict(zip(self._sharers, made, strict=True))
        self._sum = state["sum"]
        return self

    def _near(self, client_id: int, among: set[int]) -> list[int]:
        """The client's neighbours among these, sorted."""
        return [peer for peer in self._neighbours[client_id] if peer in among]

    def _open(self) -> None:
        """Take off each client's own mask, and the pairwise masks that a missing client has left behind."""
        inside = set(self.inside)
        for client_id, secret in self._restore().items():
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

    def _restore(self) -> dict[int, bytes]:
        """The seed of each client in the sum and the key of each that is missing, from their first holders' shares."""
        threshold, owners = self.plan.threshold, {client_id: row for row, client_id in enumerate(self._sharers)}
        count = np.zeros(len(owners), dtype=np.int64)
        held = np.zeros((len(owners), threshold), dtype=np.int64)  # the holders' numbers
        shares = np.zeros((len(owners), threshold, SECRET), dtype=np.uint8)
        for holder in self.clients:
            senders, revealed = self._senders[holder], self._answers[holder][0]
            for owner, share in zip(sorted([holder, *senders]), revealed, strict=True):
                row = owners[owner]
                if count[row] < threshold:
                    holders = sorted([owner, *self._neighbours[owner]])
                    held[row, count[row]], shares[row, count[row]] = holders.index(holder) + 1, share
                count[row] += 1
        for client_id, row in owners.items():
            if count[row] < threshold:
                raise SecaggError(
                    "dropouts",
                    f"{count[row]} clients sent their share of client {client_id}'s secret, {threshold} are needed",
                )
        restored = sharing.join(held, shares)
        return {client_id: restored[row].tobytes() for client_id, row in owners.items()}
