"""Older ledgers and copies: heads that a chain no longer holds, copies under load, and what a lost span is charged."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.privacy import accounting
from fedballot.privacy.accounting import GaussianCost, gaussian
from fedballot.privacy.ledger import Account, BudgetError, Ledger, Lost, RequestError, Version
from fedballot.privacy.ledger.copies import back_up
from fedballot.privacy.ledger.lock import take
from fedballot.privacy.ledger.restore import give_up_heads, plan_restoration, restore
from fedballot.privacy.ledger.samples import sample_once
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.noise.randomness import os_noise
from fedballot.studies.ledger_view import restoration_words, view

ACCOUNT = Account("hospital a", "patients of 2020", "record", "replace-one", epsilon=1.0, delta=1e-5)
COSTS = {"x": GaussianCost(0.1)}
ONE = gaussian.epsilon(0.1, 1e-5)


def draw() -> dict[str, np.ndarray]:
    return {"x": np.frombuffer(os.urandom(16), dtype=np.uint8)}


def charge(ledger: Ledger, *names: str) -> str:
    """The head after these releases."""
    for name in names:
        ledger.release(name, COSTS, draw, digest="d")
    return ledger.head


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger", ACCOUNT)
    charge(made, "1")
    return made


def put_back(backup: Path, folder: Path, **known) -> Ledger:
    restore(plan_restoration(backup, folder, **known))
    return Ledger(folder)


def test_each_part_is_charged(ledger: Ledger) -> None:
    before = ledger.spent()
    ledger.release("2", {**COSTS, "y": GaussianCost(0.15)}, lambda: {**draw(), "y": np.ones(2)}, digest="d")
    assert before < gaussian.epsilon(0.15, 1e-5) < ledger.spent() and len(ledger.costs()) == 3


def test_a_head_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ledgers that say the same have no head in common."""
    heads = set()
    for name in ("a", "b"):
        heads |= {line["hash"] for line in Ledger(tmp_path / name, ACCOUNT).lines()}
    assert len(heads) == 2


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(["bind", "budget", "data"]), max_size=6), st.data())
def test_a_chain_holds_every_head_that_it_has_shown_and_an_older_one_does_not(steps, data) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger", ACCOUNT)
        shown, states = [ledger.head], [ledger.path.read_bytes()]
        for number, step in enumerate(steps):
            match step:
                case "bind":
                    ledger.bind(f"r/{number}", "d")
                case "budget":
                    ledger.set_budget(1.0 + number)
                case "data":
                    ledger.register(Version("sha256:1", number))
            shown.append(ledger.head)
            states.append(ledger.path.read_bytes())
        assert ledger.unknown(shown) == []
        back = data.draw(st.integers(0, len(states) - 1))
        ledger.path.write_bytes(states[back])
        assert ledger.unknown(shown) == shown[back + 1 :]


def test_an_older_ledger_and_a_copy_used_in_turn_are_noticed(ledger: Ledger, tmp_path: Path) -> None:
    shutil.copytree(ledger.folder, tmp_path / "copy")
    copy = Ledger(tmp_path / "copy")
    one, other = charge(ledger, "x"), charge(copy, "y")
    assert ledger.unknown([one]) == [] and copy.unknown([one]) == [one] and ledger.unknown([other]) == [other]


def test_a_backup_is_whole_the_owner_s_alone_and_never_overwrites(ledger: Ledger, tmp_path: Path) -> None:
    lines = back_up(ledger, tmp_path / "backups" / "monday")
    copy = Ledger(tmp_path / "backups" / "monday", ACCOUNT)
    assert copy.verify() == lines == ledger.verify() and copy.head == ledger.head
    assert np.array_equal(copy.stored("1")["x"], ledger.stored("1")["x"])  # type: ignore[index]
    assert not any(path.stat().st_mode & 0o077 for path in (copy.folder, copy.folder / "releases"))
    with pytest.raises(SettingsError, match="already there"):
        back_up(ledger, copy.folder)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SettingsError, match="already there"):
        back_up(ledger, tmp_path / "link")


def test_a_broken_ledger_is_not_copied(ledger: Ledger, tmp_path: Path) -> None:
    next((ledger.folder / "releases").iterdir()).write_bytes(b"other")
    with pytest.raises(DataError, match="not the release"):
        back_up(ledger, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_backup_that_cannot_be_finished_leaves_nothing(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        with pytest.raises(OSError, match="No space"):
            back_up(ledger, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"] and ledger.verify()


def test_backups_under_load_are_whole_prefixes(ledger: Ledger, tmp_path: Path) -> None:
    stop = threading.Event()

    def work(name: str) -> None:
        mine, number = Ledger(ledger.folder, ACCOUNT), 0
        while not stop.is_set() and number < 8:
            mine.release(f"{name} {number}", {"x": GaussianCost(0.01)}, draw, digest="d")
            number += 1

    workers = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for worker in workers:
        worker.start()
    copies = []
    try:
        for number in range(4):
            back_up(ledger, tmp_path / f"backup{number}")
            copies.append(Ledger(tmp_path / f"backup{number}"))
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    chain = [line["hash"] for line in ledger.lines()]
    for copy in copies:
        hashes = [line["hash"] for line in copy.lines()]
        assert copy.verify() and hashes == chain[: len(hashes)]


def test_what_is_lost_counts_as_the_whole_limit_and_what_comes_after_adds(ledger: Ledger, tmp_path: Path) -> None:
    back_up(ledger, tmp_path / "backup")
    head = charge(ledger, "lost 1", "lost 2")
    shutil.rmtree(ledger.folder)
    back = put_back(tmp_path / "backup", ledger.folder, heads=[head])
    assert back.unknown([head]) == [] and back.unknown(["f" * 64]) == ["f" * 64]
    assert back.spent() == 1.0 and back.spending().delta == 2e-5, "the limit covers what the backup holds"
    with pytest.raises(BudgetError, match=r"from 1 to 1\.3.* at delta = 2e-05; the budget is 1\. "):
        charge(back, "2")
    assert len(back.stored("1") or {}) == 1, "what was paid for is served for ever"
    back.set_budget(2.0)
    charge(back, "2")
    assert back.spent() == pytest.approx(1.0 + ONE) and back.verify()
    words = dict(view(back).summary())
    assert "all that 1 lost ledger may have told" in words["in words"] and "2e-05" in words["in words"]
    assert words["limit"] == "ε = 2 at δ = 2×10⁻⁵"


def test_what_takes_of_delta_alone_waits_for_the_limit_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", Account("a", "people", "record", "add-remove", 0.0, 0.1))
    sample_once(ledger, NfdpSample(100, 1), os_noise())
    back_up(ledger, tmp_path / "backup")
    shutil.rmtree(ledger.folder)
    back = put_back(tmp_path / "backup", ledger.folder)
    with pytest.raises(BudgetError, match="waits for a limit that is raised on purpose"):
        sample_once(back, NfdpSample(100, 1), os_noise(), version="another")
    assert len(back.costs()) == 1


def test_every_further_loss_adds(ledger: Ledger, tmp_path: Path) -> None:
    back_up(ledger, tmp_path / "monday")
    back = put_back(tmp_path / "monday", tmp_path / "b")
    back.set_budget(3.0)
    charge(back, "2")
    back_up(back, tmp_path / "tuesday")
    shutil.rmtree(back.folder)
    again = put_back(tmp_path / "tuesday", back.folder)
    assert again.spending().lost == (Lost(3.0, 2e-5),) and again.spending().delta == pytest.approx(3e-5)


@pytest.mark.parametrize("how", ["a plain copy", "in place", "a backup that was used"])
def test_charges_that_the_lost_ledger_may_not_have_had_count_beside_it(
    ledger: Ledger, tmp_path: Path, how: str
) -> None:
    """Two copies in turn: the limit of one says nothing of the other."""
    copy = tmp_path / "copy"
    if how == "a backup that was used":
        back_up(ledger, copy)
        charge(Ledger(copy), "own")
    else:
        charge(ledger, "own")
        shutil.copytree(ledger.folder, copy)
    if how != "in place":
        shutil.rmtree(ledger.folder)
    plan = plan_restoration(copy, copy if how == "in place" else ledger.folder)
    restore(plan)
    back = Ledger(plan.folder)
    assert back.spent() == pytest.approx(1.0 + gaussian.epsilon(0.1 * 2**0.5, 1e-5)) and len(back.spending().costs) == 2
    assert "count beside it" in " ".join(restoration_words(plan))


def test_a_higher_limit_of_the_lost_ledger_is_charged(ledger: Ledger, tmp_path: Path) -> None:
    back_up(ledger, tmp_path / "backup")
    ledger.set_budget(7.0)
    ledger.set_budget(2.0)
    shutil.copytree(ledger.folder, tmp_path / "gone")
    (ledger.folder / "ledger.jsonl").write_text(ledger.path.read_text()[:-20])
    told = plan_restoration(tmp_path / "backup", ledger.folder, limit=7.0, delta=1e-4)
    assert told.lost == Lost(7.0, 1e-4)
    assert plan_restoration(tmp_path / "backup", ledger.folder).lost == Lost(1.0, 1e-5), "a torn file tells no limit"


def test_what_is_in_the_way_is_kept_and_its_heads_are_given_up(ledger: Ledger, tmp_path: Path) -> None:
    back_up(ledger, tmp_path / "backup")
    head = charge(ledger, "2")
    ledger.path.write_text(ledger.path.read_text() + "torn")
    plan = plan_restoration(tmp_path / "backup", ledger.folder)
    assert head in plan.heads
    aside = restore(plan)
    assert aside is not None and (aside / "ledger.jsonl").read_text().endswith("torn")
    assert Ledger(ledger.folder).unknown([head]) == []


def test_a_whole_ledger_is_not_replaced_by_its_own_backup(ledger: Ledger, tmp_path: Path) -> None:
    back_up(ledger, tmp_path / "backup")
    for _ in range(2):
        with pytest.raises(SettingsError, match="nothing was lost"):
            plan_restoration(tmp_path / "backup", ledger.folder)
        charge(ledger, "2")


def test_further_heads_of_the_same_loss_cost_nothing_more_until_something_is_charged(
    ledger: Ledger, tmp_path: Path
) -> None:
    back_up(ledger, tmp_path / "backup")
    back = put_back(tmp_path / "backup", tmp_path / "b")
    put_back(back.folder, back.folder, heads=["a" * 64])
    assert back.spent() == 1.0 and back.unknown(["a" * 64]) == []
    back.set_budget(2.0)
    charge(back, "2")
    put_back(back.folder, back.folder, heads=["b" * 64])
    assert back.spent() == pytest.approx(1.0 + 2.0 + ONE), "another loss, at the limit of now"
    with pytest.raises(SettingsError, match="was not restored"):
        give_up_heads(ledger, ["c" * 64])


@pytest.mark.parametrize("head", ["", "abc", "G" * 64, "A" * 64])
def test_what_is_no_head_is_named(ledger: Ledger, tmp_path: Path, head: str) -> None:
    with pytest.raises(SettingsError, match="--lost-head"):
        plan_restoration(ledger.folder, tmp_path / "b", heads=[head])


def test_a_sum_that_may_have_been_opened_in_lost_lines_stays_shut(ledger: Ledger, tmp_path: Path) -> None:
    """Else two sums of the same ballot differ by the other clients' only."""
    back_up(ledger, tmp_path / "backup")
    ledger.open("1", "session")
    shutil.rmtree(ledger.folder)
    back = put_back(tmp_path / "backup", ledger.folder)
    with pytest.raises(RequestError, match="restored"):
        back.open("1", "another session")
    back.open("2", "session")
    assert back.opened("2") == "session"


def test_a_waiter_for_the_old_folder_s_lock_does_not_write_beside_the_new_one(ledger: Ledger, tmp_path: Path) -> None:
    back_up(ledger, tmp_path / "backup")
    waiter, path = Ledger(ledger.folder), ledger.folder / "ledger.lock"
    with path.open("a") as old:  # a waiter has opened it, and not got it yet
        with ledger.locked():
            assert not take(path, old.fileno())
            ledger.path.write_text("torn")
            restore(plan_restoration(tmp_path / "backup", ledger.folder))
        with Ledger(ledger.folder).locked():
            assert not take(path, old.fileno())  # it is free now, and holds nobody off
            impatient = Ledger(ledger.folder, wait=0.05)
            with pytest.raises(RunError, match="another process"), impatient.locked():
                pass
    with waiter.locked():
        assert waiter.lines() == ledger.lines()


def _restore_dying(backup: Path, folder: Path, step: int) -> None:
    calls, real = [], os.rename

    def dies(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == step:
            os._exit(9)
        real(source, target)

    os.rename = dies  # type: ignore[assignment]
    restore(plan_restoration(backup, folder))


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_restoration_that_is_killed_can_be_done_again(ledger: Ledger, tmp_path: Path, step: int) -> None:
    """Killed before the copy has its name, before the old folder is moved, before the new one takes its place."""
    back_up(ledger, tmp_path / "backup")
    ledger.path.write_text(ledger.path.read_text() + "torn")
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_restore_dying, args=(tmp_path / "backup", ledger.folder, step))
    process.start()
    process.join()
    assert process.exitcode == 9
    with pytest.raises((DataError, SettingsError)):
        Ledger(ledger.folder)
    back = put_back(tmp_path / "backup", ledger.folder)
    assert back.spent() == 1.0 and back.verify() and not Ledger(tmp_path / "backup").spending().lost


def test_versions_are_told_in_words(ledger: Ledger) -> None:
    ledger.register(Version("sha256:aa", 300), "as first found")
    assert "versions" not in dict(view(ledger).summary())["in words"]
    ledger.register(Version("sha256:bb", 301), "one label corrected")
    found = view(ledger)
    assert "over 2 versions of the data" in dict(found.summary())["in words"]
    assert "301 records, sha256:bb: one label corrected" in [entry.cost for entry in found.entries]
    assert found.spent == pytest.approx(accounting.epsilon([*COSTS.values()], 1e-5))
