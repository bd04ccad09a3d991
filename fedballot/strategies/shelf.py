"""Answers that wait: few of their bytes are in memory, the others in a file without a name, which ends with the run."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, overload

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Answer:
    """One good answer: who gave it, and the arrays as the method reads them."""

    client_id: int
    ballot: npt.NDArray[Any]
    compute_s: float
    began: float
    cid: str = ""


class Shelf(Sequence[Answer]):
    """Answers, at most one of each client, sorted by client however they come; each look at one on file reads it anew.

    Parameters
    ----------
    folder
        Where the file lies; None: where this machine has its temporary files.
    """

    in_memory = 64 * 2**20  # bytes of ballots up to which no file is used

    def __init__(self, folder: Path | None = None) -> None:
        self._folder, self._free = folder, self.in_memory
        self._answers: dict[int, Answer] = {}  # of those on file, all but the ballot
        self._places: dict[int, int] = {}
        self._file: IO[bytes] | None = None

    def put(self, answer: Answer) -> None:
        """Keep the answer of a client that has none here."""
        ballot = np.asarray(answer.ballot)
        if ballot.nbytes <= self._free:
            self._free -= ballot.nbytes
            self._answers[answer.client_id] = answer
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  open as long as the shelf is there
            weakref.finalize(self, self._file.close)
        self._places[answer.client_id] = self._file.seek(0, 2)
        np.save(self._file, ballot, allow_pickle=False)
        self._answers[answer.client_id] = replace(answer, ballot=np.empty(0))

    def pop(self, client_id: int) -> Answer:
        """Take a client's answer away."""
        answer = self.of(client_id)
        del self._answers[client_id]
        if self._places.pop(client_id, None) is None:
            self._free += answer.ballot.nbytes
        elif self._file and not self._places:
            self._file.truncate(0)
        return answer

    def of(self, client_id: int) -> Answer:
        """A client's answer.

        Raises
        ------
        KeyError
            If there is none.
        """
        answer, place = self._answers[client_id], self._places.get(client_id)
        if place is None or self._file is None:
            return answer
        self._file.seek(place)
        return replace(answer, ballot=np.load(self._file, allow_pickle=False))

    @property
    def clients(self) -> list[int]:
        """Whose answers are here, sorted."""
        return sorted(self._answers)

    def has(self, client_id: int) -> bool:
        """Whether a client's answer is here."""
        return client_id in self._answers

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return map(self.of, self.clients)

    @overload
    def __getitem__(self, place: int) -> Answer: ...
    @overload
    def __getitem__(self, place: slice) -> list[Answer]: ...
    def __getitem__(self, place: int | slice) -> Answer | list[Answer]:
        chosen = self.clients[place]
        return [self.of(one) for one in chosen] if isinstance(chosen, list) else self.of(chosen)
