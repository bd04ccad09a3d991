"""Exact sums whoever drops out, and what the server cannot read."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.core.files import read_arrays
from fedballot.wire.packing import WireError, unpack_labels
from fedballot.wire.secagg import (
    CONFIRM,
    KEYS,
    MASKED,
    SHARES,
    STAGES,
    UNMASK,
    Form,
    Plan,
    SecaggError,
    crypto,
    make_plan,
)
from tests.wire.secagg.world import World, looks_random, take


@pytest.mark.parametrize("draw", range(20))
def test_the_sum_is_exact_whoever_drops_out(tmp_path: Path, draw: int) -> None:
    """20 random patterns before, between and after the exchange of shares, up to what the plan allows.

    On the circle the three that are missing are fewer than k/2, so they cannot cut it, wherever they sit.
    """
    rng = np.random.default_rng(draw)
    plan = (make_plan(12, 8) if draw % 2 else make_plan(12, 9, 2)) if draw < 16 else Plan(12, 9, 0, 8, 5)
    world = World(tmp_path, plan, seed=draw)
    order, stages = rng.permutation(12).tolist(), {stage: [] for stage in STAGES}
    for client_id in order[: plan.clients - plan.min_clients]:
        stages[STAGES[rng.integers(3)]].append(client_id)
    inside = sorted(set(range(12)) - {client_id for gone in stages.values() for client_id in gone})
    if draw < 16:  # then everybody holds everybody's shares, and the threshold is all that must be left
        helpers = int(rng.integers(plan.threshold, len(inside) + 1))
        late = rng.permutation(inside).tolist()[helpers:]
        here = int(rng.integers(len(late) + 1))
        stages[CONFIRM], stages[UNMASK] = late[:here], late[here:]
    total = world.run({stage: tuple(gone) for stage, gone in stages.items()})
    assert world.exchange.inside == inside
    assert np.array_equal(total, world.ballots[inside].sum(axis=0))


@pytest.mark.parametrize("stage", [KEYS, SHARES, MASKED])
def test_fewer_than_min_clients_is_a_clear_abort_at_every_stage(tmp_path: Path, stage: str) -> None:
    world = World(tmp_path, make_plan(6, 5))
    with pytest.raises(SecaggError, match="4 clients are left, min_clients asks for 5"):
        world.run({stage: (0, 3)})
    assert world.exchange.total is None


def test_fewer_helpers_than_the_threshold_open_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(6, 5))
    assert world.plan.threshold == 4
    with pytest.raises(SecaggError, match=r"3 clients sent their share of client 0's secret, 4 are needed"):
        world.run({UNMASK: (0, 1, 2)})
    assert world.exchange.total is None


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 5), st.integers(0, 2**40), st.integers(1, 30), st.integers(0, 1000))
def test_any_integers_in_range_add_up_exactly(tmp_path_factory, clients, largest, size, seed) -> None:
    world = World(tmp_path_factory.mktemp("w"), make_plan(clients, clients), Form((size,), largest), seed)
    world.ballots[:, 0] = largest if seed % 2 else -largest  # the sums that the modulus has to hold
    assert np.array_equal(world.run({}), world.ballots.sum(axis=0))


def test_masked_ballots_take_that_many_bits_on_the_wire(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(3, 3), Form((1000, 10), 40))
    for _ in range(3):
        world.step()
    assert world.exchange.bits == 8
    assert [array.nbytes for array in world.seen[MASKED][0]] == [10_000]


def test_with_all_that_it_receives_the_server_cannot_read_a_ballot(tmp_path: Path) -> None:
    """Own masks come off when the sum is opened; the neighbours' masks stay on each single ballot."""
    world = World(tmp_path, make_plan(6, 5), Form((400, 10), 50))
    world.run({MASKED: (2,)})
    exchange, bits, size = world.exchange, world.exchange.bits, world.form.size
    for client_id in exchange.inside:
        sent = unpack_labels(world.seen[MASKED][client_id][0], size, 2**bits)
        seed = exchange._restore()[client_id]
        bare = (sent - crypto.own_mask(seed, exchange.session, client_id, size, bits)) % 2**bits
        # and the masks that it shares with client 2, whose key was opened
        key = crypto.private_key(exchange._restore()[2], exchange.session)
        pair = crypto.shared_secret(key, exchange._keys[client_id][1].tobytes())
        bare = (bare - crypto.pair_mask(pair, exchange._sharing, client_id, 2, size, bits).astype(np.int64)) % 2**bits
        plain = world.ballots[client_id].ravel() % 2**bits
        assert not looks_random(plain, bits)
        assert looks_random(sent, bits) and looks_random(bare, bits) and looks_random((bare - plain) % 2**bits, bits)
        assert abs(np.corrcoef(bare, plain)[0, 1]) < 0.1


def test_a_ballot_that_comes_too_late_stays_shut(tmp_path: Path) -> None:
    """The key of a client that dropped out is opened; its own mask then still covers what it sends late."""
    world = World(tmp_path, make_plan(6, 5), Form((400, 10), 50))
    world.step(), world.step()
    late = world.answer(2, MASKED, world.exchange.ask(2))
    world.step((2,)), world.step((2,)), world.step((2,))
    exchange, bits, size = world.exchange, world.exchange.bits, world.form.size
    bare = unpack_labels(late[0], size, 2**bits)
    key = crypto.private_key(exchange._restore()[2], exchange.session)
    for peer in exchange._neighbours[2]:
        pair = crypto.shared_secret(key, exchange._keys[peer][1].tobytes())
        bare = bare - crypto.pair_mask(pair, exchange._sharing, 2, peer, size, bits).astype(np.int64)
    assert looks_random(bare % 2**bits, bits)
    seed = read_arrays(next((tmp_path / "2").glob("*.pending.npz")))["seed"].tobytes()
    own = crypto.own_mask(seed, exchange.session, 2, size, bits).astype(np.int64)
    assert np.array_equal((bare - own) % 2**bits, world.ballots[2].ravel() % 2**bits)  # only with its seed, on its disk


def test_a_share_that_does_not_fit_is_an_error_not_a_wrong_sum(tmp_path: Path) -> None:
    for gone, words in (((), "seed"), ((5,), "seed|key")):
        world = World(tmp_path / words, make_plan(6, 5))
        for lost in ((), (), gone, gone):
            world.step(lost)
        answers = {
            client_id: world.answer(client_id, UNMASK, world.exchange.ask(client_id))
            for client_id in world.exchange.clients
        }
        answers[0] = [answers[0][0] ^ np.uint8(1)]
        with pytest.raises(SecaggError, match=f"{words} do not fit together"):
            take(world.exchange, answers)


def test_a_ballot_is_added_once_and_not_kept(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(4, 3), Form((20_000,), 50))
    world.step(), world.step()
    exchange, order = world.exchange, [2, 0, 3, 1]
    before = len(pickle.dumps(exchange))
    for client_id in order:
        sent = exchange.read(client_id, world.answer(client_id, MASKED, exchange.ask(client_id)))
        exchange.receive(client_id, sent)
    with pytest.raises(WireError, match="client 1 answered twice"):
        exchange.receive(1, sent)
    assert len(pickle.dumps(exchange)) < before + 1000 < before + sent[0].nbytes
    exchange.advance()
    world.step(), world.step()
    assert np.array_equal(exchange.total, world.ballots.sum(axis=0))


def test_answers_of_the_wrong_form_are_refused_by_the_server(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(3, 3))
    good = world.answer(0, KEYS, [])
    for bad, reason in (([], "count"), ([good[0].astype(int)], "dtype"), ([good[0][:1]], "shape")):
        with pytest.raises(WireError) as caught:
            world.exchange.read(0, bad)
        assert caught.value.reason == reason
