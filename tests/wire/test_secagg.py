"""Secure aggregation, in process and with real cryptography: exact sums whoever drops out, and what nobody can read."""

from __future__ import annotations

import itertools
import json
import os
import stat
import time
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedballot.core.errors import SettingsError
from fedballot.wire.secagg import protocol as secagg
from fedballot.wire.secagg.protocol import (
    CONFIRM,
    KEYS,
    MASKED,
    SHARES,
    UNMASK,
    Exchange,
    Form,
    Holder,
    Plan,
    SecaggError,
)

SHAPE = (40, 10)
FORM = Form(SHAPE, 50)


class FileMark:
    """A client's marks in a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def opened(self, request: str) -> str | None:
        return json.loads(self.path.read_text()).get(request) if self.path.exists() else None

    def open(self, request: str, session: str) -> None:
        assert self.opened(request) in (None, session)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({request: session}))


class World:
    """Clients on disk and a server; every message goes to a fresh object, as after a restart."""

    def __init__(self, folder: Path, plan: Plan, form: Form = FORM, seed: int = 0) -> None:
        self.folder, self.plan, self.form = folder, plan, form
        rng = np.random.default_rng(seed)
        self.ballots = rng.integers(-form.largest, form.largest, size=(plan.clients, *form.shape), endpoint=True)
        self.exchange = Exchange(plan, form, "run/1")
        self.seen: dict[str, dict[int, list[np.ndarray]]] = {}
        self.asked: dict[str, dict[int, list[np.ndarray]]] = {}

    def holder(self, client_id: int, session: str | None = None, request: str = "run/1") -> Holder:
        mark = FileMark(self.folder / "marks" / str(client_id))
        return Holder(
            self.plan, client_id, self.folder / str(client_id), request, session or self.exchange.session, mark
        )

    def tell(
        self, client_id: int, stage: str, arrays: list[np.ndarray], session: str | None = None
    ) -> list[np.ndarray]:
        return self.holder(client_id, session).answer(stage, arrays, self.form, lambda request: self.ballots[client_id])

    def step(self, gone: tuple[int, ...] = ()) -> None:
        exchange, stage = self.exchange, self.exchange.stage
        clients = range(self.plan.clients) if stage == KEYS else exchange.clients
        self.asked[stage] = {
            client_id: [np.arange(3)] if stage == KEYS else exchange.ask(client_id)
            for client_id in clients
            if client_id not in gone
        }
        self.seen[stage] = {
            client_id: self.tell(client_id, stage, asked) for client_id, asked in self.asked[stage].items()
        }
        exchange.take({client_id: exchange.read(client_id, arrays) for client_id, arrays in self.seen[stage].items()})

    def run(self, gone: dict[str, tuple[int, ...]]) -> np.ndarray:
        lost: tuple[int, ...] = ()
        for stage in secagg.STAGES:
            lost += gone.get(stage, ())
            self.step(lost)
        assert self.exchange.total is not None
        return self.exchange.total


def looks_random(values: np.ndarray, bits: int) -> bool:
    """Whether residues modulo 2^bits pass a chi-squared test on 16 cells that a good generator fails once in 10^9."""
    counts = np.bincount(values.ravel().astype(np.int64) >> (bits - 4), minlength=16)
    return bool(stats.chisquare(counts).pvalue > 1e-9)


@pytest.mark.parametrize("draw", range(20))
def test_the_sum_is_exact_whoever_drops_out(tmp_path: Path, draw: int) -> None:
    """20 random patterns before, between and after the exchange of shares, up to what the plan allows."""
    rng = np.random.default_rng(draw)
    plan = (secagg.plan(12, 8) if draw % 2 else secagg.plan(12, 9, 2)) if draw < 16 else Plan(12, 9, 0, 6, 4)
    world = World(tmp_path, plan, seed=draw)
    order, stages = rng.permutation(12).tolist(), {stage: [] for stage in secagg.STAGES}
    for client_id in order[: plan.clients - plan.m_min]:
        stages[secagg.STAGES[rng.integers(3)]].append(client_id)
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
def test_fewer_than_m_min_is_a_clear_abort_at_every_stage(tmp_path: Path, stage: str) -> None:
    world = World(tmp_path, secagg.plan(6, 5))
    with pytest.raises(SecaggError, match="4 clients are left, min_clients asks for 5"):
        world.run({stage: (0, 3)})
    assert world.exchange.total is None


def test_fewer_helpers_than_the_threshold_open_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(6, 5))
    assert world.plan.threshold == 4
    with pytest.raises(SecaggError, match=r"3 clients told their share of client 0's secret, 4 are needed"):
        world.run({UNMASK: (0, 1, 2)})
    assert world.exchange.total is None


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 5), st.integers(0, 2**40), st.integers(1, 30), st.integers(0, 1000))
def test_any_integers_in_range_add_up_exactly(tmp_path_factory, clients, largest, size, seed) -> None:
    world = World(tmp_path_factory.mktemp("w"), secagg.plan(clients, clients), Form((size,), largest), seed)
    world.ballots[:, 0] = largest if seed % 2 else -largest  # the sums that the modulus has to hold
    assert np.array_equal(world.run({}), world.ballots.sum(axis=0))


def test_the_modulus_is_as_small_as_clients_times_range_allow() -> None:
    plan = Plan(100, 90, 0, 22, 12)
    assert [plan.bits(Form((1,), largest)) for largest in (0, 1, 5, 6)] == [1, 8, 10, 11]
    assert plan.bits(Form((1,), 2**55)) == 63
    with pytest.raises(SettingsError, match="more than 63"):
        plan.bits(Form((1,), 2**57))


def test_masked_ballots_take_that_many_bits_on_the_wire(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(3, 3), Form((1000, 10), 40))
    for _ in range(3):
        world.step()
    assert world.exchange.bits == 8
    assert [array.nbytes for array in world.seen[MASKED][0]] == [10_000]


# what the server holds


def test_with_all_that_it_is_told_the_server_cannot_read_a_ballot(tmp_path: Path) -> None:
    """Own masks come off when the sum is opened; the neighbours' masks stay on each single ballot."""
    world = World(tmp_path, secagg.plan(6, 5), Form((400, 10), 50))
    world.run({MASKED: (2,)})
    exchange, bits, size = world.exchange, world.exchange.bits, world.form.size
    for client_id in exchange.inside:
        sent = secagg.unpack_labels(world.seen[MASKED][client_id][0], size, 2**bits)
        seed = exchange._restored(client_id, world.seen[UNMASK])
        bare = (sent - secagg.mask(secagg.derive(seed, "own mask", exchange.session, client_id), size, bits)) % 2**bits
        # and the masks that it shares with client 2, whose key was opened
        key = secagg.private_key(exchange._restored(2, world.seen[UNMASK]), exchange.session)
        pair = secagg.agreed(key, exchange._keys[client_id][1].tobytes())
        bare = (bare - secagg.pair_mask(pair, exchange._sharing, client_id, 2, size, bits).astype(np.int64)) % 2**bits
        plain = world.ballots[client_id].ravel() % 2**bits
        assert not looks_random(plain, bits)
        assert looks_random(sent, bits) and looks_random(bare, bits) and looks_random((bare - plain) % 2**bits, bits)
        assert abs(np.corrcoef(bare, plain)[0, 1]) < 0.1


def test_a_ballot_that_comes_too_late_stays_shut(tmp_path: Path) -> None:
    """The key of a client that fell away is opened; its own mask then still covers what it sends late."""
    world = World(tmp_path, secagg.plan(6, 5), Form((400, 10), 50))
    world.step(), world.step()
    late = world.tell(2, MASKED, world.exchange.ask(2))
    world.step((2,)), world.step((2,)), world.step((2,))
    exchange, bits, size = world.exchange, world.exchange.bits, world.form.size
    bare = secagg.unpack_labels(late[0], size, 2**bits)
    key = secagg.private_key(exchange._restored(2, world.seen[UNMASK]), exchange.session)
    for peer in exchange._neighbours[2]:
        pair = secagg.agreed(key, exchange._keys[peer][1].tobytes())
        bare = bare - secagg.pair_mask(pair, exchange._sharing, 2, peer, size, bits).astype(np.int64)
    assert looks_random(bare % 2**bits, bits)
    seed = secagg.read_arrays(next((tmp_path / "2").glob("*.going.npz")))["seed"].tobytes()
    own = secagg.mask(secagg.derive(seed, "own mask", exchange.session, 2), size, bits).astype(np.int64)
    assert np.array_equal((bare - own) % 2**bits, world.ballots[2].ravel() % 2**bits)  # only with its seed, on its disk


# the attacks that a client must refuse


def test_a_client_never_tells_both_kinds_of_share_of_one_peer(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(6, 4))
    for _ in range(3):
        world.step()
    lists = [np.array([0, 1, 2, 3, 4], dtype="<i4")], [np.array([0, 1, 2, 3, 5], dtype="<i4")]
    signed = [world.tell(client_id, CONFIRM, lists[0])[0] for client_id in range(4)]
    with pytest.raises(SecaggError, match="another 'confirm' message was answered before"):
        world.tell(0, CONFIRM, lists[1])
    told = world.tell(0, UNMASK, [secagg.numbers([0, 1, 2, 3]), np.stack(signed)])[0]
    with pytest.raises(SecaggError, match="another 'unmask' message was answered before"):
        world.tell(0, UNMASK, [secagg.numbers([0, 1, 2]), np.stack(signed[:3])])
    with pytest.raises(SecaggError, match="this exchange is over"):
        world.tell(0, CONFIRM, lists[0])
    assert np.array_equal(world.tell(0, UNMASK, [secagg.numbers([0, 1, 2, 3]), np.stack(signed)])[0], told)
    # one answer has one share per peer, and nothing of the other kind is left on disk
    assert told.shape == (6, secagg.SECRET)
    (kept,) = (tmp_path / "0").glob("*.npz")
    assert {name for name in secagg.read_arrays(kept) if not name.startswith("asked ")} == {"session", "told"}


def test_a_request_is_opened_once_whatever_the_session(tmp_path: Path) -> None:
    """Two sums that differ by one client would tell that client's ballot."""
    world = World(tmp_path, secagg.plan(4, 3))
    world.run({})
    with pytest.raises(SecaggError, match="opened before") as caught:
        world.tell(0, KEYS, [np.arange(3)], session="another")
    assert caught.value.reason == "opened"
    assert world.holder(0, "another", "run/2").answer(KEYS, [np.arange(3)], FORM, lambda _: world.ballots[0])


def test_a_client_that_has_signed_a_list_takes_part_in_no_other_session(tmp_path: Path) -> None:
    """Else a server could have one half of the clients tell in one session, the other half in another."""
    world = World(tmp_path, secagg.plan(4, 3))
    for _ in range(4):
        world.step()
    first, world.exchange = world.exchange, Exchange(world.plan, FORM, "run/1")
    for client_id in range(4):
        with pytest.raises(SecaggError, match="opened before"):
            world.tell(client_id, KEYS, [np.arange(3)])
    world.exchange = first
    world.step()
    assert np.array_equal(world.exchange.total, world.ballots.sum(axis=0))


def test_the_mark_and_not_the_folder_says_that_a_request_was_opened(tmp_path: Path) -> None:
    """Settings name a run's folder, and a server chooses settings."""
    world = World(tmp_path, secagg.plan(4, 3))
    world.run({})
    mark = FileMark(tmp_path / "marks" / "0")
    assert mark.opened("run/1") == world.exchange.session
    elsewhere = Holder(world.plan, 0, tmp_path / "elsewhere", "run/1", "another", mark)
    with pytest.raises(SecaggError, match="opened before"):
        elsewhere.answer(KEYS, [np.arange(3)], FORM, lambda _: world.ballots[0])
    world.tell(0, UNMASK, world.exchange.ask(0))  # in its own session the same answer is given again


def test_nothing_is_signed_before_the_mark_is_set_and_nothing_told_without_it(tmp_path: Path) -> None:
    class Broken(FileMark):
        def open(self, request: str, session: str) -> None:
            raise OSError("disk full")

    world = World(tmp_path, secagg.plan(4, 3))
    for _ in range(3):
        world.step()
    mark, asked = tmp_path / "marks" / "0", world.exchange.ask(0)
    broken = Holder(world.plan, 0, tmp_path / "0", "run/1", world.exchange.session, Broken(mark))
    with pytest.raises(OSError, match="disk full"):
        broken.answer(CONFIRM, asked, FORM, lambda _: world.ballots[0])
    assert "asked confirm" not in secagg.read_arrays(next((tmp_path / "0").glob("*.npz")))
    world.step()
    mark.unlink()
    with pytest.raises(SecaggError, match="mark of the request is gone"):
        world.tell(0, UNMASK, world.exchange.ask(0))


def test_a_second_attempt_has_new_keys_and_makes_the_first_useless(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(4, 3))
    for _ in range(3):
        world.step()
    first, world.exchange = world.exchange, Exchange(world.plan, FORM, "run/1")
    assert np.array_equal(world.run({}), world.ballots.sum(axis=0))
    with pytest.raises(SecaggError, match="opened before"):
        world.tell(0, UNMASK, first.ask(0), session=first.session)


def test_keys_are_fresh_for_every_session_and_request(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(4, 3))
    found = []
    for session, request in itertools.product(("a", "b"), ("run/1", "run/2")):
        found += world.holder(0, session, request).answer(KEYS, [], FORM, lambda _: world.ballots[0])
    assert len({key.tobytes() for three in found for key in three}) == 12


@pytest.mark.parametrize(
    ("stage", "change", "words"),
    [
        (SHARES, lambda a: [a[0], np.stack([a[1][0], a[1][2], *a[1][2:]])], "two public keys are the same"),
        (SHARES, lambda a: [a[0][:4], a[1][:4]], "4 clients are listed, min_clients asks for 5"),
        (SHARES, lambda a: [np.array([0, 1, 2, 3, 4, 9]), a[1]], "none of this run"),
        (SHARES, lambda a: [np.array([-1, 0, 1, 2, 3, 4]), a[1]], "none of this run"),
        (SHARES, lambda a: [a[0][1:], a[1][1:]], "without this client"),
        (SHARES, lambda a: [a[0], a[1][[1, 0, 2, 3, 4, 5]]], "has other keys for it"),
        (SHARES, lambda a: [a[0][[0, 2, 1, 3, 4, 5]], a[1]], "each once and in order"),
        (SHARES, lambda a: [np.array([0, 1, 2, 3, 4, 4]), a[1]], "each once and in order"),
        (SHARES, lambda a: [a[0], a[1][:, :2]], "keys must come"),
        (MASKED, lambda a: [a[0], a[1][::-1].copy()], "damaged, not from it"),
        (MASKED, lambda a: [a[0], a[1] ^ np.uint8(1)], "damaged, not from it"),
        (MASKED, lambda a: [a[0][:4], a[1][:3]], "4 clients are listed, min_clients asks for 5"),
        (MASKED, lambda a: [a[0], a[1][:4]], "from each neighbour"),
        (MASKED, lambda a: [a[0][:5], a[1]], "from each neighbour"),
        (MASKED, lambda a: [a[0][1:], a[1]], "without this client"),
        (MASKED, lambda a: [np.array([0, 1, 2, 3, 4, 9]), a[1]], "not there before"),
        (CONFIRM, lambda a: [np.array([1, 2, 3, 4, 5])], "without this client"),
        (CONFIRM, lambda a: [np.array([0, 1, 2, 3])], "4 clients are listed, min_clients asks for 5"),
        (CONFIRM, lambda a: [np.array([0, 11, 12, 13, 14])], "not there before"),
        (CONFIRM, lambda a: [np.array([0, 1, 2, 3, 4, 4])], "each once and in order"),
        (CONFIRM, lambda a: [], "expected the list"),
        (UNMASK, lambda a: [a[0][:3], a[1][:3]], "3 clients have signed .* not 4"),
        (UNMASK, lambda a: [a[0], a[1] ^ np.uint8(1)], "0 clients have signed .* not 4"),
        (UNMASK, lambda a: [a[0], a[1][[1, 0, 3, 2, 5, 4]]], "0 clients have signed .* not 4"),
        (UNMASK, lambda a: [np.array([0, 0, 0, 0]), a[1][[0, 0, 0, 0]]], "each once and in order"),
        (UNMASK, lambda a: [np.array([0, 1, 2, 9]), a[1][:4]], "3 clients have signed .* not 4"),
        (UNMASK, lambda a: [a[0]], "expected signers"),
    ],
)
def test_a_message_that_would_betray_somebody_is_refused(tmp_path: Path, stage, change, words) -> None:
    world = World(tmp_path, secagg.plan(6, 5))
    while world.exchange.stage != stage:
        world.step()
    good = world.exchange.ask(0)
    bad = [
        np.asarray(array, dtype=like.dtype) if array.ndim == 1 else array
        for array, like in zip(change(good), good, strict=False)
    ]
    with pytest.raises(SecaggError, match=words):
        world.tell(0, stage, bad)
    world.step()  # a refusal changes nothing: the right message is answered


def test_stages_cannot_be_skipped_or_asked_twice_in_other_words(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(3, 3))
    with pytest.raises(SecaggError, match="no keys for"):
        world.tell(0, MASKED, [])
    world.step()
    ask = world.exchange.ask(0)
    with pytest.raises(SecaggError, match="before its time"):
        world.tell(0, MASKED, ask)
    first = world.tell(0, SHARES, ask)
    assert all(np.array_equal(x, y) for x, y in zip(first, world.tell(0, SHARES, ask), strict=True))
    with pytest.raises(SecaggError, match="another 'shares' message"):
        world.tell(0, SHARES, [ask[0][::-1].copy(), ask[1][::-1].copy()])
    with pytest.raises(SecaggError, match="before its time"):
        world.tell(0, CONFIRM, [ask[0]])
    with pytest.raises(SecaggError, match="no keys for"):
        world.tell(0, SHARES, ask, session="another")


def test_the_same_masked_message_gets_the_same_bytes(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(3, 3))
    world.step(), world.step()
    first, again = (world.tell(0, MASKED, world.exchange.ask(0))[0] for _ in range(2))
    assert first.tobytes() == again.tobytes()


def test_integers_beyond_the_range_are_refused_not_cut(tmp_path: Path) -> None:
    for value, good in ((50, True), (-50, True), (51, False), (-51, False)):
        values = np.full(SHAPE, value)
        if good:
            assert np.array_equal(secagg.checked(values, FORM), values)
        else:
            with pytest.raises(SecaggError, match="larger than the modulus was chosen for"):
                secagg.checked(values, FORM)
    for wrong in (np.zeros(SHAPE), np.zeros((40, 9), dtype=int)):
        with pytest.raises(SecaggError, match="expected integers"):
            secagg.checked(wrong, FORM)


def test_a_share_that_does_not_fit_is_an_error_not_a_wrong_sum(tmp_path: Path) -> None:
    for gone, words in (((), "seed"), ((5,), "seed|key")):
        world = World(tmp_path / words, secagg.plan(6, 5))
        for lost in ((), (), gone, gone):
            world.step(lost)
        answers = {
            client_id: world.tell(client_id, UNMASK, world.exchange.ask(client_id))
            for client_id in world.exchange.clients
        }
        answers[0] = [answers[0][0] ^ np.uint8(1)]
        with pytest.raises(SecaggError, match=f"{words} do not fit together"):
            world.exchange.take(answers)


# a server that lies: a small sparse circle, and one colluder who hands over all that it holds

CIRCLE = Plan(17, 15, 1, 6, 5)


def circle_world(folder: Path, steps: int) -> World:
    world = World(folder, CIRCLE, Form((400, 10), 50))
    assert not secagg.betrays(*astuple(CIRCLE))
    for _ in range(steps):
        world.step()
    return world


def test_the_server_seats_nobody(tmp_path: Path) -> None:
    """A clique of one client and colluders is no roster; and neighbours are what the roster's keys say."""
    world = circle_world(tmp_path, 1)
    roster, keys = world.exchange.ask(0)
    with pytest.raises(SecaggError, match="7 clients are listed, min_clients asks for 15"):
        world.tell(0, SHARES, [roster[:7], keys[:7]])
    world.step()
    view = secagg.view_of(world.exchange.session, "run/1", CIRCLE, roster.tolist(), keys)
    for client_id in range(17):
        peers = secagg.near(secagg.seats(view, roster.tolist()), client_id, 6)
        assert secagg.read_arrays(next((tmp_path / str(client_id)).glob("*.npz")))["peers"].tolist() == peers
        assert world.seen[SHARES][client_id][1].shape == (6, secagg.SEALED)


def test_two_lists_open_neither_for_no_list_has_a_quorum(tmp_path: Path) -> None:
    """Half are told that client 0 is in the sum, half that it is not; client 1, a colluder, signs both lists."""
    world = circle_world(tmp_path, 3)
    lists, honest = (list(range(17)), list(range(1, 17))), [client_id for client_id in range(17) if client_id != 1]
    state = secagg.read_arrays(next((tmp_path / "1").glob("*.npz")))
    key, signed = secagg.signing_key(state["signing"].tobytes(), world.exchange.session), []
    for half, inside in zip((honest[:8], honest[8:]), lists, strict=True):
        signatures = {client_id: world.tell(client_id, CONFIRM, [secagg.numbers(inside)])[0] for client_id in half}
        statement = secagg.chained(str(state["sharing"]), secagg.numbers(inside))
        signed.append({**signatures, 1: secagg._bytes(key.sign(secagg._statement(statement)))})
    assert [len(one) for one in signed] == [9, 9] and CIRCLE.quorum == 10
    for half, own, other in zip((honest[:8], honest[8:]), signed, reversed(signed), strict=True):
        for shown in (own, {**other, **own}):
            signers = sorted(shown)
            for client_id in half:
                with pytest.raises(SecaggError, match="9 clients have signed the list that this one was shown, not 10"):
                    world.tell(
                        client_id, UNMASK, [secagg.numbers(signers), np.stack([shown[signer] for signer in signers])]
                    )


def test_clients_that_were_shown_two_rosters_share_nothing(tmp_path: Path) -> None:
    world = circle_world(tmp_path, 1)
    roster, keys = world.exchange.ask(0)
    strange = keys.copy()
    strange[16] = secagg._bytes(os.urandom(96)).reshape(3, 32)  # the server poses as client 16
    told = {
        client_id: world.tell(client_id, SHARES, [roster, strange if client_id < 8 else keys])
        for client_id in range(16)
    }
    with pytest.raises(SecaggError, match="other keys for it"):
        world.tell(16, SHARES, [roster, strange])
    told[16] = world.tell(16, SHARES, [roster, keys])
    circles = [
        secagg.seats(secagg.view_of(world.exchange.session, "run/1", CIRCLE, roster.tolist(), shown), roster.tolist())
        for shown in (strange, keys)
    ]
    for client_id in range(8):  # gets from all its neighbours what they have sealed for it, if anything
        peers, sealed = secagg.near(circles[0], client_id, 6), []
        for peer in peers:
            theirs = secagg.near(circles[peer >= 8], peer, 6)
            sealed.append(told[peer][1][theirs.index(client_id) if client_id in theirs else 0])
        if all(peer < 8 for peer in peers):
            continue
        with pytest.raises(SecaggError, match="made for another roster"):
            world.tell(client_id, MASKED, [roster, np.stack(sealed)])


def test_integers_for_one_request_enter_no_sum_of_another(tmp_path: Path) -> None:
    """A client whose ballot was opened without its help is asked again, the others under another name."""
    world = World(tmp_path, secagg.plan(5, 4))
    for lost in ((), (), (), (0,), (0,)):
        world.step(lost)
    assert 0 in world.exchange.inside and world.holder(0).mark.opened("run/1") is None
    second = Exchange(world.plan, FORM, "run/2")
    names = {client_id: "run/1" if client_id == 0 else "run/2" for client_id in range(5)}
    for stage in (KEYS, SHARES):
        second.take(
            {
                client_id: world.holder(client_id, second.session, names[client_id]).answer(
                    stage, [] if stage == KEYS else second.ask(client_id), FORM, lambda _: world.ballots[0]
                )
                for client_id in range(5)
            }
        )
    for client_id in range(5):
        with pytest.raises(SecaggError, match="made for another roster"):
            world.holder(client_id, second.session, names[client_id]).answer(
                MASKED, second.ask(client_id), FORM, lambda _: world.ballots[0]
            )


def test_masks_of_clients_that_were_told_of_other_sharers_do_not_cancel(tmp_path: Path) -> None:
    """Two neighbours are told that the other has gone, so neither masks for the other; the sum stays shut by that."""
    world = circle_world(tmp_path, 2)
    exchange = world.exchange
    one, other = 0, exchange._neighbours[0][0]
    told = {}
    for client_id in range(17):
        sharers, sealed = exchange.ask(client_id)
        if client_id in (one, other):
            hidden = other if client_id == one else one
            sealed = np.delete(sealed, exchange._near(client_id, exchange._sharers).index(hidden), axis=0)
            sharers = np.delete(sharers, hidden)
        told[client_id] = world.tell(client_id, MASKED, [sharers, sealed])
    exchange.take({client_id: exchange.read(client_id, arrays) for client_id, arrays in told.items()})
    for client_id in (one, other):
        with pytest.raises(SecaggError, match="not there before"):
            world.tell(client_id, CONFIRM, exchange.ask(client_id))
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
            world.tell(client_id, CONFIRM, world.exchange.ask(client_id))


# keys on disk


def test_keys_are_the_owner_s_alone_and_gone_after_the_round(tmp_path: Path) -> None:
    os.umask(0o022)
    world = World(tmp_path, secagg.plan(3, 3))
    for _ in range(4):
        world.step()
        (path,) = (tmp_path / "0").glob("*.npz")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    secret = {name: array.tobytes() for name, array in secagg.read_arrays(path).items()}
    world.step()
    left = b"".join(
        array.tobytes() for path in (tmp_path / "0").glob("*.npz") for array in secagg.read_arrays(path).values()
    )
    for name in ("sealing", "masking", "signing", "seed"):
        assert secret[name] not in left


def test_keys_of_an_exchange_that_never_ended_are_deleted_later(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(3, 3))
    world.step()
    (old,) = (tmp_path / "0").glob("*.going.npz")
    new = lambda request: world.holder(0, "s", request).answer(KEYS, [], FORM, lambda _: world.ballots[0])  # noqa: E731
    new("run/2")
    assert old.exists()
    os.utime(old, (time.time() - 2 * secagg.ABANDONED_S,) * 2)
    new("run/3")
    assert not old.exists() and len(list((tmp_path / "0").glob("*.going.npz"))) == 2


# masks


def test_masks_depend_on_every_bit_of_the_secret_unlike_flower_s() -> None:
    """Flower folds the secret to 32 bits by XOR of its words: words in another order give the very same mask."""
    words = os.urandom(32)
    swapped = words[4:8] + words[:4] + words[8:]
    assert np.array_equal(pseudo_rand_gen(words, 2**16, [(50,)])[0], pseudo_rand_gen(swapped, 2**16, [(50,)])[0])
    ours = [secagg.pair_mask(secret, "s", 0, 1, 2000, 16) for secret in (words, swapped)]
    assert np.mean(ours[0] == ours[1]) < 0.01
    for bit in range(0, 256, 37):
        flipped = bytearray(words)
        flipped[bit // 8] ^= 1 << bit % 8
        assert np.mean(secagg.pair_mask(bytes(flipped), "s", 0, 1, 2000, 16) == ours[0]) < 0.01


@pytest.mark.parametrize("bits", [1, 8, 13, 16, 17, 32, 33, 63])
def test_masks_are_uniform_and_pairs_cancel(bits: int) -> None:
    values = secagg.pair_mask(b"x" * 32, "s", 3, 7, 20_000, bits)
    mine, theirs = values, secagg.pair_mask(b"x" * 32, "s", 7, 3, 20_000, bits)
    assert not ((mine + theirs) & mine.dtype.type(2**bits - 1)).any()
    top = values.astype(np.uint64) >> np.uint64(max(bits - 4, 0))
    assert stats.chisquare(np.bincount(top.astype(int), minlength=min(16, 2**bits))).pvalue > 1e-9
    for other in (("t", 3, 7), ("s", 3, 8)):  # another session, another pair
        assert bits < 8 or np.mean(secagg.pair_mask(b"x" * 32, *other, 20_000, bits) == values) < 0.02


# who must be there


def connected(near: dict[int, list[int]], among: set[int]) -> bool:
    reached, front = set(), [min(among)]
    while front:
        reached |= set(front)
        front = [peer for client_id in front for peer in near[client_id] if peer in among and peer not in reached]
    return reached == among


def test_the_graph_is_connected_even_and_drawn_from_what_all_were_shown() -> None:
    for n, k in ((100, 22), (23, 22), (7, 2), (2, 20)):
        order = secagg.seats("view", list(range(n)))
        near = {client_id: secagg.near(order, client_id, k) for client_id in order}
        assert sorted(order) == list(range(n)) and order == secagg.seats("view", list(range(n)))
        assert all(client_id in near[peer] for client_id in near for peer in near[client_id])
        assert {len(peers) for peers in near.values()} == {min(k, n - 1)}
        assert connected(near, set(order))
    assert secagg.seats("view", list(range(100))) != secagg.seats("another", list(range(100)))
    # every client is as likely to sit beside a given one
    beside = [secagg.near(secagg.seats(str(draw), list(range(9))), 0, 2) for draw in range(2000)]
    assert stats.chisquare(np.bincount(np.ravel(beside), minlength=9)[1:]).pvalue > 1e-6


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_honest_clients_of_a_sum_hang_together_wherever_colluders_sit_and_whoever_is_missing(data) -> None:
    n, t, half = data.draw(st.integers(9, 30)), data.draw(st.integers(0, 3)), data.draw(st.integers(1, 6))
    plan = Plan(n, 2, t, 2 * half, half + 1)
    order, gone = list(range(n)), data.draw(st.sets(st.integers(0, n - 1), max_size=n - 2))
    # the worst that a server can do: two gaps anywhere
    for start in data.draw(st.lists(st.integers(0, n - 1), max_size=2)):
        gone |= {(start + step) % n for step in range(data.draw(st.integers(0, half)))}
    inside = sorted(set(order) - gone)
    colluders = set(data.draw(st.permutations(inside))[:t])
    if len(inside) > t and secagg.unbroken(order, inside, plan):
        assert connected(
            {client_id: secagg.near(order, client_id, 2 * half) for client_id in order}, set(inside) - colluders
        )


def test_a_gap_on_the_circle_is_seen() -> None:
    plan, order = Plan(30, 20, 1, 8, 6), list(range(30))
    for gap, whole in ((2, True), (3, False), (4, False)):  # of four in a row more than one must be there
        for start in (0, 10, 28):
            gone = {(start + step) % 30 for step in range(gap)}
            assert secagg.unbroken(order, sorted(set(order) - gone), plan) is whole
    assert secagg.unbroken(order, [0, 29], Plan(30, 20, 1, 29, 16))  # everybody is next to everybody


def test_plans_are_small_safe_and_complete_for_few_clients() -> None:
    assert secagg.plan(3, 2) == Plan(3, 2, 0, 2, 2)
    assert secagg.plan(10, 9) == Plan(10, 9, 0, 9, 6)
    assert secagg.plan(10, 9, 3) == Plan(10, 9, 3, 9, 7)
    for n, m, t in ((50, 45, 5), (100, 90, 5), (100, 90, 10), (500, 450, 25), (500, 450, 50), (1000, 900, 50)):
        chosen = secagg.plan(n, m, t)
        # all colluders may sit beside one client, and the missing beside another
        assert 2 * chosen.threshold > chosen.neighbours + 1 + t and chosen.neighbours // 2 > t
        assert m >= chosen.quorum and 2 * chosen.quorum > n + t
        assert chosen.neighbours < n and secagg.stuck(n, m, t, chosen.neighbours, chosen.threshold) <= secagg.STUCK
    assert [secagg.plan(n, n * 9 // 10).neighbours for n in (100, 500, 1000)] == [20, 28, 32]


def test_a_plan_that_t_colluders_can_break_is_told_from_one_that_they_cannot() -> None:
    assert not secagg.betrays(100, 90, 5, 30, 19) and secagg.betrays(100, 90, 5, 30, 18)
    assert not secagg.betrays(100, 90, 9, 20, 16) and secagg.betrays(100, 90, 10, 20, 16)
    assert not secagg.betrays(10, 9, 3, 9, 7) and secagg.betrays(10, 9, 3, 9, 6)
    assert not secagg.betrays(3, 3, 1, 2, 3)  # in the complete graph nobody can be cut off


def test_the_chance_of_being_stuck_is_what_a_simulation_finds() -> None:
    rng, n, missing, k, threshold, t = np.random.default_rng(0), 60, 20, 12, 8, 1
    plan, found = Plan(n, n - missing, t, k, threshold), np.zeros(2)
    order = list(range(n))
    for _ in range(3000):
        gone = set(rng.permutation(n)[:missing].tolist())
        found[0] += sum(peer in gone for peer in secagg.near(order, 0, k)) > k + 1 - threshold
        found[1] += sum(peer in gone for peer in range(k // 2)) > k // 2 - t - 1
    assert secagg.stuck(n, n - missing, t, k, threshold) == pytest.approx(n * found.sum() / 3000, rel=0.2)
    assert secagg.stuck(n, plan.quorum - 1, t, k, threshold) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"clients": 1, "m_min": 1}, "clients=1 is too few"),
        ({"clients": 10, "m_min": 4}, "min_clients must be at least 6"),
        ({"clients": 10, "m_min": 9, "colluders": 8}, "min_clients must be at least 10"),
        ({"clients": 10, "m_min": 9, "threshold": 5}, "share_threshold=5"),
        ({"clients": 10, "m_min": 9, "threshold": 11}, "share_threshold=11"),
        ({"clients": 100, "m_min": 90, "neighbours": 7}, "mask_neighbours=7 is odd"),
        ({"clients": 100, "m_min": 90, "neighbours": 4}, "mask_neighbours=4"),
    ],
)
def test_settings_under_which_nothing_is_safe_are_refused(given, words) -> None:
    with pytest.raises(SettingsError, match=words):
        secagg.plan(**given)


def test_answers_of_the_wrong_form_are_refused_by_the_server(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(3, 3))
    good = world.tell(0, KEYS, [])
    for bad, reason in (([], "count"), ([good[0].astype(int)], "dtype"), ([good[0][:1]], "shape")):
        with pytest.raises(secagg.WireError) as caught:
            world.exchange.read(0, bad)
        assert caught.value.reason == reason
