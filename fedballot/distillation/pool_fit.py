"""What a noisy poll says about a public pool: what of the clients' records it does not reach, and what of it is idle.

Everything here is post-processing of one release. The noise on each count is known, so each share comes with its
standard error; what is concluded is so at two of them or more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedballot.core.numbers import percent

Floats = npt.NDArray[np.float64]
Verdict = Literal["fits", "fits in part", "does not fit", "cannot be told"]

SURE = 2.0  # standard errors
SURER = 2.5  # of one among many cells
UNSURE = 0.1  # standard error of the far share from which nothing can be told
SOME, MOST = 0.1, 0.5  # share of records out of reach from which a pool fits in part, or does not
OF_A_CLASS = 0.3  # far share of a class that is worth a word
IDLE_SOME, IDLE_MOST = 0.25, 0.75  # share of the pool that is idle from which it fits in part, or does not
FEWER = 1 / 3  # of what a cell of the pool would have, with which it is idle
MORE = 2.0  # times what the pool has in a cell, with which it is short there
SMALL = 0.02  # error below which shares are written with a decimal
NOTABLE = 0.02  # share of the records below which a short cell is no matter


@dataclass(frozen=True)
class Share:
    """A share with its standard error; None: the noise leaves nothing of it."""

    value: float
    error: float

    @property
    def low(self) -> float:
        """What it is at least, surely."""
        return self.value - SURE * self.error


@dataclass(frozen=True)
class Cell:
    """A cell of the pool: its share of the public records and of the clients', and which of the two is too small."""

    pool: float
    clients: Share
    state: Literal["", "short", "idle"]


@dataclass(frozen=True)
class PoolFit:
    """How a pool fits.

    Attributes
    ----------
    verdict
        In two words.
    far
        Share of the clients' records that are far from all public ones.
    expected
        What that share would be of a pool of the same kind.
    out_of_reach
        What is far beyond that.
    weight
        About how many records, or clients where they weigh the same, there are.
    cells
        In their order.
    classes
        Far share of each class, C; None where the noise leaves nothing of it.
    class_shares
        Share of each class among the clients' records, C.
    idle
        Share of the pool that lies in idle cells.
    """

    verdict: Verdict
    far: Share
    expected: float
    out_of_reach: Share
    weight: Share
    cells: tuple[Cell, ...]
    classes: tuple[Share | None, ...]
    class_shares: tuple[Share, ...]
    idle: float

    @property
    def far_classes(self) -> list[int]:
        """Classes of which much is far for certain, the worst first."""
        shares = [(share.value, index) for index, share in enumerate(self.classes) if share and share.low > OF_A_CLASS]
        return [index for _, index in sorted(shares, key=lambda pair: (-pair[0], pair[1]))]


def pool_fit(counts: npt.NDArray[np.number], sigma: float, pool: npt.NDArray[np.integer], expected: float) -> PoolFit:
    """Read a poll.

    Parameters
    ----------
    counts
        (B + 1 + 2 C,), noisy, in records or clients: by cell, far from all; near by class, far by class.
    sigma
        Standard deviation of the noise on each.
    pool
        Public records in each cell (B,).
    expected
        Far share of a pool of the same kind.
    """
    cells, size = len(pool), float(pool.sum())
    counts = np.asarray(counts, dtype=np.float64)
    by_cell, by_class = counts[:cells], counts[cells + 1 :].reshape(2, -1)
    # either list tells both numbers, with its own noise: weighed by their precision
    near_classes, far_classes = by_class.sum(axis=1).tolist()
    far, far_variance = _weighed(float(counts[cells]), 1, far_classes, by_class.shape[1], sigma)
    near, near_variance = _weighed(float(by_cell.sum()), cells, near_classes, by_class.shape[1], sigma)
    total = Share(max(far + near, 0.0), math.sqrt(far_variance + near_variance))
    told = total.value > SURE * total.error
    far_share = _share(far, near, far_variance, near_variance) if told else Share(expected, 1.0)
    beyond = Share(
        max(0.0, (far_share.value - expected) / (1 - expected)),
        math.hypot(far_share.error, math.sqrt(expected * (1 - expected) / size)) / (1 - expected),
    )
    weight = total.value if told else math.inf  # then shares say nothing, with an error of 1
    parts = tuple(
        _cell(public / size, Share(max(0.0, count) / weight, sigma / weight if told else 1.0))
        for public, count in zip(pool.tolist(), by_cell.tolist(), strict=True)
    )
    classes = tuple(
        _share(away, here, sigma**2, sigma**2) if away + here > 2 * SURE * sigma else None
        for here, away in zip(*by_class.tolist(), strict=True)
    )
    shares = tuple(
        Share(max(0.0, one) / weight, math.sqrt(2) * sigma / weight if told else 1.0)
        for one in by_class.sum(axis=0).tolist()
    )
    idle = float(sum(part.pool for part in parts if part.state == "idle"))
    fit = PoolFit("cannot be told", far_share, expected, beyond, total, parts, classes, shares, idle)
    return replace(fit, verdict=_verdict(fit))


def _verdict(fit: PoolFit) -> Verdict:
    if fit.out_of_reach.low >= MOST / 2 and fit.out_of_reach.value >= MOST:
        return "does not fit"
    if fit.far.error > UNSURE:
        return "cannot be told"
    if fit.idle >= IDLE_MOST:
        return "does not fit"
    return "fits in part" if fit.out_of_reach.low >= SOME or fit.far_classes or fit.idle >= IDLE_SOME else "fits"


def _cell(pool: float, clients: Share) -> Cell:
    low, high = clients.value - SURER * clients.error, clients.value + SURER * clients.error
    if high < FEWER * pool:
        return Cell(pool, clients, "idle")
    return Cell(pool, clients, "short" if low > MORE * pool and low > pool + NOTABLE else "")


def _weighed(one: float, one_size: int, other: float, other_size: int, sigma: float) -> tuple[float, float]:
    """Mean of two sums of so many noisy counts each, weighed by their precision, and its variance."""
    size = one_size + other_size
    return (one * other_size + other * one_size) / size, sigma**2 * one_size * other_size / size


def _share(far: float, near: float, far_variance: float, near_variance: float) -> Share:
    """Far / (far + near) and its error to first order."""
    total = far + near
    value = min(1.0, max(0.0, far / total))
    return Share(value, math.sqrt((1 - value) ** 2 * far_variance + value**2 * near_variance) / total)


def advice(fit: PoolFit, classes: Sequence[str], who: str, likes: Sequence[str]) -> list[str]:
    """What the poll says, in plain sentences; the first is the recommendation.

    Parameters
    ----------
    fit
    classes
        Names of the classes.
    who
        Whose records shares are of, such as "the clients' records".
    likes
        What records of each cell are like, B; empty texts where no words say so.
    """
    usual = f"{percent(fit.expected, 0)} would be of a pool of their own kind"
    far = f"{_percent(fit.far)} of {who} are far from all public records ({usual})"
    if fit.verdict == "cannot be told":
        return [
            "It cannot be told whether the pool fits: there are too few records for this noise. Ask more clients, or "
            "with a larger epsilon"
        ]
    first = {
        "fits": f"The pool fits: {far}",
        "fits in part": f"The pool fits in part: {far}",
        "does not fit": f"The pool does not fit: {far}. Take one that is nearer to what clients hold",
    }[fit.verdict]
    out = [first]
    if fit.out_of_reach.low >= SOME:
        out[0] += ". Of these the server's model would learn nothing"
    named = fit.far_classes
    if named and len(named) < len(classes):
        words = ", ".join(f"{classes[index]} ({_percent(fit.classes[index])} far)" for index in named[:6])
        out.append(f"Add public records of the class{'es' if len(named) > 1 else ''} {words}")
    if fit.idle >= IDLE_SOME:
        cells = _named(fit, "idle", likes)
        out.append(
            f"{percent(fit.idle, 0)} of the pool lies where clients hold hardly anything ({cells}): votes there are "
            "guesses; leave such records out"
        )
    if short := _named(fit, "short", likes):
        out.append(f"Clients hold more than twice what the pool has in {short}: more such public records would help")
    return out


def _named(fit: PoolFit, state: str, likes: Sequence[str]) -> str:
    numbers = [number for number, cell in enumerate(fit.cells) if cell.state == state]
    names = [f"{number + 1} ({likes[number]})" if likes[number] else f"{number + 1}" for number in numbers[:6]]
    if not names:
        return ""
    return (
        f"cell{'s' if len(numbers) > 1 else ''} {', '.join(names)}{' and others' if len(numbers) > len(names) else ''}"
    )


def _percent(share: Share | None) -> str:
    """With two standard errors, rounded up."""
    assert share is not None
    error = SURE * share.error
    digits = 1 if error < SMALL else 0
    grain = 10.0 ** (2 + digits)
    return f"{percent(share.value, digits)} ± {percent(math.ceil(error * grain) / grain, digits)}"
