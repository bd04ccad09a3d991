"""Worlds that an attack compares: one client whose every record is one of two, by a fair coin."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import SettingsError
from fedballot.core.seeds import Stream, generator
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.fingerprint import fingerprint

Array = npt.NDArray[np.generic]
Coins = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

POPULATION = 200  # records of the same kind that are in no world, for attacks that compare with them


@dataclass(frozen=True, eq=False)
class World:
    """A federation in which a client's every seat holds one of two records; everything else stays.

    A seat's records have the same class where there are enough, so that no count of classes betrays them, and a client
    has as many records in every world: a record is replaced, never added.

    Attributes
    ----------
    data : what all worlds share; the target's part holds the first record of each seat.
    target : the client's number.
    seats : int64 (n, 2), rows of the private source.
    x, y : the records that an attack asks about: the first of each seat (n), the second (n), the population's (z).
    """

    data: FederatedData
    target: int
    seats: Rows
    x: Array
    y: Rows

    @property
    def size(self) -> int:
        """Records of the target, n."""
        return len(self.seats)

    def coins(self, run: int, seed: int) -> Coins:
        """Which record each seat holds in a run, bool (n,): True for the first."""
        return generator(seed, Stream.WORLDS, run).random(self.size) < 0.5

    def of(self, coins: Coins) -> FederatedData:
        """The federation in which the seats hold these records."""
        parts = list(self.data.parts)
        parts[self.target] = np.sort(np.where(coins, self.seats[:, 0], self.seats[:, 1]))
        return replace(self.data, parts=tuple(parts))

    def members(self, coins: Coins) -> Coins:
        """Which of the first 2 n records that an attack asks about are the target's, bool (..., 2 n)."""
        return np.concatenate([coins, ~coins], axis=-1)

    def planted(self, rows: Rows) -> World:
        """The same, with the seats' records planted at these public rows, as a server that chooses the pool may.

        Raises
        ------
        SettingsError
            If there are fewer rows than records.
        """
        wanted = 2 * self.size
        if len(rows) < wanted:
            raise SettingsError(
                f"{wanted} records would be planted among {len(rows)} public records that are asked about: set a "
                "smaller records, or a larger public_size or queries"
            )
        public_x, public_y = np.array(self.data.public_x), np.array(self.data.public_y)
        public_x[rows[:wanted]], public_y[rows[:wanted]] = self.x[:wanted], self.y[:wanted]
        for array in (public_x, public_y):
            array.flags.writeable = False
        digest = fingerprint(public_x)
        return replace(self, data=replace(self.data, public_x=public_x, public_y=public_y, public_fingerprint=digest))


def make_world(data: FederatedData, target: int, records: int, seed: int) -> World:
    """Seats for a client: its own records, and for each another one that nobody holds.

    Where nobody's records run out, other clients give some of theirs, and then hold fewer.

    Parameters
    ----------
    data
        Of the experiment.
    target
        The client.
    records
        How many it has; 0: as many as in the experiment.

    Raises
    ------
    SettingsError
        If there is no such client, or there are too few records.
    """
    if data.multi_label:
        raise SettingsError("attacks know records of one class each, and these have several labels")
    if not 0 <= target < len(data.parts):
        raise SettingsError(f"client={target}: the federation has clients 0 to {len(data.parts) - 1}")
    rng = generator(seed, Stream.WORLDS)
    own = rng.permutation(data.parts[target])
    size = records or len(own)
    free = rng.permutation(np.setdiff1d(np.arange(len(data.private)), np.concatenate(data.parts)))
    others = [part for number, part in enumerate(data.parts) if number != target]
    held = rng.permutation(np.concatenate([*others, own[:0]]))
    seen = set(_digests(data.public_x)) | set(_digests(data.test_x))
    spare = _unseen(data, [*own[size:], *free, *held], seen)
    first = list(_unseen(data, own[:size], seen))
    first += [row for _, row in zip(range(size - len(first)), spare, strict=False)]
    rest = list(spare)
    if len(first) < size or len(rest) < size or not size:
        raise SettingsError(
            f"records={size}: an attack needs twice as many private records of the target's and nobody's, all "
            f"different and none of them public, and finds {len(first) + len(rest)}; set a smaller records, or a "
            "smaller private_size"
        )
    seats = np.column_stack([first, _partners(data.private.y, first, rest)])
    parts = [np.setdiff1d(part, seats) for part in data.parts]
    parts[target] = np.sort(seats[:, 0])
    nobodys = np.setdiff1d(rest, np.concatenate([*parts, seats[:, 1]]))[:POPULATION]
    tested = np.flatnonzero(data.test_y >= 0)[: POPULATION - len(nobodys)]
    x = np.concatenate([*(data.private.x[rows] for rows in (*seats.T, nobodys)), data.test_x[tested]])
    y = np.concatenate([*(data.private.y[rows] for rows in (*seats.T, nobodys)), data.test_y[tested]])
    return World(replace(data, parts=tuple(parts)), target, seats, x, y.astype(np.int64))


def _partners(labels: Array, first: Sequence[int], spare: Sequence[int]) -> list[int]:
    """For each row another one, of the same class as long as there are such."""
    by_class: dict[int, list[int]] = defaultdict(list)
    for row in reversed(spare):
        by_class[int(labels[row])].append(row)
    alike = [by_class[int(labels[row])].pop() if by_class[int(labels[row])] else None for row in first]
    left = [row for rows in by_class.values() for row in rows]
    return [left.pop() if row is None else row for row in alike]


def _unseen(data: FederatedData, rows: Iterable[int], seen: set[bytes]) -> Iterator[int]:
    """The rows whose records nobody has seen: not public, and no copies; adds them to ``seen``."""
    for row in rows:
        (digest,) = _digests(data.private.x[row : row + 1])
        if digest not in seen:
            seen.add(digest)
            yield int(row)


def _digests(x: Array) -> list[bytes]:
    return [hashlib.sha256(np.ascontiguousarray(record).tobytes()).digest() for record in x]
