"""Membership inference: which records were a client's, from what an adversary of a view has seen of the method.

Each run tosses a coin for each seat of the target, which holds one of two records. Half of the runs are shadow runs for
the other half, and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import SettingsError
from fedballot.core.progress import Progress
from fedballot.datasets.federation import FederatedData
from fedballot.methods.api import Method
from fedballot.privacy.guarantee import View
from fedballot.runs.engine import federated_data
from fedballot.settings.parts import CommonSettings
from fedballot.strategies.baselines import MeasureStrategy
from fedballot.studies.attacks.asking import Seen, Table, together
from fedballot.studies.attacks.measure import Promise, Score, measure, promise, score_of
from fedballot.studies.attacks.playing import FEWEST, claimed, heard, play
from fedballot.studies.attacks.reading import Signal, public_rows
from fedballot.studies.attacks.scores import ATTACKS, attack
from fedballot.studies.attacks.world import World, make_world

Adversary = Literal["membership", "active-server", "property"]
DELTA = 1e-5  # at which epsilon is proved where nothing is promised


@dataclass(frozen=True)
class Asked:
    """What is attacked, and how; what is kept in a folder belongs to one of these.

    Parameters
    ----------
    adversary : {"membership", "active-server", "property"}
        Who keeps to the method and asks which records are there, a server that plants the records themselves in the
        public pool, or who asks for the shares of classes.
    seen : {"server", "output"}
    records : int
        Of the target; 0: as many as in the experiment.
    client : int
        The target.
    """

    adversary: Adversary = "membership"
    seen: Seen = "server"
    records: int = 0
    client: int = 0


@dataclass(frozen=True)
class Leak:
    """What membership inference found about a client of one size.

    Parameters
    ----------
    method : str
    asked : Asked
    seen : {"server", "output"}
        ``output`` also where answers come under masks.
    size, rounds, runs : int
        Records of the target, rounds in which something was seen, runs.
    promise : Promise or None
        What is proved about one replaced record, of this view.
    delta : float
        At which the attacks' epsilon is proved.
    scores : tuple of Score
    by_round : mapping of int to Score
        The learned attack after so many rounds.
    run_s : float
        Seconds of a run.
    """

    method: str
    asked: Asked
    seen: Seen
    size: int
    rounds: int
    runs: int
    promise: Promise | None
    delta: float
    scores: tuple[Score, ...]
    by_round: Mapping[int, Score]
    run_s: float

    @property
    def epsilon(self) -> float:
        """The largest epsilon that an attack proves, at 95 % confidence of all together."""
        return max(score.epsilon for score in self.scores)

    @property
    def best(self) -> Score:
        """The attack with the largest area."""
        return max(self.scores, key=lambda score: score.auc)

    @property
    def contradicted(self) -> bool:
        """Whether more is shown than is proved, at 99.99 % confidence of all attacks together."""
        return self.promise is not None and max(one.sure_epsilon for one in self.scores) > self.promise.epsilon

    @property
    def doubted(self) -> bool:
        """Whether more is shown than is proved at 95 % confidence only: so it is by chance now and then."""
        return self.promise is not None and not self.contradicted and self.epsilon > self.promise.epsilon

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        rounds = {str(count): score.to_dict() for count, score in self.by_round.items()}
        return {**asdict(self), "by_round": rounds, "epsilon": self.epsilon, "contradicted": self.contradicted}


def check_method(method: Method, settings: CommonSettings, runs: int) -> None:
    """Refuse what has nothing to attack.

    Raises
    ------
    SettingsError
        With the reason.
    """
    if method.single_client or issubclass(method.strategy_class, MeasureStrategy):
        raise SettingsError(f"method {method.name!r} sends {method.sends}: there is nothing to attack")
    if getattr(settings, "noise_seed", None) is not None:
        raise SettingsError("noise_seed: noise that is known protects nobody; leave it out of an attack")
    if runs < FEWEST or runs % 2:
        raise SettingsError(f"runs={runs}: half of them are shadow runs; give an even number, {FEWEST} or more")


def attack_members(
    method: Method, settings: CommonSettings, asked: Asked, folder: Path, progress: Progress, *, runs: int, quick: bool
) -> Leak:
    """Play runs until there are as many as wanted, and say what they give away.

    Parameters
    ----------
    folder
        Of what was played; runs that are there count.
    runs
        Even, at least 8.
    quick
        As many runs as fit into about two minutes, ``runs`` at most.

    Raises
    ------
    SettingsError
        If the method, the settings or the numbers cannot work, or the folder holds the runs of another attack.
    """
    check_method(method, settings, runs)
    data = federated_data(settings)
    world, table = _table(method, settings, asked, data, folder / "work")
    strategy = table.strategy(world.data)
    view: View = "output only" if table.seen == "output" and asked.seen == "output" else "server's view"
    own = type(strategy)(**_given(strategy, settings)).composition(asked.client)
    told = promise(own.guarantees(), view)
    one = partial(heard, table, partial(world.coins, seed=settings.seed))
    with claimed(folder, method, settings, asked, data):
        kept, run_s = play(one, folder, progress, runs, quick=quick)
    progress.start("attacks", len(ATTACKS))
    delta = told.delta if told is not None else DELTA
    scores = []
    for name in ATTACKS:
        scores.append(judged(name, kept, world, delta))
        progress.advance()
    rounds = int(kept[0]["scores"].shape[0])
    marks = sorted({1, rounds // 4, rounds // 2, rounds} - {0}) if rounds > 1 else []
    by_round = {count: judged("learned", kept, world, delta, count) for count in marks}
    progress.stop()
    return Leak(
        method.name,
        asked,
        table.seen,
        world.size,
        rounds,
        len(kept),
        told,
        delta,
        tuple(scores),
        by_round,
        run_s,
    )


def leak_of(plain: Mapping[str, Any]) -> Leak:
    """A leak from its plain JSON values."""
    known = {name: plain[name] for name in Leak.__dataclass_fields__}
    told = plain["promise"]
    return Leak(
        **{
            **known,
            "asked": Asked(**plain["asked"]),
            "promise": None if told is None else Promise(**told),
            "scores": tuple(map(score_of, plain["scores"])),
            "by_round": {int(count): score_of(one) for count, one in plain["by_round"].items()},
        }
    )


def _given(strategy: Any, settings: CommonSettings) -> dict[str, Any]:
    """What makes the same Strategy with the settings as they were given: masks are part of what is promised."""
    names = ("data", "device", "nodes", "fingerprint", "request_id", "progress")
    return {"settings": settings, **{name: getattr(strategy, name) for name in names}}


def _table(
    method: Method, settings: CommonSettings, asked: Asked, data: FederatedData, work: Path
) -> tuple[World, Table]:
    world = make_world(data, asked.client, asked.records, settings.seed)
    if asked.adversary == "active-server":
        plain = Table(method, settings, world, asked.seen, work).strategy(world.data)
        world = world.planted(public_rows(plain, 1))
        return world, Table(method, settings, world, asked.seen, work, planted=True)
    return world, Table(method, settings, world, asked.seen, work)


def judged(
    name: str, kept: Sequence[Mapping[str, npt.NDArray[Any]]], world: World, delta: float, rounds: int | None = None
) -> Score:
    """An attack over all runs, after so many rounds (all if None): each half of them is attacked with the other."""
    shortest = min(len(one["scores"]) for one in kept)
    signals = []
    for one in kept:
        main, log_odds = int(one["main"]), bool(one["log_odds"])
        each = [
            Signal(scores.astype(np.float64), right.astype(np.float64), main, log_odds)
            for scores, right in zip(one["scores"], one["right"], strict=True)
        ]
        signals.append(together(each[: rounds or shortest]))
    x = np.stack([signal.scores for signal in signals])
    right = np.stack([signal.right for signal in signals])
    coins = np.stack([one["world"] for one in kept])
    member, half = world.members(coins), len(kept) // 2
    first = np.arange(len(kept)) < half
    out = np.empty(member.shape)
    for victims in (first, ~first):
        out[victims] = attack(
            name,
            x[~victims],
            member[~victims],
            x[victims],
            right[victims],
            signals[0].main,
            log_odds=signals[0].log_odds,
        )
    return measure(name, out, member, delta=delta, proving=first, attacks=len(ATTACKS))
