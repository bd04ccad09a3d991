"""Property inference: the shares of classes among a client's records, from what an adversary of a view has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedballot.core.errors import SettingsError
from fedballot.core.progress import Progress
from fedballot.core.seeds import Stream, generator
from fedballot.datasets.federation import FederatedData
from fedballot.methods.api import Method
from fedballot.runs.engine import federated_data
from fedballot.settings.parts import CommonSettings
from fedballot.studies.attacks.asking import Seen, Table
from fedballot.studies.attacks.measure import Rate, clopper_pearson
from fedballot.studies.attacks.membership import Asked, check_method
from fedballot.studies.attacks.playing import Kept, claimed, heard, play
from fedballot.studies.attacks.world import Rows, World, make_world

Floats = npt.NDArray[np.float64]

PROPERTY = 1  # of the stream of worlds
RIDGES = np.geomspace(1e-1, 1e5, 25)


@dataclass(frozen=True, eq=False)
class Mixture(World):
    """A federation in which a client's records are drawn anew, its classes in shares that are drawn first.

    Attributes
    ----------
    rows : int64 (m,), private rows that it may hold: its own, and those that nobody has.
    size_drawn : how many it holds.
    """

    rows: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    size_drawn: int = 0

    def draw(self, run: int, seed: int) -> Rows:
        """The records of a run: shares of the classes are uniform, as far as there are records of each."""
        rng, y = generator(seed, Stream.WORLDS, PROPERTY, run), self.data.private.y[self.rows]
        classes = np.unique(y)
        wanted = rng.multinomial(self.size_drawn, rng.dirichlet(np.ones(len(classes))))
        found = [rng.permutation(self.rows[y == label])[:count] for label, count in zip(classes, wanted, strict=True)]
        chosen = np.concatenate(found)
        others = rng.permutation(np.setdiff1d(self.rows, chosen))
        return np.sort(np.concatenate([chosen, others[: self.size_drawn - len(chosen)]]))

    def of(self, coins: npt.NDArray[Any]) -> FederatedData:
        """The federation in which the target has these rows."""
        parts = list(self.data.parts)
        parts[self.target] = coins
        return replace(self.data, parts=tuple(parts))

    def shares(self, rows: Rows) -> Floats:
        """Share of each class among these rows, (C,)."""
        count = np.bincount(self.data.private.y[rows], minlength=len(self.data.classes))
        return np.asarray(count / max(1, len(rows)), dtype=np.float64)


@dataclass(frozen=True)
class Shares:
    """How well the shares of a client's classes were told.

    Parameters
    ----------
    method : str
    asked : Asked
    seen : {"server", "output"}
    size, runs : int
        Records of the target, and runs.
    explained : float
        Share of the shares' variance that is told, 1 at best, 0 by chance.
    explained_error : float
        Its standard error by the runs' spread.
    error, error_by_chance : float
        Mean absolute error of a share, and that of whoever tells the mean always.
    largest : Rate
        In how many runs the most frequent class was named; ``at`` is how often by chance.
    run_s : float
    """

    method: str
    asked: Asked
    seen: Seen
    size: int
    runs: int
    explained: float
    explained_error: float
    error: float
    error_by_chance: float
    largest: Rate
    run_s: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def attack_shares(
    method: Method, settings: CommonSettings, asked: Asked, folder: Path, progress: Progress, *, runs: int, quick: bool
) -> Shares:
    """Play runs in which the target's classes vary, and say how well their shares are told; see `attack_members`."""
    check_method(method, settings, runs)
    data = federated_data(settings)
    world = mixture(data, asked.client, asked.records, settings.seed)
    table = Table(method, settings, world, asked.seen, folder / "work")
    one = partial(heard, table, partial(world.draw, seed=settings.seed))
    with claimed(folder, method, settings, asked, data):
        kept, run_s = play(one, folder, progress, runs, quick=quick)
    truth = np.stack([world.shares(one["world"]) for one in kept])
    told = guesses(summaries(kept, world.y), truth)
    missed, around = (told - truth) ** 2, (truth - truth.mean(axis=0)) ** 2
    each = 1 - missed.sum(axis=1) / around.sum(axis=1).mean()
    hits = int((told.argmax(axis=1) == truth.argmax(axis=1)).sum())
    chance = float(np.bincount(truth.argmax(axis=1)).max() / len(truth))
    return Shares(
        method.name,
        asked,
        table.seen,
        world.size_drawn,
        len(kept),
        float(each.mean()),
        float(each.std(ddof=1) / np.sqrt(len(each))),
        float(np.abs(told - truth).mean()),
        float(np.abs(truth - truth.mean(axis=0)).mean()),
        Rate(chance, hits / len(truth), *clopper_pearson(hits, len(truth))),
        run_s,
    )


def mixture(data: FederatedData, target: int, records: int, seed: int) -> Mixture:
    """The world of an attack on class shares: the client draws from its own records and from nobody's.

    Raises
    ------
    SettingsError
        If there is no such client, or fewer records than it needs.
    """
    seats = make_world(data, target, records, seed)
    rows = np.unique(seats.seats)
    held = np.concatenate([part for number, part in enumerate(data.parts) if number != target])
    public = {record.tobytes() for record in np.asarray(data.public_x)}
    free = np.setdiff1d(np.arange(len(data.private)), np.concatenate([held, rows]))
    free = np.array([row for row in free if np.asarray(data.private.x[row]).tobytes() not in public], dtype=np.int64)
    known = data.test_y >= 0
    if not known.any():
        raise SettingsError("no test record has a class of the private ones: there is nothing to compare with")
    return Mixture(
        seats.data,
        target,
        np.empty((0, 2), np.int64),
        x=np.asarray(data.test_x)[known][:200],
        y=data.test_y[known][:200].astype(np.int64),
        rows=np.concatenate([rows, free]),
        size_drawn=seats.size,
    )


def summaries(kept: Sequence[Kept], y: Rows) -> Floats:
    """What each run says of each class (runs, C): the softmax of the mean score of records of that class.

    Scores that are no log-odds count in deviations.
    """
    main, log_odds = int(kept[0]["main"]), bool(kept[0]["log_odds"])
    scores = np.stack([one["scores"][:, :, main].mean(axis=0) for one in kept]).astype(np.float64)
    means = np.column_stack([scores[:, y == label].mean(axis=1) for label in np.unique(y)])
    return np.asarray(softmax(means if log_odds else means / max(float(means.std()), 1e-9), axis=1))


def guesses(x: Floats, truth: Floats) -> Floats:
    """Shares (runs, C), each half of the runs told by a ridge regression on the other."""
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    out, first = np.empty_like(truth), np.arange(len(x)) < len(x) // 2
    for victims in (first, ~first):
        model = make_pipeline(StandardScaler(), RidgeCV(alphas=RIDGES))
        out[victims] = np.clip(model.fit(x[~victims], truth[~victims]).predict(x[victims]), 0, 1)
    return out


def shares_of(plain: Mapping[str, Any]) -> Shares:
    """Shares from their plain JSON values."""
    return Shares(**{**plain, "asked": Asked(**plain["asked"]), "largest": Rate(**plain["largest"])})
