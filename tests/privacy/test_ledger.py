"""The ledger: refusals, repetition, tampering, and crashes of real processes."""

import json
import multiprocessing
import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedballot.errors import DataError, RunError, SettingsError
from fedballot.privacy import gaussian
from fedballot.privacy.costs import DeltaCost, GaussianCost, IntegerCost, from_plain, to_plain
from fedballot.privacy.ledger import Account, Ledger
from fedballot.privacy.nfdp import NfdpSample
from fedballot.privacy.noise import representable_variance
from fedballot.privacy.randomness import os_noise
from fedballot.privacy.votes import NoisyVotes

ACCOUNT = Account("hospital a", "sha256:1234", "record", "replace-one", epsilon=1.0, delta=1e-5)
COST = GaussianCost(0.1)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path, ACCOUNT)


def draw() -> dict[str, np.ndarray]:
    return {"x": np.frombuffer(os.urandom(16), dtype=np.uint8)}


def test_charges_add_up_and_releases_are_repeated(ledger: Ledger) -> None:
    first = ledger.release("round 1", COST, draw)["x"]
    assert ledger.spent() == pytest.approx(gaussian.epsilon(0.1, 1e-5))
    assert np.array_equal(ledger.release("round 1", COST, draw)["x"], first)
    assert np.array_equal(Ledger(ledger.folder, ACCOUNT).release("round 1", COST, draw)["x"], first)
    ledger.release("round 2", COST, draw)
    assert ledger.spent() == pytest.approx(gaussian.epsilon(0.1 * 2**0.5, 1e-5))
    assert [line["kind"] for line in ledger.lines()] == ["open", "charge", "release", "charge", "release"]
    assert ledger.verify() == 5


def test_the_charge_is_on_disk_before_the_draw_and_the_release_before_the_answer(ledger: Ledger) -> None:
    def looks() -> dict[str, np.ndarray]:
        assert [line["kind"] for line in Ledger(ledger.folder).lines()] == ["open", "charge"]
        return {"x": np.ones(3)}

    ledger.release("round 1", COST, looks)
    assert len(list((ledger.folder / "releases").iterdir())) == 1


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_crash_between_any_two_steps_is_survived(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The steps that touch the disk: charge, store, note. Only dying before the first spends nothing."""
    real, calls = os.replace, []

    def dies(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == step + 1:
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            ledger.release("round 1", COST, draw)
    assert len(ledger.costs()) == (0 if step == 0 else 1)
    first = ledger.release("round 1", COST, draw)["x"]
    assert np.array_equal(ledger.release("round 1", COST, draw)["x"], first)
    assert len(ledger.costs()) == 1 and ledger.verify() == 3


def test_overspending_is_refused_before_anything_is_drawn(ledger: Ledger) -> None:
    def never() -> dict[str, np.ndarray]:
        raise AssertionError("drawn without budget")

    before = ledger.path.read_bytes()
    with pytest.raises(SettingsError, match="budget is 1"):
        ledger.release("too much", GaussianCost(1.0), never)
    with pytest.raises(SettingsError, match="budget"):
        ledger.release("too much", DeltaCost(1e-4), never)
    assert ledger.path.read_bytes() == before
    count = 0
    with pytest.raises(SettingsError, match="budget"):
        for count in range(100):
            ledger.release(f"round {count}", COST, draw)
    assert count == round((gaussian.mu(1.0, 1e-5) / 0.1) ** 2 - 0.5) and ledger.spent() <= 1.0


def test_a_release_solved_for_the_budget_fits_it_exactly(tmp_path: Path) -> None:
    noisy = NoisyVotes.solve(4.3, 1e-3, queries=300, max_votes=165, contributors=100)
    ledger = Ledger(tmp_path, Account("a", "d", "agent", "zero-out", 4.3, 1e-3))
    ledger.release("votes", noisy.cost(), lambda: {"votes": noisy.release(np.zeros((300, 10), int), os_noise())})
    assert ledger.spent() <= 4.3


def test_budget_can_be_changed_on_the_record(ledger: Ledger) -> None:
    ledger.set_budget(5.0)
    assert ledger.account.epsilon == 5.0 and ledger.lines()[-1]["kind"] == "budget"
    ledger.release("large", GaussianCost(0.9), draw)
    with pytest.raises(SettingsError, match="epsilon"):
        Ledger(ledger.folder, ACCOUNT)
    Ledger(ledger.folder, replace(ACCOUNT, epsilon=5.0))
    ledger.set_budget(0.5)
    with pytest.raises(SettingsError, match="budget"):
        ledger.release("small", GaussianCost(1e-3), draw)


@pytest.mark.parametrize(
    "other",
    [
        {"party": "hospital b"},
        {"data": "sha256:9999"},
        {"unit": "agent"},
        {"adjacency": "zero-out"},
        {"epsilon": 2.0},
        {"delta": 1e-6},
        {"accountant": "rdp"},
    ],
)
def test_another_account_is_refused(ledger: Ledger, other: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=next(iter(other))):
        Ledger(ledger.folder, replace(ACCOUNT, **other))  # type: ignore[arg-type]


def test_a_request_means_one_question(ledger: Ledger) -> None:
    ledger.release("round 1", COST, draw)
    with pytest.raises(SettingsError, match="another request"):
        ledger.release("round 1", GaussianCost(0.01), draw)


def test_a_draw_that_fails_stays_charged_and_is_not_charged_twice(ledger: Ledger) -> None:
    def fails() -> dict[str, np.ndarray]:
        raise RunError("no model")

    with pytest.raises(RunError):
        ledger.release("round 1", COST, fails)
    spent = ledger.spent()
    assert spent > 0
    ledger.release("round 1", COST, draw)
    assert ledger.spent() == spent


def test_nfdp_sample_is_drawn_once(tmp_path: Path) -> None:
    account = Account("a", "d", "record", "add-remove", 0.0, 0.1)
    first = Ledger(tmp_path, account).sample(NfdpSample(2880, 60), os_noise())
    assert np.array_equal(Ledger(tmp_path, account).sample(NfdpSample(2880, 60), os_noise()), first)
    with pytest.raises(SettingsError):
        Ledger(tmp_path, account).sample(NfdpSample(2880, 61), os_noise())
    assert len(Ledger(tmp_path).costs()) == 1


EDITS = {
    "half a line at the end": lambda text: text[:-20],
    "last line break gone": lambda text: text[:-1],
    "cost made smaller": lambda text: text.replace('"mu": 0.1', '"mu": 0.01', 1),
    "charge removed": lambda text: "".join(line for line in text.splitlines(True) if '"round 1"' not in line),
    "last lines cut off": lambda text: "".join(text.splitlines(True)[:3]),
    "beginning cut off": lambda text: "".join(text.splitlines(True)[1:]),
    "lines swapped": lambda text: "".join(text.splitlines(True)[i] for i in (0, 3, 2, 1, 4)),
    "not json": lambda text: text + "hello\n",
    "not an object": lambda text: text + "3\n",
    "emptied": lambda text: "",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_torn_or_edited_file_is_refused(ledger: Ledger, edit) -> None:
    ledger.release("round 1", COST, draw)
    ledger.release("round 2", COST, draw)
    ledger.path.write_text(edit(ledger.path.read_text()))
    with pytest.raises(DataError, match="line"):
        ledger.release("round 3", COST, draw)
    with pytest.raises(DataError, match="line"):
        Ledger(ledger.folder, ACCOUNT)


def test_a_ledger_that_was_deleted_does_not_start_afresh(ledger: Ledger) -> None:
    ledger.release("round 1", COST, draw)
    ledger.path.unlink()
    with pytest.raises(DataError, match="gone"):
        Ledger(ledger.folder, ACCOUNT)


def test_lost_and_exchanged_releases_are_noticed(ledger: Ledger) -> None:
    ledger.release("round 1", COST, draw)
    stored = next((ledger.folder / "releases").iterdir())
    content = stored.read_bytes()
    stored.write_bytes(content[:-1] + b"?")
    with pytest.raises(DataError, match="not the release"):
        ledger.verify()
    stored.unlink()
    with pytest.raises(DataError, match="is gone"):
        ledger.release("round 1", COST, draw)


def test_head_changes_with_every_line(ledger: Ledger) -> None:
    before = ledger.head
    ledger.release("round 1", COST, draw)
    assert ledger.head != before


def test_nothing_is_pickled(ledger: Ledger) -> None:
    with pytest.raises(DataError, match="objects"):
        ledger.release("round 1", COST, lambda: {"x": np.array([{}], dtype=object)})


def test_opening_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no ledger"):
        Ledger(tmp_path)
    with pytest.raises(SettingsError, match="unit"):
        replace(ACCOUNT, unit="family")  # type: ignore[arg-type]


def test_costs_survive_writing() -> None:
    for cost in (COST, DeltaCost(0.1), IntegerCost(3.0, 9, float(representable_variance(7.3)) ** 0.5, 4, True)):
        assert from_plain(json.loads(json.dumps(to_plain(cost)))) == cost
    for bad in ({"type": "FreeCost"}, {"type": "GaussianCost"}, {"type": "GaussianCost", "mu": -1}, {}):
        with pytest.raises(DataError):
            from_plain(bad)


def test_verify_refuses_a_cost_of_another_version(ledger: Ledger) -> None:
    with ledger._locked():
        ledger._append(ledger.lines(), {"kind": "charge", "request": "round 1", "cost": {"type": "NewCost"}})
    with pytest.raises(DataError, match="NewCost"):
        ledger.verify()


def test_a_busy_ledger_is_not_waited_for_for_ever(ledger: Ledger) -> None:
    impatient = Ledger(ledger.folder, ACCOUNT, wait=0.05)
    with pytest.raises(RunError, match="another process"):
        ledger.release("outer", COST, lambda: impatient.release("inner", COST, draw))


def test_who_reads_while_another_releases_sees_a_whole_ledger(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def slow(path: Path, **kwargs: str) -> str:
        text = read(path, **kwargs)
        monkeypatch.setattr(Path, "read_text", read)
        ledger.release("in between", COST, draw)
        return text

    ledger.release("before", COST, draw)
    monkeypatch.setattr(Path, "read_text", slow)
    assert [line["kind"] for line in Ledger(ledger.folder).lines()][-1] == "release"
    assert ledger.stored("in between") is not None


def write(folder: Path, name: str, charges: int, seen: Path) -> None:
    """What each writer does: release after release, telling what it got only once it has it."""
    ledger = Ledger(folder, Account("party", "data", "record", "replace-one", 50.0, 1e-5))
    with seen.open("ab", buffering=0) as told:
        for number in range(charges):
            request = f"{name} {number}"
            out = ledger.release(request, GaussianCost(0.05), draw)
            told.write(f"{request} {out['x'].tobytes().hex()}\n".encode())
            time.sleep(0.005)  # so that a fast disk leaves time for being killed


@pytest.mark.slow
def test_kill_9_never_hides_spending(tmp_path: Path) -> None:
    """Two writers at once, 100 charges each, killed at random points and started again until both are through."""
    rng = random.Random(5)
    folder, seen = tmp_path / "ledger", tmp_path / "seen"
    context = multiprocessing.get_context("fork")

    def start(name: str) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=write, args=(folder, name, 100, seen))
        process.start()
        return process

    writers = {name: start(name) for name in ("a", "b")}
    kills, deadline = 0, time.monotonic() + 300  # a disk that is busy with other tests syncs slowly
    try:
        while writers and time.monotonic() < deadline:
            time.sleep(rng.uniform(0.001, 0.02))
            for name, process in list(writers.items()):
                if not process.is_alive():
                    assert process.exitcode == 0
                    del writers[name]
                elif kills < 40 and rng.random() < 0.5:
                    process.kill()
                    process.join()
                    assert process.exitcode in (-signal.SIGKILL, 0)
                    kills += 1
                    writers[name] = start(name)
    finally:
        for process in writers.values():
            process.kill()
            process.join()
    assert not writers and kills >= 10
    ledger = Ledger(folder)
    ledger.verify()
    charges = [line["request"] for line in ledger.lines() if line["kind"] == "charge"]
    assert sorted(charges) == sorted(f"{name} {number}" for name in "ab" for number in range(100))
    assert ledger.spent() == pytest.approx(gaussian.epsilon(0.05 * 200**0.5, 1e-5))
    told: dict[str, set[str]] = {}
    for line in seen.read_text().splitlines():
        request, value = line.rsplit(" ", 1)
        told.setdefault(request, set()).add(value)
    assert len(told) == 200 and all(len(values) == 1 for values in told.values())
