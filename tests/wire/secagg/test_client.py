"""What a client refuses, answers again, and leaves on its disk."""

from __future__ import annotations

import itertools
import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.files import read_arrays
from fedballot.wire.secagg import CONFIRM, KEYS, MASKED, SHARES, UNMASK, Exchange, Holder, SecaggError, make_plan
from fedballot.wire.secagg.client import ABANDONED_S
from fedballot.wire.secagg.messages import SECRET, numbers
from tests.wire.secagg.world import FORM, FileMark, World


def test_a_client_never_reveals_both_kinds_of_share_of_one_peer(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(6, 4))
    for _ in range(3):
        world.step()
    lists = [np.array([0, 1, 2, 3, 4], dtype="<i4")], [np.array([0, 1, 2, 3, 5], dtype="<i4")]
    signatures = [world.answer(client_id, CONFIRM, lists[0])[0] for client_id in range(4)]
    with pytest.raises(SecaggError, match="another 'confirm' message was answered before"):
        world.answer(0, CONFIRM, lists[1])
    revealed = world.answer(0, UNMASK, [numbers([0, 1, 2, 3]), np.stack(signatures)])[0]
    with pytest.raises(SecaggError, match="another 'unmask' message was answered before"):
        world.answer(0, UNMASK, [numbers([0, 1, 2]), np.stack(signatures[:3])])
    with pytest.raises(SecaggError, match="this exchange is over"):
        world.answer(0, CONFIRM, lists[0])
    assert np.array_equal(world.answer(0, UNMASK, [numbers([0, 1, 2, 3]), np.stack(signatures)])[0], revealed)
    # one answer has one share per peer, and nothing of the other kind is left on disk
    assert revealed.shape == (6, SECRET)
    (state,) = (tmp_path / "0").glob("*.npz")
    assert {name for name in read_arrays(state) if not name.startswith("digest ")} == {"session", "revealed"}


def test_a_request_is_opened_once_whatever_the_session(tmp_path: Path) -> None:
    """Two sums that differ by one client would reveal that client's ballot."""
    world = World(tmp_path, make_plan(4, 3))
    world.run({})
    with pytest.raises(SecaggError, match="opened before") as caught:
        world.answer(0, KEYS, [np.arange(3)], session="another")
    assert caught.value.reason == "opened"
    assert world.holder(0, "another", "run/2").answer(KEYS, [np.arange(3)], FORM, lambda _: world.ballots[0])


def test_a_client_that_has_signed_a_list_takes_part_in_no_other_session(tmp_path: Path) -> None:
    """Else a server could have one half of the clients reveal shares in one session, the other half in another."""
    world = World(tmp_path, make_plan(4, 3))
    for _ in range(4):
        world.step()
    first, world.exchange = world.exchange, Exchange(world.plan, FORM, "run/1")
    for client_id in range(4):
        with pytest.raises(SecaggError, match="opened before"):
            world.answer(client_id, KEYS, [np.arange(3)])
    world.exchange = first
    world.step()
    assert np.array_equal(world.exchange.total, world.ballots.sum(axis=0))


def test_the_mark_and_not_the_folder_says_that_a_request_was_opened(tmp_path: Path) -> None:
    """Settings name a run's folder, and a server chooses settings."""
    world = World(tmp_path, make_plan(4, 3))
    world.run({})
    mark = FileMark(tmp_path / "marks" / "0")
    assert mark.opened("run/1") == world.exchange.session
    elsewhere = Holder(world.plan, 0, tmp_path / "elsewhere", "run/1", "another", mark)
    with pytest.raises(SecaggError, match="opened before"):
        elsewhere.answer(KEYS, [np.arange(3)], FORM, lambda _: world.ballots[0])
    world.answer(0, UNMASK, world.exchange.ask(0))  # in its own session the same answer is given again


def test_nothing_is_signed_before_the_mark_is_set_and_nothing_revealed_without_it(tmp_path: Path) -> None:
    class Broken(FileMark):
        def open(self, request: str, session: str) -> None:
            raise OSError("disk full")

    world = World(tmp_path, make_plan(4, 3))
    for _ in range(3):
        world.step()
    mark, asked = tmp_path / "marks" / "0", world.exchange.ask(0)
    broken = Holder(world.plan, 0, tmp_path / "0", "run/1", world.exchange.session, Broken(mark))
    with pytest.raises(OSError, match="disk full"):
        broken.answer(CONFIRM, asked, FORM, lambda _: world.ballots[0])
    assert "digest confirm" not in read_arrays(next((tmp_path / "0").glob("*.npz")))
    world.step()
    mark.unlink()
    with pytest.raises(SecaggError, match="mark of the request is gone"):
        world.answer(0, UNMASK, world.exchange.ask(0))


def test_a_second_attempt_has_new_keys_and_makes_the_first_useless(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(4, 3))
    for _ in range(3):
        world.step()
    first, world.exchange = world.exchange, Exchange(world.plan, FORM, "run/1")
    assert np.array_equal(world.run({}), world.ballots.sum(axis=0))
    with pytest.raises(SecaggError, match="opened before"):
        world.answer(0, UNMASK, first.ask(0), session=first.session)


def test_a_late_message_of_an_exchange_that_was_left_does_not_touch_the_one_under_way(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(4, 3))
    world.step(), world.step()
    first, world.exchange = world.exchange, Exchange(world.plan, FORM, "run/1")
    world.step()
    for stage in (KEYS, SHARES):
        with pytest.raises(SecaggError, match="left for a later one"):
            world.answer(0, stage, world.asked[KEYS][0], session=first.session)
    for _ in range(4):
        world.step()
    assert np.array_equal(world.exchange.total, world.ballots.sum(axis=0))


def test_a_client_that_has_signed_a_list_and_lost_its_keys_makes_no_new_ones(tmp_path: Path) -> None:
    """Else it would sign a second list in the same session."""
    world = World(tmp_path, make_plan(4, 3))
    for _ in range(4):
        world.step()
    next((tmp_path / "0").glob("*.pending.npz")).unlink()
    with pytest.raises(SecaggError, match="opened before"):
        world.answer(0, KEYS, world.asked[KEYS][0])


def test_keys_that_a_process_has_left_in_its_death_are_deleted(tmp_path: Path) -> None:
    world, folder = World(tmp_path, make_plan(4, 3)), tmp_path / "0"
    for _ in range(4):
        world.step()
    (pending,) = folder.glob("*.pending.npz")
    keys = pending.read_bytes()
    world.step()
    pending.write_bytes(keys)  # it died between the answer's file and the end of this one
    (folder / f".{pending.name}.{'0' * 16}").write_bytes(keys)  # and another time before a file took its place
    world.answer(0, UNMASK, world.exchange.ask(0))
    assert {path.suffixes[0] for path in folder.iterdir() if path.name != "lock"} == {".opened"}


def test_keys_are_fresh_for_every_session_and_request(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(4, 3))
    keys = []
    for session, request in itertools.product(("a", "b"), ("run/1", "run/2")):
        keys += world.holder(0, session, request).answer(KEYS, [], FORM, lambda _: world.ballots[0])
    assert len({key.tobytes() for three in keys for key in three}) == 12


@pytest.mark.parametrize(
    ("stage", "change", "words"),
    [
        (SHARES, lambda a: [a[0], np.stack([a[1][0], a[1][2], *a[1][2:]])], "two public keys are the same"),
        (SHARES, lambda a: [a[0][:4], a[1][:4]], "4 clients are listed, min_clients asks for 5"),
        (SHARES, lambda a: [np.array([0, 1, 2, 3, 4, 9]), a[1]], "not of this run"),
        (SHARES, lambda a: [np.array([-1, 0, 1, 2, 3, 4]), a[1]], "not of this run"),
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
    world = World(tmp_path, make_plan(6, 5))
    while world.exchange.stage != stage:
        world.step()
    good = world.exchange.ask(0)
    bad = [
        np.asarray(array, dtype=like.dtype) if array.ndim == 1 else array
        for array, like in zip(change(good), good, strict=False)
    ]
    with pytest.raises(SecaggError, match=words):
        world.answer(0, stage, bad)
    world.step()  # a refusal changes nothing: the right message is answered


def test_stages_cannot_be_skipped_or_asked_twice_in_other_words(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(3, 3))
    with pytest.raises(SecaggError, match="no keys for"):
        world.answer(0, MASKED, [])
    world.step()
    ask = world.exchange.ask(0)
    with pytest.raises(SecaggError, match="before its time"):
        world.answer(0, MASKED, ask)
    first = world.answer(0, SHARES, ask)
    assert all(np.array_equal(x, y) for x, y in zip(first, world.answer(0, SHARES, ask), strict=True))
    with pytest.raises(SecaggError, match="another 'shares' message"):
        world.answer(0, SHARES, [ask[0][::-1].copy(), ask[1][::-1].copy()])
    with pytest.raises(SecaggError, match="before its time"):
        world.answer(0, CONFIRM, [ask[0]])
    with pytest.raises(SecaggError, match="no keys for"):
        world.answer(0, SHARES, ask, session="another")


def test_the_same_masked_message_gets_the_same_bytes(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(3, 3))
    world.step(), world.step()
    first, again = (world.answer(0, MASKED, world.exchange.ask(0))[0] for _ in range(2))
    assert first.tobytes() == again.tobytes()


def test_keys_are_the_owner_s_alone_and_gone_after_the_round(tmp_path: Path) -> None:
    os.umask(0o022)
    world = World(tmp_path, make_plan(3, 3))
    for _ in range(4):
        world.step()
        (path,) = (tmp_path / "0").glob("*.npz")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    secret = {name: array.tobytes() for name, array in read_arrays(path).items()}
    world.step()
    left = b"".join(array.tobytes() for path in (tmp_path / "0").glob("*.npz") for array in read_arrays(path).values())
    for name in ("sealing", "masking", "signing", "seed"):
        assert secret[name] not in left


def test_keys_of_an_exchange_that_never_ended_are_deleted_later(tmp_path: Path) -> None:
    world = World(tmp_path, make_plan(3, 3))
    world.step()
    (old,) = (tmp_path / "0").glob("*.pending.npz")
    new = lambda request: world.holder(0, "s", request).answer(KEYS, [], FORM, lambda _: world.ballots[0])  # noqa: E731
    new("run/2")
    assert old.exists()
    os.utime(old, (time.time() - 2 * ABANDONED_S,) * 2)
    new("run/3")
    assert not old.exists() and len(list((tmp_path / "0").glob("*.pending.npz"))) == 2
