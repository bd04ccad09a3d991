"""A server that lies: a small sparse circle, and one colluder who hands over all that it holds."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.files import read_arrays
from fedballot.wire.secagg import (
    CONFIRM,
    KEYS,
    MASKED,
    SHARES,
    UNMASK,
    Exchange,
    Form,
    Plan,
    SecaggError,
    crypto,
    make_plan,
)
from fedballot.wire.secagg.messages import COMMITMENT, SEALED, as_bytes, chained, numbers, view_of
from fedballot.wire.secagg.plan import betrays, near, seats
from tests.wire.secagg.world import FORM, World, looks_random, take

CIRCLE = Plan(17, 15, 1, 6, 5)


def circle_world(folder: Path, steps: int) -> World:
    world = World(folder, CIRCLE, Form((400, 10), 50))
    assert not betrays(CIRCLE)
    for _ in range(steps):
        world.step()
    return world


def test_the_server_seats_nobody(tmp_path: Path) -> None:
    """A clique of one client and colluders is no roster; and neighbours are what the roster's keys say."""
    world = circle_world(tmp_path, 1)
    roster, keys = world.exchange.ask(0)
    with pytest.raises(SecaggError, match="7 clients are listed, min_clients asks for 15"):
        world.answer(0, SHARES, [roster[:7], keys[:7]])
    world.step()
    view = view_of(world.exchange.session, "run/1", CIRCLE, roster.tolist(), keys)
    for client_id in range(17):
        peers = near(seats(view, roster.tolist()), client_id, 6)
        assert read_arrays(next((tmp_path / str(client_id)).glob("*.npz")))["peers"].tolist() == peers
        assert world.seen[SHARES][client_id][0].size == COMMITMENT + 6 * SEALED


def test_two_lists_open_neither_for_no_list_has_a_quorum(tmp_path: Path) -> None:
    """Half are told that client 0 is in the sum, half that it is not; client 1, a colluder, signs both lists."""
    world = circle_world(tmp_path, 3)
    lists, honest = (list(range(17)), list(range(1, 17))), [client_id for client_id in range(17) if client_id != 1]
    state = read_arrays(next((tmp_path / "1").glob("*.npz")))
    key, signed = crypto.signing_key(state["signing"].tobytes(), world.exchange.session), []
    for half, inside in zip((honest[:8], honest[8:]), lists, strict=True):
        signatures = {client_id: world.answer(client_id, CONFIRM, [numbers(inside)])[0] for client_id in half}
        statement = chained(str(state["sharing"]), numbers(inside))
        signed.append({**signatures, 1: as_bytes(crypto.sign(key, statement))})
    assert [len(one) for one in signed] == [9, 9] and CIRCLE.quorum == 10
    for half, own, other in zip((honest[:8], honest[8:]), signed, reversed(signed), strict=True):
        for shown in (own, {**other, **own}):
            signers = sorted(shown)
            for client_id in half:
                with pytest.raises(SecaggError, match="9 clients have signed the list that this one was shown, not 10"):
                    world.answer(client_id, UNMASK, [numbers(signers), np.stack([shown[signer] for signer in signers])])


def test_clients_that_were_shown_two_rosters_share_nothing(tmp_path: Path) -> None:
    world = circle_world(tmp_path, 1)
    roster, keys = world.exchange.ask(0)
    strange = keys.copy()
    strange[16] = as_bytes(os.urandom(96)).reshape(3, 32)  # the server poses as client 16
    answers = {
        client_id: world.answer(client_id, SHARES, [roster, strange if client_id < 8 else keys])
        for client_id in range(16)
    }
    with pytest.raises(SecaggError, match="other keys for it"):
        world.answer(16, SHARES, [roster, strange])
    answers[16] = world.answer(16, SHARES, [roster, keys])
    circles = [
        seats(view_of(world.exchange.session, "run/1", CIRCLE, roster.tolist(), shown), roster.tolist())
        for shown in (strange, keys)
    ]
    for client_id in range(8):  # gets from all its neighbours what they have sealed for it, if anything
        peers, sealed = near(circles[0], client_id, 6), []
        for peer in peers:
            theirs = near(circles[peer >= 8], peer, 6)
            own = answers[peer][0][COMMITMENT:].reshape(-1, SEALED)
            sealed.append(own[theirs.index(client_id) if client_id in theirs else 0])
        if all(peer < 8 for peer in peers):
            continue
        with pytest.raises(SecaggError, match="made for another roster"):
            world.answer(client_id, MASKED, [roster, np.stack(sealed)])


def test_integers_for_one_request_enter_no_sum_of_another(tmp_path: Path) -> None:
    """A client whose ballot was opened without its help is asked again, the others under another name."""
    world = World(tmp_path, make_plan(5, 4))
    for lost in ((), (), (), (0,), (0,)):
        world.step(lost)
    assert 0 in world.exchange.inside and world.holder(0).mark.opened("run/1") is None
    second = Exchange(world.plan, FORM, "run/2")
    names = {client_id: "run/1" if client_id == 0 else "run/2" for client_id in range(5)}
    for stage in (KEYS, SHARES):
        take(
            second,
            {
                client_id: world.holder(client_id, second.session, names[client_id]).answer(
                    stage, [] if stage == KEYS else second.ask(client_id), FORM, lambda _: world.ballots[0]
                )
                for client_id in range(5)
            },
        )
    for client_id in range(5):
        with pytest.raises(SecaggError, match="made for another roster"):
            world.holder(client_id, second.session, names[client_id]).answer(
                MASKED, second.ask(client_id), FORM, lambda _: world.ballots[0]
            )


def test_masks_of_clients_that_were_shown_other_sharers_do_not_cancel(tmp_path: Path) -> None:
    """Two neighbours are shown lists without the other, so neither masks for the other; the sum stays shut by that."""
    world = circle_world(tmp_path, 2)
    exchange = world.exchange
    one, other = 0, exchange._neighbours[0][0]
    answers = {}
    for client_id in range(17):
        sharers, sealed = exchange.ask(client_id)
        if client_id in (one, other):
            hidden = other if client_id == one else one
            sealed = np.delete(sealed, exchange._senders[client_id].index(hidden), axis=0)
            sharers = np.delete(sharers, hidden)
        answers[client_id] = world.answer(client_id, MASKED, [sharers, sealed])
    take(exchange, answers)
    for client_id in (one, other):
        with pytest.raises(SecaggError, match="not there before"):
            world.answer(client_id, CONFIRM, exchange.ask(client_id))
    world.step((one, other)), world.step((one, other))
    modulus = 2**exchange.bits
    left = (exchange.total - world.ballots.sum(axis=0)) % modulus
    assert looks_random(left, exchange.bits)


def test_a_client_whose_neighbours_the_server_calls_missing_is_not_bared(tmp_path: Path) -> None:
    """Beyond the bounds of any plan: six of sixteen missing, all the neighbours of client 0."""
    loose = Plan(16, 10, 1, 6, 5)
    world = World(tmp_path, loose)
    for _ in range(2):
        world.step()
    world.step(tuple(world.exchange._neighbours[0]))
    for client_id in world.exchange.clients:
        with pytest.raises(SecaggError, match=r"of this client's neighbours|next to each other on the circle"):
            world.answer(client_id, CONFIRM, world.exchange.ask(client_id))
