"""What makes a result doubtful, in words: read from its measures and from what was released, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.numbers import percent
from fedballot.learners.options import neighbours_of
from fedballot.runs.results import Release

Floats = npt.NDArray[np.float64]
DEVIATIONS = 2.5  # of chance that a figure must be off
APART = 0.15  # share of the records by which answers may differ from the tally
LITTLE = 0.03  # agreement beyond chance below which votes tell little; clients of unlike classes reach 0.05
ONE_SIDED = 0.9  # agreement by chance from which votes are for one class anyhow, and theirs tells nothing


def doubts(metrics: Mapping[str, Any], release: Release, classes: Sequence[str]) -> list[str]:
    """What a reader has to know before trusting the server's model.

    Parameters
    ----------
    metrics
        Of the result, see ``docs/result.md``.
    release
        What the server received.
    classes
        Names of the classes, C.
    """
    found = [_worse_than_clients(metrics)]
    sigma, tally = metrics.get("released_noise_sigma"), release.histogram
    if tally is not None and sigma is not None and len(tally):
        votes = tally.astype(np.float64)
        confusion = (metrics.get("server_measures") or {}).get("confusion")
        if confusion:
            answers = np.asarray(confusion, dtype=np.float64).sum(axis=0)
            found += [_far_from_the_tally(answers, votes, sigma, classes), _invented(answers, votes, sigma, classes)]
        found.append(_hardly_agree(votes, sigma, metrics.get("vote_weight", 1.0)))
    return [words for words in found if words]


def few_neighbours(models: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """Which of the clients' models ask for more neighbours than some clients have records, where the sizes are known.

    Parameters
    ----------
    models, sizes
        The clients' models, which are dealt out in turn, and how many records each client holds; 0: nobody knows.
    """
    found = []
    for name in dict.fromkeys(models):
        asked = neighbours_of(name)
        held = [size for client, size in enumerate(sizes) if models[client % len(models)] == name]
        if few := [size for size in held if 0 < size < asked]:
            found.append(
                f"client_models={name}: n_neighbors={asked} is more than the records of {len(few)} of the {len(held)} "
                f"clients that have it (the smallest holds {min(few)}): there all records that it learned from are "
                "neighbours of each; ask for fewer neighbours"
            )
    return found


def _worse_than_clients(metrics: Mapping[str, Any]) -> str:
    server, clients = metrics.get("server_accuracy"), metrics.get("client_accuracy")
    tests = sum((metrics.get("server_measures") or {}).get("support") or [])
    if server is None or not clients or not tests:
        return ""
    alone = clients["mean"]
    chance = DEVIATIONS * math.sqrt((server * (1 - server) + alone * (1 - alone)) / tests)
    if alone - server <= chance:
        return ""
    return (
        f"the server's model is worse ({percent(server)}) than what a client reaches alone ({percent(alone)} on "
        "average): taking part does not pay here; more votes, less noise or a pool nearer to the private data may help"
    )


def _far_from_the_tally(answers: Floats, votes: Floats, sigma: float, classes: Sequence[str]) -> str:
    cast = np.maximum(votes.sum(axis=0), 0.0)
    if not cast.any():
        return ""
    said, told = answers / answers.sum(), cast / cast.sum()
    apart = float(np.abs(said - told).sum() / 2)
    noise = DEVIATIONS * sigma * math.sqrt(len(votes)) * len(cast) / 2 / cast.sum()
    chance = float(np.sqrt(told * (1 - told) / answers.sum()).sum())
    if apart <= APART + noise + chance:
        return ""
    worst = int(np.abs(said - told).argmax())
    return (
        f"the server's model answers in other shares than the clients voted: {classes[worst]} is "
        f"{percent(float(said[worst]))} of its answers on test records and {percent(float(told[worst]))} of the votes"
    )


def _invented(answers: Floats, votes: Floats, sigma: float, classes: Sequence[str]) -> str:
    cast, noise = votes.sum(axis=0), DEVIATIONS * sigma * math.sqrt(len(votes))
    none = cast <= noise
    # so often that as many votes could not have hidden in the noise
    often = (answers > 0) & (answers / answers.sum() * cast.sum() - cast > noise)
    names = [classes[index] for index in np.flatnonzero(none & often).tolist()]
    if not names:
        return ""
    more = "no more votes than noise alone may make" if sigma else "no vote at all"
    return f"the server's model answers {', '.join(names)}, for which the tally holds {more}"


def _hardly_agree(votes: Floats, sigma: float, weight: float) -> str:
    """Fleiss 1971, "Measuring nominal scale agreement among many raters", with the noise taken out.

    ``weight`` is the mean of votes' weights, each counted by itself: of weights w, sum w^2 / sum w.
    """
    noise, total = votes.size * sigma**2, weight * votes.sum()
    same = float((votes**2).sum() - noise - total)  # pairs of votes for one class; a vote is not paired with itself
    pairs = float((votes.sum(axis=1) ** 2).sum() - noise - total)
    off = DEVIATIONS * math.sqrt(2 * votes.size * sigma**4 + 4 * sigma**2 * max(same, 0.0))
    shares = np.maximum(votes.sum(axis=0), 0.0)
    if pairs <= 2 * off or not shares.any():
        return ""
    chance = float(((shares / shares.sum()) ** 2).sum())
    agreement = (same / pairs - chance) / (1 - chance) if chance < ONE_SIDED else 1.0
    if agreement + off / pairs / (1 - min(chance, ONE_SIDED)) >= LITTLE:
        return ""
    return (
        f"the clients' votes on public records agree hardly more than chance would have it (Fleiss' kappa about "
        f"{max(0.0, agreement):.2f}): the pool may be far from their private data, or their models may be too weak"
    )
