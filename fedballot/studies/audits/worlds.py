"""Audits through real clients: worlds that differ in one unit, asked as the server asks, answered by `fit`.

Everything that a client does to its data is in them: training or features, clipping, sampling, rounding, noise, the
charge and the packing. The data are made up, and near the worst that there are. Where a release has many numbers, it
shows many units at once, each in a direction of its own: as many runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import RunError
from fedballot.core.folders import ClientFolder
from fedballot.core.progress import Progress, Silent
from fedballot.core.setting import build
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.fingerprint import fingerprint
from fedballot.methods.registry import get_method
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.audit.mechanisms import Finding, first_layers
from fedballot.wire.messages import Config

DELTA = 1e-5
CLIENTS, COLLUDERS = 3, 1  # with more of them, integer shares make a release so private that no audit can see anything
HONEST = CLIENTS - COLLUDERS
QUERIES = 1200
FAR = 1000.0  # how far beyond a bound that must cut it

Floats = npt.NDArray[np.float64]


@dataclass
class Desk:
    """Asks fresh clients of one method.

    Parameters
    ----------
    method : str
    root : Path
        Where they keep what they keep; each has a folder of its own, so that each may spend its whole budget.
    runs : int
        Releases wanted in each of two worlds, about.
    seed : int, optional
        Of the clients' noise, for tests.
    progress : Progress
    choice : mapping
        Settings that lead to what is audited, where the method's defaults do not.
    """

    method: str
    root: Path
    runs: int
    seed: int | None = None
    progress: Progress = field(default_factory=Silent)
    choice: Mapping[str, Any] = field(default_factory=dict)
    _asked: int = 0

    def settings(self, **chosen: Any) -> Any:
        """Settings of the method's own kind, with what all audits share."""
        common = {"delta": DELTA, "clients": 1, "min_clients": 0, "evaluate_clients": False, "device": "cpu"}
        kind = get_method(self.method).settings
        values = {**common, **chosen, **self.choice}
        return build(kind, {key: value for key, value in values.items() if key in kind.__dataclass_fields__})

    def times(self, each: int) -> int:
        """How many answers make up the runs wanted, where one has ``each`` of them."""
        return max(1, -(-self.runs // each))

    def rounds(self, label: str, count: int) -> Iterator[int]:
        """0 to count - 1, with progress."""
        self.progress.start(f"audit: real clients, {label}", count)
        for number in range(count):
            yield number
            self.progress.advance()
        self.progress.stop()

    def client(self, settings: Any, data: FederatedData, client_id: int = 0) -> Any:
        """A client that has answered nothing yet."""
        self._asked += 1
        if self.seed is not None:
            settings = replace(settings, noise_seed=self.seed + self._asked)
        return self._client(settings, data, client_id, f"{self._asked}")

    def _client(self, settings: Any, data: FederatedData, client_id: int, folder: str) -> Any:
        workspace = Workspace(client_id, settings, data, ClientFolder(self.root / folder), "cpu")
        return get_method(self.method).client_class(workspace)

    def config(self, client: Any) -> Config:
        """Of the first round."""
        data: FederatedData = client.workspace.data
        return {"request": f"audit {self._asked}/1", "round": 1, "fingerprint": data.public_fingerprint}

    def mechanism(self, settings: Any, data: FederatedData, arrays: Arrays, part: str) -> Any:
        """The mechanism of a part of the answer to ``arrays``, as a client comes by it."""
        client = self._client(settings, data, 0, "unasked")
        return client.composition(client.question(arrays, self.config(client))).parts[part]

    def exact(self, client: Any, arrays: Arrays, part: str) -> Any:
        """A part of its answer before noise, which is no secret here."""
        return client.exact(client.question(arrays, self.config(client)))[part]

    def answer(self, client: Any, arrays: Arrays) -> Arrays:
        """What it answers in the first round.

        Raises
        ------
        RunError
            If it refuses.
        """
        out, _, words = client.fit(arrays, self.config(client))
        if words["refused"]:
            raise RunError(
                f"audit: client {client.workspace.client_id} refused ({words['refused']!s}): {words['detail']!s}"
            )
        return list(out)

    def ask(self, settings: Any, data: FederatedData, arrays: Arrays, client_id: int = 0) -> Arrays:
        """The answer of a fresh client."""
        return self.answer(self.client(settings, data, client_id), arrays)


def made_up(
    parts: Sequence[tuple[npt.NDArray[Any], Sequence[int] | npt.NDArray[np.integer]]],
    public: npt.NDArray[Any],
    classes: int,
) -> FederatedData:
    """A federation whose clients hold these records (x, y)."""
    x = np.concatenate([x for x, _ in parts])
    y = np.concatenate([np.asarray(y, dtype=np.int64) for _, y in parts])
    ends = np.cumsum([len(x) for x, _ in parts])
    rows = np.split(np.arange(len(x)), ends[:-1])
    blank = np.zeros(len(public), dtype=np.int64)
    names = tuple(str(label) for label in range(classes))
    return FederatedData(
        names, Examples(x, y), tuple(rows), public, blank, public[:1], blank[:1], fingerprint(public), ()
    )


def spread(rows: int, width: int, stream: int) -> npt.NDArray[np.float32]:
    """The same points at random for everybody, float32 (rows, width)."""
    return np.random.default_rng(stream).normal(size=(rows, width)).astype(np.float32)


def three_classes() -> FederatedData:
    """Three clients and a public pool of three classes that are easily told apart."""
    x = spread(90, 4, 1) * 3
    y = x[:, :3].argmax(axis=1)
    parts = [(x[rows], y[rows]) for rows in np.split(np.arange(90), CLIENTS)]
    return made_up(parts, spread(QUERIES, 4, 2) * 3, 3)


def least_variance(declared: float, reach: float, claim: float) -> float:
    """The declared variance, or what the claim needs of any Gaussian noise, whatever an accountant says."""
    return max(declared, gaussian.sigma(reach, claim, DELTA) ** 2)


def layers_of(
    residuals: Sequence[Floats], declared: float, inside: Sequence[Floats], outside: Sequence[Floats], claim: float
) -> list[Finding]:
    return first_layers(
        np.concatenate(residuals), declared, np.concatenate(inside), np.concatenate(outside), claim, DELTA
    )
