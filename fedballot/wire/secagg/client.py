"""A client's side of the exchanges."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedballot.core.files import is_half_written, read_arrays, write_arrays
from fedballot.wire.packing import pack_labels
from fedballot.wire.secagg import crypto, sharing
from fedballot.wire.secagg.messages import (
    CONFIRM,
    KEYS,
    SEALED,
    SECRET,
    SHARES,
    STAGES,
    UNMASK,
    Arrays,
    Bytes,
    Integers,
    SecaggError,
    arrays_digest,
    as_bytes,
    chained,
    check_integers,
    numbers,
    read_list,
    read_roster,
    read_shares,
    read_signatures,
    require_enough,
    view_of,
)
from fedballot.wire.secagg.plan import Form, Plan, near, seats, unbroken

OPENED = "the sum of this request was opened before; ask anew, in a new run"
ABANDONED_S = 24 * 3600.0  # after which the keys of an exchange that never ended are deleted
SEEDS = ("sealing", "masking", "signing")  # of a client's three keys


class Mark(Protocol):
    """Where a client notes which requests' sums it has helped to open: one place for all requests, never set back."""

    def opened(self, request: str) -> str | None:
        """The session in which this client helped to open the request's sum, or None."""

    def open(self, request: str, session: str) -> None:
        """Set the mark, on disk when this returns; again with the same session changes nothing."""


class Holder:
    """One client's side of the exchanges about one request.

    Its keys and shares are on disk between messages (mode 0600), so that a process may end after any of them. The same
    message gets the same bytes, another one in its place is refused. After the last answer only that answer is left.
    A request is opened in one session only, for two sums that differ by one client would reveal that client's integers:
    the mark is set before the signature leaves, without which no sum is opened.

    Parameters
    ----------
    plan : Plan
    client_id : int
    folder : Path
        Of the client's own.
    request : str
        What the integers answer; the client's integers must always be the same for it. All clients of a sum must have
        the same.
    session : str
        Names the server's attempt; every attempt has keys of its own.
    mark : Mark
        The client's own.
    """

    def __init__(self, plan: Plan, client_id: int, folder: Path, request: str, session: str, mark: Mark) -> None:
        self.plan, self.client_id, self.request, self.session = plan, client_id, request, session
        self.folder, self.mark = folder, mark
        name = hashlib.sha256(request.encode()).hexdigest()[:32]
        self._pending, self._opened = folder / f"{name}.pending.npz", folder / f"{name}.opened.npz"
        self._state: dict[str, npt.NDArray[Any]] = {}

    def answer(self, stage: str, arrays: Arrays, form: Form, integers: Callable[[Arrays], Integers]) -> Arrays:
        """Answer one message.

        Parameters
        ----------
        stage : one of `STAGES`.
        arrays : of the message; with the first, the request itself.
        form : of the integers.
        integers : makes the client's integers from the request's arrays; called in the masked stage only.

        Raises
        ------
        SecaggError
            If the message does not fit those before it, or would betray this client or another.
        """
        with self._locked():
            self._load(stage)
            digest, first = arrays_digest(arrays), self._state.get(f"digest {stage}")
            if first is not None and not np.array_equal(first, digest):
                raise SecaggError("stage", f"another {stage!r} message was answered before in this exchange")
            if first is None:
                self._take(stage, arrays)
                self._state[f"digest {stage}"] = digest
                self._save()
            if stage != UNMASK and self._opened.exists():
                raise SecaggError("opened", "this exchange is over")
            return self._reply(stage, form, integers)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            for path in filter(is_half_written, self.folder.iterdir()):  # nobody else writes under the lock
                path.unlink()
            yield

    def _load(self, stage: str) -> None:
        path, marked = self._opened if self._opened.exists() else self._pending, self.mark.opened(self.request)
        self._state = read_arrays(path) if path.exists() else {}
        here = bool(self._state) and str(self._state["session"]) == self.session
        # without its state, a client that has signed a list might sign another one in the same session
        if marked not in (None, self.session) or (not here and (marked is not None or path == self._opened)):
            raise SecaggError("opened", OPENED)
        if here:
            if path == self._opened:
                self._pending.unlink(missing_ok=True)  # left by a process that died between the two files
            number = STAGES.index(stage)
            if f"digest {stage}" not in self._state and number and f"digest {STAGES[number - 1]}" not in self._state:
                raise SecaggError("stage", f"a {stage!r} message before its time")
            return
        left = [str(self._state[name]) for name in self._state if name.partition(" ")[0] in ("session", "left")]
        if self.session in left:  # a message that comes late
            raise SecaggError("stage", "an exchange that this client has left for a later one")
        if stage != KEYS:
            raise SecaggError("stage", f"a {stage!r} message of an exchange that this client has no keys for")
        for old in self.folder.glob("*.pending.npz"):
            if time.time() - old.stat().st_mtime > ABANDONED_S:
                old.unlink()
        self._state = {f"left {number}": np.array(name) for number, name in enumerate(left)}
        self._state["session"] = np.array(self.session)

    def _save(self) -> None:
        over = "revealed" in self._state
        write_arrays(self._opened if over else self._pending, self._state, mode=0o600)
        if over:
            self._pending.unlink(missing_ok=True)

    def _take(self, stage: str, arrays: Arrays) -> None:
        """Check a new message, and add to the state all that its answer is made of."""
        take = (self._begin, self._share, self._receive, self._confirm, self._open)
        take[STAGES.index(stage)](arrays)

    def _begin(self, arrays: Arrays) -> None:
        self._state |= {f"request {index}": array for index, array in enumerate(arrays)}
        self._state |= {name: as_bytes(os.urandom(SECRET)) for name in SEEDS}

    def _public(self) -> Bytes:
        """This client's public keys, uint8 (3, 32)."""
        sealing, masking, signing = (self._state[name].tobytes() for name in SEEDS)
        pair = crypto.public_key(sealing, self.session) + crypto.public_key(masking, self.session)
        last = crypto.signing_key(signing, self.session).public_key().public_bytes_raw()
        return as_bytes(pair + last).reshape(3, 32)

    def _share(self, arrays: Arrays) -> None:
        """Split the own seed and key among the neighbours, and seal each one's shares."""
        roster, keys = read_roster(arrays, self.plan)
        if self.client_id not in roster or not np.array_equal(keys[roster.index(self.client_id)], self._public()):
            raise SecaggError("keys", "the roster is without this client, or has other keys for it")
        view = view_of(self.session, self.request, self.plan, roster, keys)
        peers = near(seats(view, roster), self.client_id, self.plan.neighbours)
        peer_keys = keys[np.searchsorted(roster, peers)]
        seed, holders = os.urandom(SECRET), sorted([self.client_id, *peers])
        pair = np.stack([as_bytes(seed), self._state["masking"]])
        of_both = sharing.split(pair, self.plan.threshold, len(holders))
        shares = {holder: of_both[:, number].tobytes() for number, holder in enumerate(holders)}
        sealing = crypto.private_key(self._state["sealing"].tobytes(), self.session)
        sealed = []
        for peer, key in zip(peers, peer_keys, strict=True):
            secret = crypto.shared_secret(sealing, key[0].tobytes())
            sealed.append(crypto.seal(secret, shares[peer], view, self.client_id, peer))
        self._state |= {
            "seed": as_bytes(seed),
            "view": np.array(view),
            "roster": numbers(roster),
            "signers": keys[:, 2],
            "peers": np.array(peers),
            "peer keys": peer_keys,
            "own shares": as_bytes(shares[self.client_id]),
            "sealed": as_bytes(b"".join(sealed)).reshape(len(peers), SEALED),
        }

    def _receive(self, arrays: Arrays) -> None:
        """Open what the neighbours have sealed for this client."""
        peers, view = self._state["peers"].tolist(), str(self._state["view"])
        sharers, sealed = read_shares(arrays)
        self._require_members(sharers, self._state["roster"].tolist())
        shared = set(sharers)
        senders = [peer for peer in peers if peer in shared]
        if len(sealed) != len(senders):
            raise SecaggError("stage", "shares must come from each neighbour that is said to have sent some")
        if len(senders) + 1 < self.plan.threshold:
            raise SecaggError("dropouts", f"{len(senders) + 1} shares came, {self.plan.threshold} open a secret")
        sealing = crypto.private_key(self._state["sealing"].tobytes(), self.session)
        shares = []
        for sender, content in zip(senders, sealed, strict=True):
            secret = crypto.shared_secret(sealing, self._state["peer keys"][peers.index(sender)][0].tobytes())
            shares.append(crypto.unseal(secret, content.tobytes(), view, sender, self.client_id))
        self._state |= {
            "sharers": numbers(sharers),
            "sharing": np.array(chained(view, numbers(sharers))),
            "senders": np.array(senders),
            "shares": as_bytes(b"".join(shares)).reshape(-1, 2 * SECRET),
        }

    def _require_members(self, clients: list[int], before: list[int]) -> None:
        """Refuse lists that leave out this client, are too short, or name others than were there before."""
        if self.client_id not in clients:
            raise SecaggError("stage", "the list is without this client, which has answered")
        require_enough(clients, self.plan)
        if not set(clients) <= set(before):
            raise SecaggError("stage", "the list names a client that was not there before")

    def _confirm(self, arrays: Arrays) -> None:
        """Check the one list of those whose integers are in the sum, and mark the request as opened by it."""
        state, inside = self._state, read_list(arrays)
        self._require_members(inside, state["sharers"].tolist())
        if len({self.client_id, *state["senders"].tolist()} & set(inside)) < self.plan.threshold:
            raise SecaggError(
                "dropouts", f"fewer than {self.plan.threshold} of this client's neighbours are in the sum"
            )
        if not unbroken(seats(str(state["view"]), state["roster"].tolist()), inside, self.plan):
            raise SecaggError("dropouts", "too many who sit next to each other on the circle are not in the sum")
        self.mark.open(self.request, self.session)
        state |= {"inside": numbers(inside), "statement": np.array(chained(str(state["sharing"]), numbers(inside)))}

    def _open(self, arrays: Arrays) -> None:
        """Choose one kind of share for each client by the list, if more than half have signed the same one."""
        state, signatures = self._state, read_signatures(arrays)
        if self.mark.opened(self.request) != self.session:
            raise SecaggError("opened", "this client's mark of the request is gone; it reveals nothing without it")
        self._require_quorum(signatures)
        inside, senders = set(state["inside"].tolist()), state["senders"].tolist()
        shares = dict(zip([self.client_id, *senders], [state["own shares"], *state["shares"]], strict=True))
        revealed = [both[:SECRET] if peer in inside else both[SECRET:] for peer, both in sorted(shares.items())]
        # all else is deleted: nothing else of this request can be revealed again
        digests = {name: value for name, value in state.items() if name.startswith("digest ")}
        self._state = {"session": np.array(self.session), "revealed": np.stack(revealed), **digests}

    def _require_quorum(self, signatures: dict[int, bytes]) -> None:
        """Refuse unless a quorum has signed the list that this client was shown."""
        keys = dict(zip(self._state["roster"].tolist(), self._state["signers"], strict=True))
        statement, count = str(self._state["statement"]), 0
        for signer, signature in signatures.items():
            if signer in keys:
                count += crypto.has_signed(keys[signer].tobytes(), signature, statement)
            if count == self.plan.quorum:
                return
        raise SecaggError(
            "dropouts", f"{count} clients have signed the list that this one was shown, not {self.plan.quorum}"
        )

    def _reply(self, stage: str, form: Form, integers: Callable[[Arrays], Integers]) -> Arrays:
        """The answer, out of the state."""
        state = self._state
        if stage == KEYS:
            return [self._public()]
        if stage == SHARES:
            commitment = crypto.commitment(state["seed"].tobytes(), self.session, self.client_id)
            return [as_bytes(commitment + state["sealed"].tobytes())]
        if stage == CONFIRM:
            key = crypto.signing_key(state["signing"].tobytes(), self.session)
            return [as_bytes(crypto.sign(key, str(state["statement"])))]
        if stage == UNMASK:
            return [state["revealed"]]
        request = [state[f"request {index}"] for index in range(sum(name.startswith("request ") for name in state))]
        return [self._masked(check_integers(integers(request), form), self.plan.bits(form))]

    def _masked(self, values: npt.NDArray[np.int64], bits: int) -> Bytes:
        state, peers = self._state, self._state["peers"].tolist()
        masking = crypto.private_key(state["masking"].tobytes(), self.session)
        total = crypto.own_mask(state["seed"].tobytes(), self.session, self.client_id, values.size, bits)
        total = total + values.ravel().astype(total.dtype)
        for sender in state["senders"].tolist():
            secret = crypto.shared_secret(masking, state["peer keys"][peers.index(sender)][1].tobytes())
            total += crypto.pair_mask(secret, str(state["sharing"]), self.client_id, sender, values.size, bits)
        return pack_labels(crypto.modulo(total, bits), 2**bits)
