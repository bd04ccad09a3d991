"""Who must take part in a secure sum, and who is whose neighbour."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedballot.core.errors import SettingsError

MAX_STUCK = 2.0**-20  # chance that clients missing at random may have of leaving the sum shut
MIN_NEIGHBOURS = 20  # even where fewer would be safe: who is not counted as a colluder may turn out to be one


@dataclass(frozen=True)
class Form:
    """What a client's integers look like: their shape, and the largest magnitude of any of them."""

    shape: tuple[int, ...]
    largest: int

    @property
    def size(self) -> int:
        """How many integers there are."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Plan:
    """Who must be there and who holds shares; each client computes the same one from the settings.

    Parameters
    ----------
    clients : int
        Most that can take part, n.
    min_clients : int
        Fewest whose sum may be opened, m.
    colluders : int
        Clients that may pool what they hold with the server, t.
    neighbours : int
        Of each client, k.
    threshold : int
        Shares that open a secret, of the k + 1 that there are (its owner keeps one).
    """

    clients: int
    min_clients: int
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


@lru_cache(maxsize=64)
def make_plan(clients: int, min_clients: int, colluders: int = 0, neighbours: int = 0, threshold: int = 0) -> Plan:
    """The smallest graph and threshold that are safe and rarely stuck (`MAX_STUCK`).

    Parameters
    ----------
    clients, min_clients, colluders
        As in :class:`Plan`.
    neighbours, threshold
        To be checked instead of chosen, where not 0.

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
    graphs = [min(neighbours, everybody)] if neighbours else [*range(MIN_NEIGHBOURS, everybody, 2), everybody]
    for k in graphs:
        plan = Plan(clients, min_clients, colluders, k, threshold or (k + 1 + colluders) // 2 + 1)
        if not betrays(plan) and stuck(plan) <= MAX_STUCK:
            return plan
    fixed = "".join(
        f"{name}={value}, "
        for name, value in (("mask_neighbours", neighbours), ("share_threshold", threshold))
        if value
    )
    least = (clients + colluders) // 2 + 1
    raise SettingsError(
        f"secure aggregation with {fixed}clients={clients}, min_clients={min_clients}, colluders={colluders}: no "
        f"shares that {min_clients} clients can put together are safe from {colluders} colluders; with all clients as "
        f"neighbours min_clients must be at least {least}" + (", and 0 has the others chosen" if fixed else "")
    )


def betrays(plan: Plan) -> bool:
    """Whether t colluders could open more than the one sum, wherever they sit and whoever is said to be missing.

    Both kinds of share of one client come together to the threshold s if 2 s <= k + 1 + t: an honest holder reveals
    one kind, a colluder both. And on the circle the honest clients of a sum may fall apart unless k/2 > t, for only
    then can more than t of every k/2 in a row be in the sum (`unbroken`). Every client holds to both, so these are no
    chances: `min_clients` and the order on the circle play no part.
    """
    t, k, s = plan.colluders, plan.neighbours, plan.threshold
    apart = k + 1 < plan.clients and k // 2 <= t
    return apart or 2 * s <= k + 1 + t


def stuck(plan: Plan) -> float:
    """Chance that clients missing at random leave the sum shut.

    It stays shut if fewer than the threshold of some client's k + 1 holders are left, or too few of k/2 in a row on the
    circle (`unbroken`). In the complete graph the first is certain or impossible, and there is no circle.
    """
    n, m, t, k, s = plan.clients, plan.min_clients, plan.colluders, plan.neighbours, plan.threshold
    if m < plan.quorum or s > k + 1:
        return 1.0
    if k + 1 >= n:
        return float(m < s)
    from scipy.stats import hypergeom  # half a second, which complete graphs do without

    missing, half = n - m, k // 2
    holders = hypergeom.sf(k + 1 - s, n - 1, missing, k)
    row = hypergeom.sf(half - t - 1, n, missing, half)
    return n * float(holders + row)


def seats(view: str, roster: list[int]) -> list[int]:
    """The order of the clients on the circle: by a hash of the roster with all keys, so nobody seats anybody.

    Whoever makes keys last can try many; so nothing but the chance of being `stuck` rests on the order.
    """
    return sorted(roster, key=lambda client_id: hashlib.sha256(f"{view}/seat/{client_id}".encode()).digest())


def near(order: list[int], client_id: int, neighbours: int) -> list[int]:
    """A client's neighbours: those up to k/2 places away on the circle, or all if there are no more; sorted."""
    return _around(order, order.index(client_id), neighbours)


def graph(order: list[int], neighbours: int) -> dict[int, list[int]]:
    """The neighbours of each client, as :func:`near` has them."""
    return {client_id: _around(order, place, neighbours) for place, client_id in enumerate(order)}


def _around(order: list[int], place: int, neighbours: int) -> list[int]:
    n, half = len(order), neighbours // 2
    if neighbours >= n - 1:
        return sorted(order[:place] + order[place + 1 :])
    return sorted(order[(place + step) % n] for step in range(-half, half + 1) if step)


def unbroken(order: list[int], inside: list[int], plan: Plan) -> bool:
    """Whether more than t of every k/2 in a row on the circle are in the sum: an honest one next to each honest one.

    Then neither colluders nor missing clients cut the honest ones of the sum into pieces that could be opened alone.
    """
    n, half = len(order), plan.neighbours // 2
    if plan.neighbours >= n - 1:
        return True
    there = np.isin(np.array(order + order[:half]), inside)
    return bool(np.convolve(there, np.ones(half, dtype=int), "valid").min() > plan.colluders)
