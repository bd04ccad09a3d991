"""Secure aggregation: the server learns the sum of the parties' integers modulo a power of two, and nothing else.

Source: Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning", Figure 4 (for an
honest-but-curious server), on the sparse graph of Bell et al. 2020, "Secure single-server aggregation with
(poly)logarithmic overhead". Four exchanges: keys, shares, masked, unmask. A party adds two kinds of masks to its
integers: one from a seed of its own, and one for each neighbour, which the neighbour takes off again. It gives every
neighbour a share of its seed and of its key. In the end holders tell the seed's share of a party whose integers are in
the sum, and the key's share of one that fell away in between; never both, which together would open its integers.

Key agreement, ciphers and secret sharing come from `cryptography` and `pycryptodome`. No Flower, no global state.
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
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedballot.errors import FedballotError, SettingsError
from fedballot.files import read_arrays, write_arrays
from fedballot.wire import WireError, pack_labels, unpack_labels

Arrays = list[npt.NDArray[Any]]
Integers = npt.NDArray[np.integer]

KEYS, SHARES, MASKED, UNMASK = STAGES = ("keys", "shares", "masked", "unmask")
SECRET = 16  # bytes of a shared secret: one block of pycryptodome's Shamir
NONCE, SEALED = 12, 12 + 2 * SECRET + 16  # bytes: nonce, two shares, tag
LEAK, STUCK = 2.0**-40, 2.0**-20  # chances that a random graph may have of betraying a party, or of not opening the sum
FEWEST = 20  # neighbours, however few would be safe: who is not counted as a colluder may turn out to be one
ABANDONED_S = 24 * 3600.0  # after which the keys of an exchange that never ended are deleted


class SecaggError(FedballotError):
    """An exchange that cannot go on; ``reason`` is a short fixed word for counting."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Form:
    """What a party's integers look like: their shape, and the largest magnitude of any of them."""

    shape: tuple[int, ...]
    largest: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Plan:
    """Who must be there and who holds shares; the same for all parties, and computed by each from the settings.

    Parameters
    ----------
    parties : most that can take part, n.
    m_min : fewest whose sum may be opened.
    colluders : parties that may pool what they hold with the server, t.
    neighbours : of each party, k.
    threshold : shares that open a secret, of the k + 1 that exist (its owner keeps one).
    """

    parties: int
    m_min: int
    colluders: int
    neighbours: int
    threshold: int

    def bits(self, form: Form) -> int:
        """Width of the modulus: 2^bits holds every sum of ``parties`` such arrays, with its sign.

        Raises
        ------
        SettingsError
            If 63 bits are too few.
        """
        bits = (2 * self.parties * form.largest + 1).bit_length()
        if bits > 63:
            raise SettingsError(
                f"secure aggregation: sums of {self.parties} integers up to {form.largest} need {bits} bits, more than "
                "63; use a coarser grid or more noise"
            )
        return bits


def risks(parties: int, m_min: int, colluders: int, neighbours: int, threshold: int) -> tuple[float, float]:
    """Chances that a random graph betrays some party to the colluders, and that the sum cannot be opened.

    A party is betrayed if c colluders among its neighbours and honest holders who each answer one question can tell
    both kinds of share to the threshold, 2 threshold <= k + 1 + c; or if colluders and missing parties cut the honest
    ones in two, which takes k/2 of them in a row on the circle. The sum is stuck if more than k + 1 - threshold of a
    party's holders are missing. In the complete graph both are certain or impossible.
    """
    holders, missing = neighbours + 1, parties - m_min
    if holders >= parties:
        return float(2 * threshold <= holders + colluders), float(m_min < threshold)
    from scipy.stats import hypergeom  # half a second, which complete graphs do without

    betrayed = hypergeom.sf(2 * threshold - holders - 1, parties - 1, min(colluders, parties - 1), neighbours)
    gone = colluders + missing
    cut = math.prod(max(gone - j, 0) / (parties - j) for j in range(neighbours // 2))
    stuck = hypergeom.sf(holders - threshold, parties - 1, missing, neighbours)
    return parties * float(betrayed + cut), parties * float(stuck)


@lru_cache(maxsize=64)
def plan(parties: int, m_min: int, colluders: int = 0, neighbours: int = 0, threshold: int = 0) -> Plan:
    """The smallest graph and threshold that are safe enough (see `LEAK`, `STUCK`); those given are checked instead.

    Raises
    ------
    SettingsError
        If nothing fits, naming the setting.
    """
    if parties < 2:
        raise SettingsError(
            f"secure_aggregation=true adds up the ballots of several agents; agents={parties} is too few"
        )
    everybody = parties - 1
    if neighbours and neighbours < everybody and neighbours % 2:
        raise SettingsError(f"mask_neighbours={neighbours} is odd: take an even number, or 0 to have it chosen")
    graphs = [min(neighbours, everybody)] if neighbours else [*range(FEWEST, everybody, 2), everybody]
    for k in graphs:
        for shares in [threshold] if threshold else range(k // 2 + 1, k + 2):
            leak, stuck = risks(parties, m_min, colluders, k, shares)
            if leak <= LEAK and stuck <= STUCK and shares <= k + 1:
                return Plan(parties, m_min, colluders, k, shares)
    given = "".join(
        f"{name}={value}, "
        for name, value in (("mask_neighbours", neighbours), ("share_threshold", threshold))
        if value
    )
    least = (parties + colluders) // 2 + 1
    raise SettingsError(
        f"secure aggregation with {given}agents={parties}, min_agents={m_min}, colluders={colluders}: no shares that "
        f"{m_min} parties can put together are safe from {colluders} colluders; with all agents as neighbours "
        f"min_agents must be at least {least}" + (", and 0 has the others chosen" if given else "")
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


def pair_mask(secret: bytes, session: str, own: int, other: int, size: int, bits: int) -> npt.NDArray[Any]:
    """What party ``own`` adds for party ``other``, who adds the same with the other sign."""
    low, high = sorted((own, other))
    values = mask(derive(secret, "mask", session, low, high), size, bits)
    return values if own == low else -values


def commitment(seed: bytes, session: str, agent: int) -> bytes:
    """By which a restored seed is known to be the right one."""
    return derive(seed, "commitment", session, agent)


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


# the party


class Holder:
    """One party's side of the exchanges about one request.

    Its keys and shares are on disk between messages (mode 0600), so that a process may end after any of them. The same
    question gets the same bytes, another one in its place is refused. After the last answer only that answer is kept:
    a request is opened once, for two sums that differ by one party would tell that party's integers.

    Parameters
    ----------
    plan : Plan
    agent : int
    folder : Path
        Of the party's own.
    request : str
        What the integers answer; the party's integers must always be the same for it.
    session : str
        Names the server's attempt; every attempt has keys of its own.
    """

    def __init__(self, plan: Plan, agent: int, folder: Path, request: str, session: str) -> None:
        self.plan, self.agent, self.session = plan, agent, session
        self.folder = folder
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
        integers : gives the party's integers for the request's arrays; called for the masked stage only.

        Raises
        ------
        SecaggError
            If the message does not fit what was asked before, or would betray this party or another.
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
        path = self._opened if self._opened.exists() else self._going
        self._state = read_arrays(path) if path.exists() else {}
        if self._state and str(self._state["session"]) == self.session:
            later = STAGES.index(stage)
            if f"asked {stage}" not in self._state and later and f"asked {STAGES[later - 1]}" not in self._state:
                raise SecaggError("stage", f"a {stage!r} message before its time")
            return
        if path == self._opened:
            raise SecaggError("opened", "the sum of this request was opened before; ask anew, in a new run")
        if stage != KEYS:
            raise SecaggError("stage", f"a {stage!r} message of an exchange that this party has no keys for")
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
        {KEYS: self._begin, SHARES: self._share, MASKED: self._receive, UNMASK: self._open}[stage](arrays)

    def _begin(self, arrays: Arrays) -> None:
        self._state |= {f"request {index}": array for index, array in enumerate(arrays)}
        self._state |= {"sealing": _bytes(os.urandom(SECRET)), "masking": _bytes(os.urandom(SECRET))}

    def _share(self, arrays: Arrays) -> None:
        peers, keys = _peers(arrays, self.agent, self.plan)
        sealing = private_key(self._state["sealing"].tobytes(), self.session)
        seed, holders = os.urandom(SECRET), sorted([self.agent, *peers])
        parts = [
            first + second
            for first, second in zip(
                split(seed, self.plan.threshold, len(holders)),
                split(self._state["masking"].tobytes(), self.plan.threshold, len(holders)),
                strict=True,
            )
        ]
        sealed = []
        for peer, key in zip(peers, keys, strict=True):
            nonce = os.urandom(NONCE)
            cipher = ChaCha20Poly1305(
                derive(agreed(sealing, key[0].tobytes()), "share", self.session, self.agent, peer)
            )
            sealed.append(nonce + cipher.encrypt(nonce, parts[holders.index(peer)], None))
        self._state |= {
            "seed": _bytes(seed),
            "peers": np.array(peers),
            "peer keys": keys,
            "own shares": _bytes(parts[holders.index(self.agent)]),
            "sealed": _bytes(b"".join(sealed)).reshape(len(peers), SEALED),
        }

    def _receive(self, arrays: Arrays) -> None:
        known = self._state["peers"].tolist()
        if len(arrays) != 2 or arrays[1].dtype != np.uint8 or arrays[1].shape != (len(arrays[0]), SEALED):
            raise SecaggError("stage", "shares must come as senders and their sealed bytes")
        senders = _agents(arrays[0])
        if not set(senders) <= set(known):
            raise SecaggError("stage", "shares from a party that is no neighbour")
        if len(senders) + 1 < self.plan.threshold:
            raise SecaggError("dropouts", f"{len(senders) + 1} shares came, {self.plan.threshold} open a secret")
        sealing = private_key(self._state["sealing"].tobytes(), self.session)
        shares = []
        for sender, sealed in zip(senders, arrays[1], strict=True):
            key = agreed(sealing, self._state["peer keys"][known.index(sender)][0].tobytes())
            cipher, content = ChaCha20Poly1305(derive(key, "share", self.session, sender, self.agent)), sealed.tobytes()
            try:
                shares.append(cipher.decrypt(content[:NONCE], content[NONCE:], None))
            except InvalidTag as error:
                raise SecaggError("shares", f"the share from agent {sender} is damaged or not from it") from error
        self._state |= {"senders": np.array(senders), "shares": _bytes(b"".join(shares)).reshape(-1, 2 * SECRET)}

    def _open(self, arrays: Arrays) -> None:
        """Choose one kind of share for each party, by the one list of those whose integers are in the sum."""
        if len(arrays) != 1:
            raise SecaggError("stage", "expected the list of parties in the sum")
        inside, senders = _agents(arrays[0]), self._state["senders"].tolist()
        held = sorted([self.agent, *senders])
        if self.agent not in inside:
            raise SecaggError("stage", "the sum is said to be without this party, which has sent its integers")
        if len(inside) < self.plan.m_min:
            raise SecaggError(
                "dropouts", f"{len(inside)} parties are in the sum, min_agents asks for {self.plan.m_min}"
            )
        if len(set(held) & set(inside)) < self.plan.threshold:
            raise SecaggError("dropouts", f"fewer than {self.plan.threshold} of this party's neighbours are in the sum")
        told = []
        for party in held:
            both = self._state["own shares"] if party == self.agent else self._state["shares"][senders.index(party)]
            told.append(both[:SECRET] if party in inside else both[SECRET:])
        # all else is deleted: nothing else can be told of this request again
        asked = {name: value for name, value in self._state.items() if name.startswith("asked ")}
        self._state = {"session": np.array(self.session), "told": np.stack(told), **asked}

    def _tell(self, stage: str, form: Form, integers: Callable[[Arrays], Integers]) -> Arrays:
        """The answer, out of the state."""
        state = self._state
        if stage == KEYS:
            keys = [private_key(state[name].tobytes(), self.session) for name in ("sealing", "masking")]
            return [np.stack([_bytes(key.public_key().public_bytes_raw()) for key in keys])]
        if stage == SHARES:
            return [_bytes(commitment(state["seed"].tobytes(), self.session, self.agent)), state["sealed"]]
        if stage == UNMASK:
            return [state["told"]]
        request = [state[f"request {index}"] for index in range(sum(name.startswith("request ") for name in state))]
        return [self._masked(checked(integers(request), form), self.plan.bits(form))]

    def _masked(self, values: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.uint8]:
        state, known = self._state, self._state["peers"].tolist()
        masking = private_key(state["masking"].tobytes(), self.session)
        total = mask(derive(state["seed"].tobytes(), "own mask", self.session, self.agent), values.size, bits)
        total = total + values.ravel().astype(total.dtype)
        for sender in state["senders"].tolist():
            secret = agreed(masking, state["peer keys"][known.index(sender)][1].tobytes())
            total += pair_mask(secret, self.session, self.agent, sender, values.size, bits)
        return pack_labels(total & total.dtype.type(2**bits - 1), 2**bits)


def checked(values: Integers, form: Form) -> npt.NDArray[np.int64]:
    """A party's integers, if they are what the sum's modulus was chosen for.

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


def _agents(array: npt.NDArray[Any]) -> list[int]:
    """Parties' numbers, each once."""
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or len(set(array.tolist())) != array.size:
        raise SecaggError("stage", "expected numbers of parties, each once")
    return [int(agent) for agent in array]


def _peers(arrays: Arrays, agent: int, plan: Plan) -> tuple[list[int], npt.NDArray[np.uint8]]:
    """A party's neighbours and their public keys, uint8 (k, 2, 32), all different."""
    if len(arrays) != 2 or arrays[1].dtype != np.uint8 or arrays[1].shape != (len(arrays[0]), 2, 32):
        raise SecaggError("stage", "keys must come as neighbours and two keys of each")
    peers, keys = _agents(arrays[0]), arrays[1]
    if agent in peers or not all(0 <= peer < plan.parties for peer in peers):
        raise SecaggError("stage", "a neighbour is no other party of this run")
    if not plan.threshold <= len(peers) + 1 <= plan.neighbours + 1:
        raise SecaggError("dropouts", f"{len(peers)} neighbours, expected {plan.threshold - 1} to {plan.neighbours}")
    if len({key.tobytes() for key in keys.reshape(-1, 32)}) != 2 * len(peers):
        raise SecaggError("keys", "two public keys are the same")
    return peers, keys


# the server


class Exchange:
    """The server's side: what each party is asked, and the sum.

    Use: for each stage, send `ask(agent)` to all `parties`, `read` each answer, then `take` those that are good.

    Parameters
    ----------
    plan : Plan
    form : Form
    """

    def __init__(self, plan: Plan, form: Form) -> None:
        self.plan, self.form = plan, form
        self.bits = plan.bits(form)
        self.session = secrets.token_hex(16)
        self.stage = KEYS
        self.parties: list[int] = []  # who is still there
        self.inside: list[int] = []  # whose integers are in the sum
        self.total: npt.NDArray[np.int64] | None = None
        self._sharers: list[int] = []
        self._keys: dict[int, npt.NDArray[Any]] = {}
        self._neighbours: dict[int, list[int]] = {}
        self._commitments: dict[int, bytes] = {}
        self._sealed: dict[int, npt.NDArray[Any]] = {}
        self._sum = np.zeros(form.size, dtype=f"<u{_width(self.bits)}")

    def ask(self, agent: int) -> Arrays:
        """What goes to a party in this stage; in the first, the request itself goes, the same to all."""
        if self.stage == SHARES:
            near = self._neighbours[agent]
            return [np.array(near, dtype=np.int32), np.stack([self._keys[peer] for peer in near])]
        if self.stage == MASKED:
            near = self._near(agent, self._sharers)
            sealed = [self._sealed[peer][self._neighbours[peer].index(agent)] for peer in near]
            return [np.array(near, dtype=np.int32), np.array(sealed, dtype=np.uint8).reshape(-1, SEALED)]
        return [np.array(self.inside, dtype=np.int32)]

    def _near(self, agent: int, among: list[int]) -> list[int]:
        """The party's neighbours among these, sorted."""
        return sorted(set(self._neighbours[agent]).intersection(among))

    def read(self, agent: int, arrays: Arrays) -> Arrays:
        """A party's answer in this stage.

        Raises
        ------
        WireError
            With reason ``count``, ``dtype`` or ``shape``.
        """
        wanted: list[tuple[int, ...]] = [(2, 32)]
        if self.stage == SHARES:
            wanted = [(32,), (len(self._neighbours[agent]), SEALED)]
        elif self.stage == MASKED:
            wanted = [(-(-self.form.size * self.bits // 8),)]
        elif self.stage == UNMASK:
            wanted = [(1 + len(self._near(agent, self._sharers)), SECRET)]
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
        if self.stage != UNMASK and len(answers) < self.plan.m_min:
            raise SecaggError("dropouts", f"{len(answers)} parties are left, min_agents asks for {self.plan.m_min}")
        self.parties = sorted(answers)
        if self.stage == KEYS:
            self._keys = {agent: arrays[0] for agent, arrays in answers.items()}
            self._neighbours = circle(self.parties, self.plan.neighbours)
        elif self.stage == SHARES:
            self._sharers = self.parties
            self._commitments = {agent: arrays[0].tobytes() for agent, arrays in answers.items()}
            self._sealed = {agent: arrays[1] for agent, arrays in answers.items()}
        elif self.stage == MASKED:
            self.inside = self.parties
            for arrays in answers.values():
                self._sum += unpack_labels(arrays[0], self.form.size, 2**self.bits).astype(self._sum.dtype)
        else:
            self._open(answers)
            return
        self.stage = STAGES[STAGES.index(self.stage) + 1]

    def _open(self, answers: Mapping[int, Arrays]) -> None:
        """Take off each party's own mask, and the pairs' masks that a missing party has left behind."""
        for agent in self._sharers:
            secret = self._restored(agent, answers)
            if agent in self.inside:
                if commitment(secret, self.session, agent) != self._commitments[agent]:
                    raise SecaggError("shares", f"the shares of agent {agent}'s seed do not fit together")
                key = derive(secret, "own mask", self.session, agent)
                self._sum -= mask(key, self.form.size, self.bits)
                continue
            masking = private_key(secret, self.session)
            if masking.public_key().public_bytes_raw() != self._keys[agent][1].tobytes():
                raise SecaggError("shares", f"the shares of agent {agent}'s key do not fit together")
            for peer in self._near(agent, self.inside):
                pair = agreed(masking, self._keys[peer][1].tobytes())
                self._sum -= pair_mask(pair, self.session, peer, agent, self.form.size, self.bits)
        modulus = 2**self.bits
        values = (self._sum & self._sum.dtype.type(modulus - 1)).astype(np.int64)
        self.total = np.where(values >= modulus // 2, values - modulus, values).reshape(self.form.shape)

    def _restored(self, agent: int, answers: Mapping[int, Arrays]) -> bytes:
        holders = sorted([agent, *self._neighbours[agent]])
        shares = {}
        for number, holder in enumerate(holders, start=1):
            if holder in answers:
                held = sorted([holder, *self._near(holder, self._sharers)])
                shares[number] = answers[holder][0][held.index(agent)].tobytes()
        if len(shares) < self.plan.threshold:
            raise SecaggError(
                "dropouts",
                f"{len(shares)} parties told their share of agent {agent}'s secret, {self.plan.threshold} are needed",
            )
        return join(shares, self.plan.threshold)


def circle(parties: list[int], neighbours: int) -> dict[int, list[int]]:
    """Who is whose neighbour: those up to k/2 places away on a circle in random order; sorted lists."""
    order = list(parties)
    secrets.SystemRandom().shuffle(order)
    n = len(order)
    if neighbours >= n - 1:
        return {agent: [peer for peer in sorted(parties) if peer != agent] for agent in parties}
    steps = [step for step in range(-(neighbours // 2), neighbours // 2 + 1) if step]
    return {agent: sorted(order[(place + step) % n] for step in steps) for place, agent in enumerate(order)}
