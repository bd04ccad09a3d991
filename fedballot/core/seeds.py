"""The streams of a run's seed: what is drawn from it, each under a number of its own.

Nothing here is privacy noise. A client's own learner is seeded by the seed and the client's number, which may be that
of a stream: initial weights then come from the same numbers as something else, which harms nobody.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What is drawn. Numbers are fixed, for they fix every number of a seeded run; no run uses two streams of one."""

    QUERIES = 1  # public records that a method of one round asks about
    STUDENT = 2  # learner of the server's own
    PRETRAINING = 3  # FedMD: one network of a kind for all clients
    ROUND_QUERIES = 4  # FedMD: public records of each round
    SHARED_MODEL = 5  # weights that clients and server share
    COHORT = 6  # clients that a round asks
    PUBLIC_SPLIT = 7  # FedAUX: public records for pretraining
    GENERATOR = 7  # FedGen
    SEARCH = 7  # `fedballot frontier`: trials; of the search's seed
    SELECTOR = 7  # Selective-FD: records that densities are estimated from
    SUBSETS = 7  # FedKT: parts of a client's records
    COPIES = 8  # shifts of public images
    CELLS = 9  # of a poll about the public pool
    WORLDS = 10  # `fedballot attack`: which records a client has in each run


def generator(seed: int, *streams: int) -> np.random.Generator:
    """Random numbers of a stream; further numbers, such as a round's, part it.

    Examples
    --------
    >>> generator(0, Stream.QUERIES).permutation(5)
    array([1, 4, 3, 0, 2])
    """
    return np.random.default_rng([seed, *map(int, streams)])


def seed_of(seed: int, *streams: int) -> int:
    """The seed of something that takes one number, such as a learner: 32 bits."""
    return int(np.random.SeedSequence([seed, *map(int, streams)]).generate_state(1)[0])
