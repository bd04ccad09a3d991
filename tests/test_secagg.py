"""Secure aggregation, in process and with real cryptography: exact sums whoever drops out, and what nobody can read."""

from __future__ import annotations

import itertools
import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedballot import secagg
from fedballot.errors import SettingsError
from fedballot.secagg import KEYS, MASKED, SHARES, UNMASK, Exchange, Form, Holder, Plan, SecaggError

SHAPE = (40, 10)
FORM = Form(SHAPE, 50)


class World:
    """Parties on disk and a server; every message goes to a fresh object, as after a restart."""

    def __init__(self, folder: Path, plan: Plan, form: Form = FORM, seed: int = 0) -> None:
        self.folder, self.plan, self.form = folder, plan, form
        rng = np.random.default_rng(seed)
        self.ballots = rng.integers(-form.largest, form.largest, size=(plan.parties, *form.shape), endpoint=True)
        self.exchange = Exchange(plan, form)
        self.seen: dict[str, dict[int, list[np.ndarray]]] = {}
        self.asked: dict[str, dict[int, list[np.ndarray]]] = {}

    def holder(self, agent: int, session: str | None = None, request: str = "run/1") -> Holder:
        return Holder(self.plan, agent, self.folder / str(agent), request, session or self.exchange.session)

    def tell(self, agent: int, stage: str, arrays: list[np.ndarray], session: str | None = None) -> list[np.ndarray]:
        return self.holder(agent, session).answer(stage, arrays, self.form, lambda request: self.ballots[agent])

    def step(self, gone: tuple[int, ...] = ()) -> None:
        exchange, stage = self.exchange, self.exchange.stage
        parties = range(self.plan.parties) if stage == KEYS else exchange.parties
        self.asked[stage] = {
            agent: [np.arange(3)] if stage == KEYS else exchange.ask(agent) for agent in parties if agent not in gone
        }
        self.seen[stage] = {agent: self.tell(agent, stage, asked) for agent, asked in self.asked[stage].items()}
        exchange.take({agent: exchange.read(agent, arrays) for agent, arrays in self.seen[stage].items()})

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
    for agent in order[: plan.parties - plan.m_min]:
        stages[secagg.STAGES[rng.integers(3)]].append(agent)
    inside = sorted(set(range(12)) - {agent for gone in stages.values() for agent in gone})
    if draw < 16:  # then everybody holds everybody's shares, and the threshold is all that must be left
        helpers = int(rng.integers(plan.threshold, len(inside) + 1))
        stages[UNMASK] = rng.permutation(inside).tolist()[helpers:]
    total = world.run({stage: tuple(gone) for stage, gone in stages.items()})
    assert world.exchange.inside == inside
    assert np.array_equal(total, world.ballots[inside].sum(axis=0))


@pytest.mark.parametrize("stage", [KEYS, SHARES, MASKED])
def test_fewer_than_m_min_is_a_clear_abort_at_every_stage(tmp_path: Path, stage: str) -> None:
    world = World(tmp_path, secagg.plan(6, 5))
    with pytest.raises(SecaggError, match="4 parties are left, min_agents asks for 5"):
        world.run({stage: (0, 3)})
    assert world.exchange.total is None


def test_fewer_helpers_than_the_threshold_open_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(6, 5))
    assert world.plan.threshold == 4
    with pytest.raises(SecaggError, match=r"3 parties told their share of agent 0's secret, 4 are needed"):
        world.run({UNMASK: (0, 1, 2)})
    assert world.exchange.total is None


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 5), st.integers(0, 2**40), st.integers(1, 30), st.integers(0, 1000))
def test_any_integers_in_range_add_up_exactly(tmp_path_factory, parties, largest, size, seed) -> None:
    world = World(tmp_path_factory.mktemp("w"), secagg.plan(parties, parties), Form((size,), largest), seed)
    world.ballots[:, 0] = largest if seed % 2 else -largest  # the sums that the modulus has to hold
    assert np.array_equal(world.run({}), world.ballots.sum(axis=0))


def test_the_modulus_is_as_small_as_agents_times_range_allow() -> None:
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
    for agent in exchange.inside:
        sent = secagg.unpack_labels(world.seen[MASKED][agent][0], size, 2**bits)
        seed = exchange._restored(agent, world.seen[UNMASK])
        bare = (sent - secagg.mask(secagg.derive(seed, "own mask", exchange.session, agent), size, bits)) % 2**bits
        # and the masks that it shares with agent 2, whose key was opened
        key = secagg.private_key(exchange._restored(2, world.seen[UNMASK]), exchange.session)
        pair = secagg.agreed(key, exchange._keys[agent][1].tobytes())
        bare = (bare - secagg.pair_mask(pair, exchange.session, agent, 2, size, bits).astype(np.int64)) % 2**bits
        plain = world.ballots[agent].ravel() % 2**bits
        assert not looks_random(plain, bits)
        assert looks_random(sent, bits) and looks_random(bare, bits) and looks_random((bare - plain) % 2**bits, bits)
        assert abs(np.corrcoef(bare, plain)[0, 1]) < 0.1


def test_a_ballot_that_comes_too_late_stays_shut(tmp_path: Path) -> None:
    """The key of a party that fell away is opened; its own mask then still covers what it sends late."""
    world = World(tmp_path, secagg.plan(6, 5), Form((400, 10), 50))
    world.step(), world.step()
    late = world.tell(2, MASKED, world.exchange.ask(2))
    world.step((2,)), world.step((2,))
    exchange, bits, size = world.exchange, world.exchange.bits, world.form.size
    bare = secagg.unpack_labels(late[0], size, 2**bits)
    key = secagg.private_key(exchange._restored(2, world.seen[UNMASK]), exchange.session)
    for peer in exchange._neighbours[2]:
        pair = secagg.agreed(key, exchange._keys[peer][1].tobytes())
        bare = bare - secagg.pair_mask(pair, exchange.session, 2, peer, size, bits).astype(np.int64)
    assert looks_random(bare % 2**bits, bits)
    seed = secagg.read_arrays(next((tmp_path / "2").glob("*.going.npz")))["seed"].tobytes()
    own = secagg.mask(secagg.derive(seed, "own mask", exchange.session, 2), size, bits).astype(np.int64)
    assert np.array_equal((bare - own) % 2**bits, world.ballots[2].ravel() % 2**bits)  # only with its seed, on its disk


# the attacks that a party must refuse


def test_a_party_never_tells_both_kinds_of_share_of_one_peer(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(6, 4))
    for _ in range(3):
        world.step()
    told = world.tell(0, UNMASK, [np.array([0, 1, 2, 3, 4])])[0]
    with pytest.raises(SecaggError, match="another 'unmask' message was answered before"):
        world.tell(0, UNMASK, [np.array([0, 1, 2, 3, 5])])
    assert np.array_equal(world.tell(0, UNMASK, [np.array([0, 1, 2, 3, 4])])[0], told)
    # one answer has one share per peer, and nothing of the other kind is left on disk
    assert told.shape == (6, secagg.SECRET)
    (kept,) = (tmp_path / "0").glob("*.npz")
    assert {name for name in secagg.read_arrays(kept) if not name.startswith("asked ")} == {"session", "told"}
    with pytest.raises(SecaggError, match="each once"):
        world.tell(1, UNMASK, [np.array([0, 1, 2, 3, 4, 4])])


def test_a_request_is_opened_once_whatever_the_session(tmp_path: Path) -> None:
    """Two sums that differ by one party would tell that party's ballot."""
    world = World(tmp_path, secagg.plan(4, 3))
    world.run({})
    with pytest.raises(SecaggError, match="opened before") as caught:
        world.tell(0, KEYS, [np.arange(3)], session="another")
    assert caught.value.reason == "opened"
    assert world.holder(0, "another", "run/2").answer(KEYS, [np.arange(3)], FORM, lambda _: world.ballots[0])


def test_a_second_attempt_has_new_keys_and_makes_the_first_useless(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(4, 3))
    for _ in range(3):
        world.step()
    first, world.exchange = world.exchange, Exchange(world.plan, FORM)
    assert np.array_equal(world.run({}), world.ballots.sum(axis=0))
    with pytest.raises(SecaggError, match="opened before"):
        world.tell(0, UNMASK, first.ask(0), session=first.session)


def test_keys_are_fresh_for_every_session_and_request(tmp_path: Path) -> None:
    world = World(tmp_path, secagg.plan(4, 3))
    found = []
    for session, request in itertools.product(("a", "b"), ("run/1", "run/2")):
        found += world.holder(0, session, request).answer(KEYS, [], FORM, lambda _: world.ballots[0])
    assert len({key.tobytes() for pair in found for key in pair}) == 8


@pytest.mark.parametrize(
    ("stage", "change", "words"),
    [
        (SHARES, lambda a: [a[0], np.stack([a[1][1], *a[1][1:]])], "two public keys are the same"),
        (SHARES, lambda a: [a[0][:1], a[1][:1]], "1 neighbours, expected 3 to 5"),
        (SHARES, lambda a: [np.array([0, *a[0][1:]]), a[1]], "no other party of this run"),
        (SHARES, lambda a: [np.array([9, *a[0][1:]]), a[1]], "no other party of this run"),
        (SHARES, lambda a: [a[0], np.zeros_like(a[1]) + np.arange(len(a[0]) * 2).reshape(-1, 2, 1)], "keys must come"),
        (MASKED, lambda a: [a[0], a[1][::-1].copy()], "damaged or not from it"),
        (MASKED, lambda a: [a[0], a[1] ^ np.uint8(1)], "damaged or not from it"),
        (MASKED, lambda a: [a[0][:2], a[1][:2]], "3 shares came, 4 open a secret"),
        (MASKED, lambda a: [np.array([9, *a[0][1:]]), a[1]], "no neighbour"),
        (UNMASK, lambda a: [np.array([1, 2, 3, 4, 5])], "without this party"),
        (UNMASK, lambda a: [np.array([0, 1, 2, 3])], "4 parties are in the sum, min_agents asks for 5"),
        (UNMASK, lambda a: [np.array([0, 11, 12, 13, 14])], "fewer than 4"),
        (UNMASK, lambda a: [], "expected the list"),
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
        for lost in ((), (), gone):
            world.step(lost)
        answers = {agent: world.tell(agent, UNMASK, world.exchange.ask(agent)) for agent in world.exchange.parties}
        answers[0] = [answers[0][0] ^ np.uint8(1)]
        with pytest.raises(SecaggError, match=f"{words} do not fit together"):
            world.exchange.take(answers)


# keys on disk


def test_keys_are_the_owner_s_alone_and_gone_after_the_round(tmp_path: Path) -> None:
    os.umask(0o022)
    world = World(tmp_path, secagg.plan(3, 3))
    for _ in range(3):
        world.step()
        (path,) = (tmp_path / "0").glob("*.npz")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    secret = {name: array.tobytes() for name, array in secagg.read_arrays(path).items()}
    world.step()
    left = b"".join(
        array.tobytes() for path in (tmp_path / "0").glob("*.npz") for array in secagg.read_arrays(path).values()
    )
    for name in ("sealing", "masking", "seed"):
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


def test_the_graph_is_connected_and_even() -> None:
    for n, k in ((100, 22), (23, 22), (7, 2), (2, 20)):
        near = secagg.circle(list(range(n)), k)
        assert all(agent in near[peer] for agent in near for peer in near[agent])
        assert {len(peers) for peers in near.values()} == {min(k, n - 1)}
        reached, front = {0}, [0]
        while front:
            front = [peer for agent in front for peer in near[agent] if peer not in reached]
            reached |= set(front)
        assert len(reached) == n
    assert secagg.circle(list(range(100)), 22) != secagg.circle(list(range(100)), 22)


def test_plans_are_small_safe_and_complete_for_few_parties() -> None:
    assert secagg.plan(3, 2) == Plan(3, 2, 0, 2, 2)
    assert secagg.plan(10, 9) == Plan(10, 9, 0, 9, 6)
    assert secagg.plan(10, 9, 3) == Plan(10, 9, 3, 9, 7)
    for n, m, t in ((100, 90, 0), (500, 450, 0), (500, 450, 50), (1000, 900, 100)):
        chosen = secagg.plan(n, m, t)
        leak, stuck = secagg.risks(n, m, t, chosen.neighbours, chosen.threshold)
        assert leak <= secagg.LEAK and stuck <= secagg.STUCK and 2 * chosen.threshold > chosen.neighbours + 1
        assert chosen.neighbours < n / 4
    assert secagg.plan(100, 90).neighbours == 22


def test_the_chance_of_a_bad_graph_is_what_a_simulation_finds() -> None:
    rng, n, colluders, k, threshold = np.random.default_rng(0), 60, 20, 10, 7
    leak = secagg.risks(n, n - 12, colluders, k, threshold)[0]
    stuck = secagg.risks(n, n - 12, 0, k, threshold)[1]
    bad = near_few = 0
    for _ in range(4000):
        near = rng.permutation(n - 1)[:k]
        bad += (near < colluders).sum() >= 2 * threshold - k - 1
        near_few += (near < 12).sum() > k + 1 - threshold
    cut = np.prod([(32 - j) / (60 - j) for j in range(k // 2)])
    assert leak == pytest.approx(n * (bad / 4000 + cut), rel=0.1)
    assert stuck == pytest.approx(n * near_few / 4000, rel=0.6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"parties": 1, "m_min": 1}, "agents=1 is too few"),
        ({"parties": 10, "m_min": 4}, "min_agents must be at least 6"),
        ({"parties": 10, "m_min": 9, "colluders": 8}, "min_agents must be at least 10"),
        ({"parties": 10, "m_min": 9, "threshold": 5}, "share_threshold=5"),
        ({"parties": 10, "m_min": 9, "threshold": 11}, "share_threshold=11"),
        ({"parties": 100, "m_min": 90, "neighbours": 7}, "mask_neighbours=7 is odd"),
        ({"parties": 100, "m_min": 90, "neighbours": 4}, "mask_neighbours=4"),
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
