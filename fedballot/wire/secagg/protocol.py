"""Secure aggregation: the server learns the sum of the clients' integers modulo a power of two, and nothing else.

Source: Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning", Figure 4, with its
consistency check for a server that lies, on a sparse graph as in Bell et al. 2020, "Secure single-server aggregation
with (poly)logarithmic overhead". Five exchanges: keys, shares, masked, confirm, unmask. A client adds two kinds of
masks to its integers: one from a seed of its own, and one for each neighbour, which the neighbour takes off again. It
gives every neighbour a share of its seed and of its key. When the sum's clients are listed, each signs the list that it
was shown, and tells nothing before more than half have signed the same. Then holders tell the seed's share of a client
whose integers are in the sum, and the key's share of one that fell away in between; never both, which together would
open its integers.

What was shown to a client is bound into what it makes of it: the roster with all keys into the keys of sealed shares,
the list of those who shared into the pairs' masks, and both with the sum's list into the signature. So clients to whom
the server tells different stories cannot open anything together. Key agreement, ciphers, signatures and secret sharing
come from `cryptography` and `pycryptodome`. No Flower, no global state.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedballot.core.errors import FedballotError, SettingsError
from fedballot.core.files import read_arrays, write_arrays
from fedballot.wire.packing import WireError, pack_labels, unpack_labels

Arrays = list[npt.NDArray[Any]]
Integers = npt.NDArray[np.integer]

KEYS, SHARES, MASKED, CONFIRM, UNMASK = STAGES = ("keys", "shares", "masked", "confirm", "unmask")
SECRET = 16  # bytes of a shared secret: one block of pycryptodome's Shamir
NONCE, SEALED = 12, 12 + 2 * SECRET + 16  # bytes: nonce, two shares, tag
SIGNATURE = 64  # bytes
STUCK = 2.0**-20  # chance that clients missing at random may have of leaving the sum shut
FEWEST = 20  # neighbours, however few would be safe: who is not counted as a colluder may turn out to be one
OPENED = "the sum of this request was opened before; ask anew, in a new run"
ABANDONED_S = 24 * 3600.0  # after which the keys of an exchange that never ended are deleted


class SecaggError(FedballotError):
    """An exchange that cannot go on; ``reason`` is a short fixed word for counting."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Form:
    """What a client's integers look like: their shape, and the largest magnitude of any of them."""

    shape: tuple[int, ...]
    largest: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Plan:
    """Who must be there and who holds shares; the same for all clients, and computed by each from the settings.

    Parameters
    ----------
    clients : most that can take part, n.
    m_min : fewest whose sum may be opened.
    colluders : clients that may pool what they hold with the server, t.
    neighbours : of each client, k.
    threshold : shares that open a secret, of the k + 1 that exist (its owner keeps one).
    """

    clients: int
    m_min: int
    colluders: int
    neighbours: int
    threshold: int

    @property
    def quorum(self) -> int:
        """Signatures that make a list the only one: two such lists would share an honest client, who signs once."""
        return (self.clients + self.colluders) // 2 + 1

    def bits(self, form: Form) -> int:
        """Width of the modulus: 2^bits holds every sum of ``clients`` such arrays, with its sign.

        Raises
        ------
        SettingsError
            If 63 bits are too few.
        """
        bits = (2 * self.clients * form.largest + 1).bit_length()
        if bits > 63:
            raise SettingsError(
                f"secure aggregation: sums of {self.clients} integers up to {form.largest} need {bits} bits, more than "
                "63; use a coarser grid or more noise"
            )
        return bits


def betrays(clients: int, m_min: int, colluders: int, neighbours: int, threshold: int) -> bool:
    """Whether t colluders could open more than the one sum, wherever they sit and whoever is said to be missing.

    Both kinds of share of one client come together to the threshold s if 2 s <= k + 1 + t: the honest holders tell one
    kind each, the colluders both. And on the circle the honest clients of a sum may fall apart unless k/2 > t, for
    only then can more than t of every k/2 in a row be in the sum (`unbroken`). Every client holds to both, so these are
    no chances: `m_min` and the circle's order play no part.
    """
    apart = neighbours + 1 < clients and neighbours // 2 <= colluders
    return apart or 2 * threshold <= neighbours + 1 + colluders


def stuck(clients: int, m_min: int, colluders: int, neighbours: int, threshold: int) -> float:
    """Chance that clients missing at random leave the sum shut.

    It is if fewer than the threshold of some client's k + 1 holders are left, or too few of k/2 in a row on the circle
    (`unbroken`). In the complete graph the first is certain or impossible, and there is no circle.
    """
    missing, half = clients - m_min, neighbours // 2
    if m_min < Plan(clients, m_min, colluders, neighbours, threshold).quorum or threshold > neighbours + 1:
        return 1.0
    if neighbours + 1 >= clients:
        return float(m_min < threshold)
    from scipy.stats import hypergeom  # half a second, which complete graphs do without

    holders = hypergeom.sf(neighbours + 1 - threshold, clients - 1, missing, neighbours)
    row = hypergeom.sf(half - colluders - 1, clients, missing, half)
    return clients * float(holders + row)


@lru_cache(maxsize=64)
def plan(clients: int, m_min: int, colluders: int = 0, neighbours: int = 0, threshold: int = 0) -> Plan:
    """The smallest graph and threshold that are safe and rarely stuck (`STUCK`); those given are checked instead.

    Raises
    ------
    SettingsError
        If nothing fits, naming the setting.
    """
    if clients < 2:
        raise SettingsError(
            f"secure_aggregation=true adds up the ballots of several clients; clients={clients} is too few"
        )
    everybody = clients - 1
    if neighbours and neighbours < everybody and neighbours % 2:
        raise SettingsError(f"mask_neighbours={neighbours} is odd: take an even number, or 0 to have it chosen")
    graphs = [min(neighbours, everybody)] if neighbours else [*range(FEWEST, everybody, 2), everybody]
    for k in graphs:
        found = Plan(clients, m_min, colluders, k, threshold or (k + 1 + colluders) // 2 + 1)
        if not betrays(*astuple(found)) and stuck(*astuple(found)) <= STUCK:
            return found
    given = "".join(
        f"{name}={value}, "
        for name, value in (("mask_neighbours", neighbours), ("share_threshold", threshold))
        if value
    )
    least = (clients + colluders) // 2 + 1
    raise SettingsError(
        f"secure aggregation with {given}clients={clients}, min_clients={m_min}, colluders={colluders}: no shares that "
        f"{m_min} clients can put together are safe from {colluders} colluders; with all clients as neighbours "
        f"min_clients must be at least {least}" + (", and 0 has the others chosen" if given else "")
    )


# the pieces: keys, masks, sealed shares


def derive(secret: bytes, *context: str | int, length: int = 32) -> bytes:
    """Bytes for one purpose out of a secret (HKDF-SHA256)."""
    info = "/".join(map(str, ("fedballot", *context))).encode()
    return HKDF(SHA256(), length, salt=None, info=info).derive(secret)


def private_key(seed: bytes, session: str) -> X25519PrivateKey:
    """The key that a 16-byte seed stands for, so that one block of shares restores it."""
    return X25519PrivateKey.from_private_bytes(derive(seed, "key", session))


def agreed(own: X25519PrivateKey, other: bytes) -> bytes:
    """The secret that two keys share, 32 bytes."""
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as error:  # a point of small order
        raise SecaggError("keys", "a public key is not one") from error


def mask(key: bytes, size: int, bits: int) -> npt.NDArray[Any]:
    """Integers modulo 2^bits, shape (size,), from the stream of AES-256-CTR; each key is used for one mask only."""
    dtype = np.dtype(f"<u{_width(bits)}")
    stream = Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(size * dtype.itemsize))
    return np.asarray(np.frombuffer(stream, dtype=dtype) & dtype.type(2**bits - 1))


def _width(bits: int) -> int:
    return next(width for width in (2, 4, 8) if bits <= 8 * width)


def pair_mask(secret: bytes, sharing: str, own: int, other: int, size: int, bits: int) -> npt.NDArray[Any]:
    """What client ``own`` adds for ``other``, who adds the same with the other sign if it was shown the same so far."""
    low, high = sorted((own, other))
    values = mask(derive(secret, "mask", sharing, low, high), size, bits)
    return values if own == low else -values


def chained(before: str, *arrays: npt.NDArray[Any]) -> str:
    """A digest, in hex, of all that was shown so far and of these arrays."""
    return hashlib.sha256(f"{before}/".encode() + _digest(list(arrays)).tobytes()).hexdigest()


def signing_key(seed: bytes, session: str) -> Ed25519PrivateKey:
    """The key with which a client signs the one list of a session."""
    return Ed25519PrivateKey.from_private_bytes(derive(seed, "signing", session))


def signed(key: bytes, signature: bytes, statement: str) -> bool:
    """Whether the owner of a public key has signed this."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, _statement(statement))
    except (InvalidSignature, ValueError):  # ValueError: no point of the curve
        return False
    return True


def _statement(statement: str) -> bytes:
    return f"fedballot/sum/{statement}".encode()


def commitment(seed: bytes, session: str, client_id: int) -> bytes:
    """By which a restored seed is known to be the right one."""
    return derive(seed, "commitment", session, client_id)


def split(secret: bytes, threshold: int, holders: int) -> list[bytes]:
    """Shares of a 16-byte secret for holders 1, 2, ...; ``threshold`` of them restore it."""
    if threshold == 1:
        return [secret] * holders
    return [bytes(share) for _, share in Shamir.split(threshold, holders, secret, ssss=False)]


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret from at least ``threshold`` shares by holder's number from 1."""
    chosen = sorted(shares.items())[:threshold]
    return chosen[0][1] if threshold == 1 else bytes(Shamir.combine(chosen, ssss=False))


def _bytes(content: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(content, dtype=np.uint8)


def _digest(arrays: Arrays) -> npt.NDArray[np.uint8]:
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return _bytes(found.digest())


def numbers(clients: list[int]) -> npt.NDArray[np.int32]:
    """Clients as they are sent and digested."""
    return np.array(clients, dtype="<i4")


# the circle


def seats(view: str, roster: list[int]) -> list[int]:
    """The clients' order on the circle: by a hash of the roster with all keys, so nobody seats anybody.

    Who makes keys last can try many; so nothing but the chance of being `stuck` rests on the order.
    """
    return sorted(roster, key=lambda client_id: hashlib.sha256(f"{view}/seat/{client_id}".encode()).digest())


def near(order: list[int], client_id: int, neighbours: int) -> list[int]:
    """A client's neighbours: those up to k/2 places away on the circle, or all if there are no more; sorted."""
    n = len(order)
    if neighbours >= n - 1:
        return sorted(peer for peer in order if peer != client_id)
    place = order.index(client_id)
    return sorted(order[(place + step) % n] for step in range(-(neighbours // 2), neighbours // 2 + 1) if step)


def unbroken(order: list[int], inside: list[int], plan: Plan) -> bool:
    """Whether more than t of every k/2 in a row on the circle are in the sum: an honest one next to each honest one.

    Then neither colluders nor missing clients cut the honest ones of the sum into pieces that could be opened alone.
    """
    n, half = len(order), plan.neighbours // 2
    if plan.neighbours >= n - 1:
        return True
    there = np.isin(np.array(order + order[:half]), inside)
    return bool(np.convolve(there, np.ones(half, dtype=int), "valid").min() > plan.colluders)


# the client


class Mark(Protocol):
    """Where a client keeps which requests' sums it has helped to open: one place for all requests, never set back."""

    def opened(self, request: str) -> str | None:
        """The session in which this client helped to open the request's sum, or None."""

    def open(self, request: str, session: str) -> None:
        """Set the mark, on disk when this returns; again with the same session changes nothing."""


class Holder:
    """One client's side of the exchanges about one request.

    Its keys and shares are on disk between messages (mode 0600), so that a process may end after any of them. The same
    question gets the same bytes, another one in its place is refused. After the last answer only that answer is kept.
    A request is opened in one session only, for two sums that differ by one client would tell that client's integers:
    the mark is set before the signature leaves, without which no sum is opened.

    Parameters
    ----------
    plan : Plan
    client : int
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
        self._going, self._opened = folder / f"{name}.going.npz", folder / f"{name}.opened.npz"
        self._state: dict[str, npt.NDArray[Any]] = {}

    def answer(self, stage: str, arrays: Arrays, form: Form, integers: Callable[[Arrays], Integers]) -> Arrays:
        """Answer one message.

        Parameters
        ----------
        stage : one of `STAGES`.
        arrays : of the message; with the first, the request itself.
        form : of the integers.
        integers : gives the client's integers for the request's arrays; called for the masked stage only.

        Raises
        ------
        SecaggError
            If the message does not fit what was asked before, or would betray this client or another.
        """
        with self._locked():
            self._load(stage)
            digest, known = _digest(arrays), self._state.get(f"asked {stage}")
            if known is not None and not np.array_equal(known, digest):
                raise SecaggError("stage", f"another {stage!r} message was answered before in this exchange")
            if known is None:
                self._learn(stage, arrays)
                self._state[f"asked {stage}"] = digest
                self._save()
            if stage != UNMASK and self._opened.exists():
                raise SecaggError("opened", "this exchange is over")
            return self._tell(stage, form, integers)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _load(self, stage: str) -> None:
        if self.mark.opened(self.request) not in (None, self.session):
            raise SecaggError("opened", OPENED)
        path = self._opened if self._opened.exists() else self._going
        self._state = read_arrays(path) if path.exists() else {}
        if self._state and str(self._state["session"]) == self.session:
            later = STAGES.index(stage)
            if f"asked {stage}" not in self._state and later and f"asked {STAGES[later - 1]}" not in self._state:
                raise SecaggError("stage", f"a {stage!r} message before its time")
            return
        if path == self._opened:
            raise SecaggError("opened", OPENED)
        if stage != KEYS:
            raise SecaggError("stage", f"a {stage!r} message of an exchange that this client has no keys for")
        for old in self.folder.glob("*.going.npz"):
            if time.time() - old.stat().st_mtime > ABANDONED_S:
                old.unlink()
        self._state = {"session": np.array(self.session)}

    def _save(self) -> None:
        over = "told" in self._state
        write_arrays(self._opened if over else self._going, self._state, mode=0o600)
        if over:
            self._going.unlink(missing_ok=True)

    def _learn(self, stage: str, arrays: Arrays) -> None:
        """Check a new message, and add to the state all that its answer is made of."""
        learn = {
            KEYS: self._begin,
            SHARES: self._share,
            MASKED: self._receive,
            CONFIRM: self._confirm,
            UNMASK: self._open,
        }
        learn[stage](arrays)

    def _begin(self, arrays: Arrays) -> None:
        self._state |= {f"request {index}": array for index, array in enumerate(arrays)}
        self._state |= {name: _bytes(os.urandom(SECRET)) for name in ("sealing", "masking", "signing")}

    def _public(self) -> npt.NDArray[np.uint8]:
        """This client's keys, uint8 (3, 32)."""
        seeds = [self._state[name].tobytes() for name in ("sealing", "masking", "signing")]
        pair = [private_key(seed, self.session).public_key().public_bytes_raw() for seed in seeds[:2]]
        return _bytes(b"".join([*pair, signing_key(seeds[2], self.session).public_key().public_bytes_raw()])).reshape(
            3, 32
        )

    def _share(self, arrays: Arrays) -> None:
        roster, keys = _roster(arrays, self.plan)
        if self.client_id not in roster or not np.array_equal(keys[roster.index(self.client_id)], self._public()):
            raise SecaggError("keys", "the roster is without this client, or has other keys for it")
        view = view_of(self.session, self.request, self.plan, roster, keys)
        peers = near(seats(view, roster), self.client_id, self.plan.neighbours)
        peer_keys = keys[np.searchsorted(roster, peers)]
        sealing = private_key(self._state["sealing"].tobytes(), self.session)
        seed, holders = os.urandom(SECRET), sorted([self.client_id, *peers])
        parts = [
            first + second
            for first, second in zip(
                split(seed, self.plan.threshold, len(holders)),
                split(self._state["masking"].tobytes(), self.plan.threshold, len(holders)),
                strict=True,
            )
        ]
        sealed = []
        for peer, key in zip(peers, peer_keys, strict=True):
            nonce = os.urandom(NONCE)
            cipher = ChaCha20Poly1305(derive(agreed(sealing, key[0].tobytes()), "share", view, self.client_id, peer))
            sealed.append(nonce + cipher.encrypt(nonce, parts[holders.index(peer)], None))
        self._state |= {
            "seed": _bytes(seed),
            "view": np.array(view),
            "roster": numbers(roster),
            "signers": keys[:, 2],
            "peers": np.array(peers),
            "peer keys": peer_keys,
            "own shares": _bytes(parts[holders.index(self.client_id)]),
            "sealed": _bytes(b"".join(sealed)).reshape(len(peers), SEALED),
        }

    def _receive(self, arrays: Arrays) -> None:
        known, view = self._state["peers"].tolist(), str(self._state["view"])
        if len(arrays) != 2:
            raise SecaggError("stage", "shares must come as the list of senders and what they sealed")
        sharers, sealed_shares = _clients(arrays[0]), arrays[1]
        self._among(sharers, self._state["roster"].tolist())
        senders = [peer for peer in known if peer in set(sharers)]
        if sealed_shares.dtype != np.uint8 or sealed_shares.shape != (len(senders), SEALED):
            raise SecaggError("stage", "shares must come from each neighbour that is said to have sent some")
        if len(senders) + 1 < self.plan.threshold:
            raise SecaggError("dropouts", f"{len(senders) + 1} shares came, {self.plan.threshold} open a secret")
        sealing = private_key(self._state["sealing"].tobytes(), self.session)
        shares = []
        for sender, sealed in zip(senders, sealed_shares, strict=True):
            key = agreed(sealing, self._state["peer keys"][known.index(sender)][0].tobytes())
            cipher, content = ChaCha20Poly1305(derive(key, "share", view, sender, self.client_id)), sealed.tobytes()
            try:
                shares.append(cipher.decrypt(content[:NONCE], content[NONCE:], None))
            except InvalidTag as error:
                raise SecaggError(
                    "shares",
                    f"the share from client {sender} is damaged, not from it, or made for another roster or request",
                ) from error
        self._state |= {
            "sharers": numbers(sharers),
            "sharing": np.array(chained(view, numbers(sharers))),
            "senders": np.array(senders),
            "shares": _bytes(b"".join(shares)).reshape(-1, 2 * SECRET),
        }

    def _among(self, clients: list[int], others: list[int]) -> None:
        """Refuse lists that leave out this client, are too short, or name others than were there before."""
        if self.client_id not in clients:
            raise SecaggError("stage", "the list is without this client, which has answered")
        if len(clients) < self.plan.m_min:
            raise SecaggError("dropouts", f"{len(clients)} clients are listed, min_clients asks for {self.plan.m_min}")
        if not set(clients) <= set(others):
            raise SecaggError("stage", "the list names a client that was not there before")

    def _confirm(self, arrays: Arrays) -> None:
        """Check the one list of those whose integers are in the sum, and mark the request as opened by it."""
        if len(arrays) != 1:
            raise SecaggError("stage", "expected the list of clients in the sum")
        state, inside = self._state, _clients(arrays[0])
        self._among(inside, state["sharers"].tolist())
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
        if len(arrays) != 2 or arrays[1].dtype != np.uint8 or arrays[1].shape != (len(arrays[0]), SIGNATURE):
            raise SecaggError("stage", "expected signers and their signatures")
        state, signers = self._state, _clients(arrays[0])
        if self.mark.opened(self.request) != self.session:
            raise SecaggError("opened", "this client's mark of the request is gone; nothing is told without it")
        roster, good = state["roster"].tolist(), 0
        for signer, signature in zip(signers, arrays[1], strict=True):
            if signer in roster:
                key = state["signers"][roster.index(signer)].tobytes()
                good += signed(key, signature.tobytes(), str(state["statement"]))
            if good == self.plan.quorum:
                break
        else:
            raise SecaggError(
                "dropouts", f"{good} clients have signed the list that this one was shown, not {self.plan.quorum}"
            )
        inside, senders = set(state["inside"].tolist()), state["senders"].tolist()
        held = sorted([self.client_id, *senders])
        told = []
        for client in held:
            both = (
                self._state["own shares"] if client == self.client_id else self._state["shares"][senders.index(client)]
            )
            told.append(both[:SECRET] if client in inside else both[SECRET:])
        # all else is deleted: nothing else can be told of this request again
        asked = {name: value for name, value in self._state.items() if name.startswith("asked ")}
        self._state = {"session": np.array(self.session), "told": np.stack(told), **asked}

    def _tell(self, stage: str, form: Form, integers: Callable[[Arrays], Integers]) -> Arrays:
        """The answer, out of the state."""
        state = self._state
        if stage == KEYS:
            return [self._public()]
        if stage == SHARES:
            return [_bytes(commitment(state["seed"].tobytes(), self.session, self.client_id)), state["sealed"]]
        if stage == CONFIRM:
            key = signing_key(state["signing"].tobytes(), self.session)
            return [_bytes(key.sign(_statement(str(state["statement"]))))]
        if stage == UNMASK:
            return [state["told"]]
        request = [state[f"request {index}"] for index in range(sum(name.startswith("request ") for name in state))]
        return [self._masked(checked(integers(request), form), self.plan.bits(form))]

    def _masked(self, values: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.uint8]:
        state, known = self._state, self._state["peers"].tolist()
        masking = private_key(state["masking"].tobytes(), self.session)
        total = mask(derive(state["seed"].tobytes(), "own mask", self.session, self.client_id), values.size, bits)
        total = total + values.ravel().astype(total.dtype)
        for sender in state["senders"].tolist():
            secret = agreed(masking, state["peer keys"][known.index(sender)][1].tobytes())
            total += pair_mask(secret, str(state["sharing"]), self.client_id, sender, values.size, bits)
        return pack_labels(total & total.dtype.type(2**bits - 1), 2**bits)


def checked(values: Integers, form: Form) -> npt.NDArray[np.int64]:
    """A client's integers, if they are what the sum's modulus was chosen for.

    Raises
    ------
    SecaggError
        If their shape, type or size is another; nothing is cut.
    """
    if values.shape != form.shape or not np.issubdtype(values.dtype, np.integer):
        raise SecaggError("range", f"expected integers of shape {form.shape}, got {values.dtype} {values.shape}")
    if values.size and max(int(values.max()), -int(values.min())) > form.largest:
        raise SecaggError("range", "an integer is larger than the modulus was chosen for")
    return values.astype(np.int64)


def _clients(array: npt.NDArray[Any]) -> list[int]:
    """Clients' numbers, each once, in order: so that one list has one digest."""
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or (array[1:] <= array[:-1]).any():
        raise SecaggError("stage", "expected numbers of clients, each once and in order")
    return [int(client_id) for client_id in array]


def _roster(arrays: Arrays, plan: Plan) -> tuple[list[int], npt.NDArray[np.uint8]]:
    """All who take part and their public keys, uint8 (n, 3, 32), all different."""
    if len(arrays) != 2 or arrays[1].dtype != np.uint8 or arrays[1].shape != (len(arrays[0]), 3, 32):
        raise SecaggError("stage", "keys must come as the roster and three keys of each")
    roster, keys = _clients(arrays[0]), arrays[1]
    if not all(0 <= client_id < plan.clients for client_id in roster):
        raise SecaggError("stage", "the roster names a client that is none of this run")
    if len(roster) < plan.m_min:
        raise SecaggError("dropouts", f"{len(roster)} clients are listed, min_clients asks for {plan.m_min}")
    if len({key.tobytes() for key in keys.reshape(-1, 32)}) != 3 * len(roster):
        raise SecaggError("keys", "two public keys are the same")
    return roster, keys


def view_of(session: str, request: str, plan: Plan, roster: list[int], keys: npt.NDArray[np.uint8]) -> str:
    """What a client was shown before it shared anything; all that depends on it fits only with the same view.

    The request is part of it: else a client's integers for one request could enter the sums of two, once each.
    """
    return chained(repr((session, request, plan)), numbers(roster), keys)


# the server


class Exchange:
    """The server's side: what each client is asked, and the sum.

    Use: for each stage, send `ask(client)` to all `clients`, `read` each answer, then `take` those that are good.

    Parameters
    ----------
    plan : Plan
    form : Form
    request : str
        As the clients' :class:`Holder` has it.
    """

    def __init__(self, plan: Plan, form: Form, request: str) -> None:
        self.plan, self.form, self.request = plan, form, request
        self.bits = plan.bits(form)
        self.session = secrets.token_hex(16)
        self.stage = KEYS
        self.clients: list[int] = []  # who is still there
        self.inside: list[int] = []  # whose integers are in the sum
        self.total: npt.NDArray[np.int64] | None = None
        self._sharers: list[int] = []
        self._view = self._sharing = ""  # as the clients have them
        self._keys: dict[int, npt.NDArray[Any]] = {}
        self._shown: Arrays = []  # the roster and all keys
        self._signed: Arrays = []  # who has signed the list, and the signatures
        self._neighbours: dict[int, list[int]] = {}
        self._commitments: dict[int, bytes] = {}
        self._sealed: dict[int, npt.NDArray[Any]] = {}
        self._sum = np.zeros(form.size, dtype=f"<u{_width(self.bits)}")

    def ask(self, client_id: int) -> Arrays:
        """What goes to a client in this stage; in the first, the request itself goes, the same to all."""
        if self.stage == SHARES:
            return self._shown
        if self.stage == MASKED:
            senders = self._near(client_id, self._sharers)
            sealed = [self._sealed[peer][self._neighbours[peer].index(client_id)] for peer in senders]
            return [numbers(self._sharers), np.array(sealed, dtype=np.uint8).reshape(-1, SEALED)]
        if self.stage == CONFIRM:
            return [numbers(self.inside)]
        return self._signed

    def _near(self, client_id: int, among: list[int]) -> list[int]:
        """The client's neighbours among these, sorted."""
        return sorted(set(self._neighbours[client_id]).intersection(among))

    def read(self, client_id: int, arrays: Arrays) -> Arrays:
        """A client's answer in this stage.

        Raises
        ------
        WireError
            With reason ``count``, ``dtype`` or ``shape``.
        """
        wanted: list[tuple[int, ...]] = [(3, 32)]
        if self.stage == SHARES:
            wanted = [(32,), (len(self._neighbours[client_id]), SEALED)]
        elif self.stage == MASKED:
            wanted = [(-(-self.form.size * self.bits // 8),)]
        elif self.stage == CONFIRM:
            wanted = [(SIGNATURE,)]
        elif self.stage == UNMASK:
            wanted = [(1 + len(self._near(client_id, self._sharers)), SECRET)]
        if len(arrays) != len(wanted):
            raise WireError("count", f"expected {len(wanted)} arrays, got {len(arrays)}")
        for array, shape in zip(arrays, wanted, strict=True):
            if array.dtype != np.uint8:
                raise WireError("dtype", f"expected uint8, got {array.dtype}")
            if array.shape != shape:
                raise WireError("shape", f"expected {shape}, got {array.shape}")
        return arrays

    def take(self, answers: Mapping[int, Arrays]) -> None:
        """All good answers of this stage; goes on to the next one, or to the sum.

        Raises
        ------
        SecaggError
            If too few have answered, or shares do not fit.
        """
        if self.stage not in (CONFIRM, UNMASK) and len(answers) < self.plan.m_min:
            raise SecaggError("dropouts", f"{len(answers)} clients are left, min_clients asks for {self.plan.m_min}")
        if self.stage == CONFIRM and len(answers) < self.plan.quorum:
            raise SecaggError("dropouts", f"{len(answers)} clients confirmed the sum, {self.plan.quorum} are needed")
        self.clients = sorted(answers)
        if self.stage == KEYS:
            self._keys = {client_id: arrays[0] for client_id, arrays in answers.items()}
            self._shown = [numbers(self.clients), np.stack([self._keys[client_id] for client_id in self.clients])]
            self._view = view_of(self.session, self.request, self.plan, self.clients, self._shown[1])
            order = seats(self._view, self.clients)
            self._neighbours = {client_id: near(order, client_id, self.plan.neighbours) for client_id in self.clients}
        elif self.stage == SHARES:
            self._sharers = self.clients
            self._sharing = chained(self._view, numbers(self._sharers))
            self._commitments = {client_id: arrays[0].tobytes() for client_id, arrays in answers.items()}
            self._sealed = {client_id: arrays[1] for client_id, arrays in answers.items()}
        elif self.stage == MASKED:
            self.inside = self.clients
            for arrays in answers.values():
                self._sum += unpack_labels(arrays[0], self.form.size, 2**self.bits).astype(self._sum.dtype)
        elif self.stage == CONFIRM:
            self._signed = [numbers(self.clients), np.stack([answers[client_id][0] for client_id in self.clients])]
        else:
            self._open(answers)
            return
        self.stage = STAGES[STAGES.index(self.stage) + 1]

    def _open(self, answers: Mapping[int, Arrays]) -> None:
        """Take off each client's own mask, and the pairs' masks that a missing client has left behind."""
        for client_id in self._sharers:
            secret = self._restored(client_id, answers)
            if client_id in self.inside:
                if commitment(secret, self.session, client_id) != self._commitments[client_id]:
                    raise SecaggError("shares", f"the shares of client {client_id}'s seed do not fit together")
                key = derive(secret, "own mask", self.session, client_id)
                self._sum -= mask(key, self.form.size, self.bits)
                continue
            masking = private_key(secret, self.session)
            if masking.public_key().public_bytes_raw() != self._keys[client_id][1].tobytes():
                raise SecaggError("shares", f"the shares of client {client_id}'s key do not fit together")
            for peer in self._near(client_id, self.inside):
                pair = agreed(masking, self._keys[peer][1].tobytes())
                self._sum -= pair_mask(pair, self._sharing, peer, client_id, self.form.size, self.bits)
        modulus = 2**self.bits
        values = (self._sum & self._sum.dtype.type(modulus - 1)).astype(np.int64)
        self.total = np.where(values >= modulus // 2, values - modulus, values).reshape(self.form.shape)

    def _restored(self, client_id: int, answers: Mapping[int, Arrays]) -> bytes:
        holders = sorted([client_id, *self._neighbours[client_id]])
        shares = {}
        for number, holder in enumerate(holders, start=1):
            if holder in answers:
                held = sorted([holder, *self._near(holder, self._sharers)])
                shares[number] = answers[holder][0][held.index(client_id)].tobytes()
        if len(shares) < self.plan.threshold:
            raise SecaggError(
                "dropouts",
                f"{len(shares)} clients told their share of client {client_id}'s secret, "
                f"{self.plan.threshold} are needed",
            )
        return join(shares, self.plan.threshold)
