"""The ledger: refusals, repetition, tampering, and crashes of real processes."""

import doctest
import hashlib
import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.privacy.accounting import Cost, DeltaCost, GaussianCost, IntegerCost, from_plain, gaussian, to_plain
from fedballot.privacy.ledger import FORMAT, Account, BudgetError, Ledger, Line, RequestError, Version, chain
from fedballot.privacy.ledger import account as account_module
from fedballot.privacy.ledger import ledger as ledger_module
from fedballot.privacy.ledger.samples import sample_once
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.noise.randomness import os_noise
from fedballot.privacy.noise.samplers import representable_variance

ACCOUNT = Account("hospital a", "sha256:1234", "record", "replace-one", epsilon=1.0, delta=1e-5)
COST = GaussianCost(0.1)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path, ACCOUNT)


Draw = Callable[[], dict[str, np.ndarray]]


def draw() -> dict[str, np.ndarray]:
    return {"x": np.frombuffer(os.urandom(16), dtype=np.uint8)}


def never() -> dict[str, np.ndarray]:
    raise AssertionError("drawn")


def tell(ledger: Ledger, request: str, cost: Cost = COST, drawn: Draw = draw, digest: str = "asked") -> np.ndarray:
    """A release of one part."""
    return ledger.release(request, {"x": cost}, drawn, digest=digest)["x"]


def kinds(ledger: Ledger) -> list[str]:
    return [line["kind"] for line in ledger.lines()]


def test_charges_add_up_and_releases_are_repeated(ledger: Ledger) -> None:
    first = tell(ledger, "round 1")
    assert ledger.spent() == pytest.approx(gaussian.epsilon(0.1, 1e-5))
    assert np.array_equal(tell(ledger, "round 1"), first)
    assert np.array_equal(tell(Ledger(ledger.folder, ACCOUNT), "round 1"), first)
    tell(ledger, "round 2")
    assert ledger.spent() == pytest.approx(gaussian.epsilon(0.1 * 2**0.5, 1e-5))
    assert kinds(ledger) == ["open", "charge", "release", "charge", "release"]
    assert ledger.verify() == 5


def test_the_charge_is_on_disk_before_the_draw_and_the_release_before_the_answer(ledger: Ledger) -> None:
    def looks() -> dict[str, np.ndarray]:
        assert kinds(Ledger(ledger.folder)) == ["open", "charge"]
        assert not list((ledger.folder / "releases").iterdir())
        return {"x": np.ones(3)}

    tell(ledger, "round 1", drawn=looks)
    assert len(list((ledger.folder / "releases").iterdir())) == 1


STEPS = ("bind", "charge", "store", "note")  # each is one file put in place


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(4), ids=STEPS)
def test_a_crash_between_any_two_steps_is_survived(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    """Dying before or after any step: only what died before the charge was on disk spent nothing."""
    real, calls, drawn = os.replace, [], []

    def dies(source: Path, target: Path) -> None:
        calls.append(target)
        if after or len(calls) <= step:
            real(source, target)
        if len(calls) == step + 1:
            raise KeyboardInterrupt

    def noted() -> dict[str, np.ndarray]:
        drawn.append(draw())
        return drawn[-1]

    def asked(one: Ledger) -> np.ndarray:
        one.bind("round 1", "asked")
        return tell(one, "round 1", drawn=noted)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            asked(ledger)
    done = step + after  # steps that are on disk
    assert len(calls) == step + 1
    assert len(ledger.costs()) == (done >= 2)
    assert (ledger.digest("round 1") is None) == (done == 0)
    if done:
        with pytest.raises(RequestError):
            tell(ledger, "round 1", digest="another")
    first = asked(Ledger(ledger.folder, ACCOUNT))
    assert np.array_equal(asked(ledger), first)
    assert len(drawn) == (2 if step == 2 and not after else 1)  # what is stored is not drawn again
    assert np.array_equal(drawn[-1]["x"], first)
    assert kinds(ledger) == ["open", "request", "charge", "release"] and ledger.verify() == 4


def test_overspending_is_refused_before_anything_is_drawn(ledger: Ledger) -> None:
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetError, match="budget is 1"):
        tell(ledger, "too much", GaussianCost(1.0), never)
    with pytest.raises(BudgetError, match="budget is 1"):
        ledger.admit("too much", {"x": GaussianCost(1.0)}, "asked")
    with pytest.raises(BudgetError, match="budget"):  # two that fit one by one
        ledger.release("too much", {"x": GaussianCost(0.2), "y": GaussianCost(0.2)}, never, digest="asked")
    with pytest.raises(BudgetError, match="budget"):
        tell(ledger, "too much", DeltaCost(1e-4), never)
    assert ledger.path.read_bytes() == before
    count = 0
    with pytest.raises(BudgetError, match="budget"):
        for count in range(100):
            tell(ledger, f"round {count}")
    assert count == round((gaussian.mu(1.0, 1e-5) / 0.1) ** 2 - 0.5) and ledger.spent() <= 1.0


def test_a_release_solved_for_the_budget_fits_it_exactly(tmp_path: Path) -> None:
    noisy = NoisyVotes.solve(4.3, 1e-3, queries=300, max_votes=165, min_clients=100)
    ledger = Ledger(tmp_path, Account("a", "d", "client", "zero-out", 4.3, 1e-3))
    votes = np.zeros((300, 10), int)
    ledger.release(
        "votes", {"votes": noisy.cost()}, lambda: {"votes": noisy.release(votes, os_noise())}, digest="asked"
    )
    assert ledger.spent() <= 4.3


def test_budget_can_be_changed_on_the_record(ledger: Ledger) -> None:
    ledger.set_budget(5.0)
    assert ledger.account.epsilon == 5.0 and ledger.lines()[-1]["kind"] == "budget"
    tell(ledger, "large", GaussianCost(0.9))
    with pytest.raises(SettingsError, match="epsilon"):
        Ledger(ledger.folder, ACCOUNT)
    Ledger(ledger.folder, replace(ACCOUNT, epsilon=5.0))
    ledger.set_budget(0.5)
    with pytest.raises(BudgetError, match="budget"):
        tell(ledger, "small", GaussianCost(1e-3))


@pytest.mark.parametrize(
    "other",
    [
        {"client": "hospital b"},
        {"population": "sha256:9999"},
        {"unit": "client"},
        {"adjacency": "zero-out"},
        {"epsilon": 2.0},
        {"delta": 1e-6},
        {"accountant": "rdp"},
    ],
)
def test_another_account_is_refused(ledger: Ledger, other: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=next(iter(other))):
        Ledger(ledger.folder, replace(ACCOUNT, **other))  # type: ignore[arg-type]


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "bound alone"])
@pytest.mark.parametrize(
    ("cost", "digest"),
    [(COST, "another"), (GaussianCost(0.01), "another"), (GaussianCost(0.01), "asked"), (GaussianCost(0.2), "asked")],
)
def test_a_request_means_one_question(ledger: Ledger, cost: Cost, digest: str, answered: bool) -> None:
    ledger.bind("round 1", "asked")
    if answered:
        tell(ledger, "round 1")
    before = ledger.path.read_bytes()
    if digest == "asked" and not answered:
        ledger.admit("round 1", {"x": cost}, digest)  # nothing was charged yet, and the question is the same
        return
    for again in (
        lambda: ledger.admit("round 1", {"x": cost}, digest),
        lambda: tell(ledger, "round 1", cost, never, digest),
    ):
        with pytest.raises(RequestError, match="another request"):
            again()
    if digest != "asked":
        with pytest.raises(RequestError, match="another request"):
            ledger.bind("round 1", digest)
    assert ledger.path.read_bytes() == before


def test_a_part_more_or_less_is_another_question(ledger: Ledger) -> None:
    costs = {"x": COST, "y": GaussianCost(0.05)}
    ledger.release("round 1", costs, lambda: {**draw(), "y": np.ones(2)}, digest="asked")
    assert ledger.costs() == [COST, GaussianCost(0.05)]
    for other in ({"x": COST}, {"z": COST, "y": costs["y"]}, {**costs, "z": COST}, {"x": costs["y"], "y": COST}):
        with pytest.raises(RequestError, match="another request"):
            ledger.release("round 1", other, never, digest="asked")
    assert ledger.costs() == [COST, GaussianCost(0.05)]


def test_binding_is_noted_once_and_charges_nothing(ledger: Ledger) -> None:
    assert ledger.digest("round 1") is None
    ledger.bind("round 1", "asked")
    ledger.bind("round 1", "asked")
    assert kinds(ledger) == ["open", "request"] and ledger.costs() == [] and ledger.spent() == 0
    assert Ledger(ledger.folder).digest("round 1") == "asked"
    tell(ledger, "round 2", digest="else")  # a charge binds too
    assert ledger.digest("round 2") == "else" and ledger.lines()[2]["digest"] == "else"


@pytest.mark.parametrize("out", [{}, {"y": np.ones(2)}, {"x": np.ones(2), "y": np.ones(2)}])
def test_what_comes_out_is_what_was_charged(ledger: Ledger, out: dict[str, np.ndarray]) -> None:
    with pytest.raises(RunError, match=r"was charged for x, but .* came out; it is not released"):
        tell(ledger, "round 1", drawn=lambda: out)
    assert kinds(ledger) == ["open", "charge"] and ledger.stored("round 1") is None
    assert not list((ledger.folder / "releases").iterdir())
    with pytest.raises(RunError, match="not released"):
        ledger.release("round 2", {"x": COST}, draw, digest="asked", uncharged=["plain"])


def test_parts_without_a_charge_and_seeded_noise_are_told_beside_the_charge(ledger: Ledger) -> None:
    def both() -> dict[str, np.ndarray]:
        return {**draw(), "plain": np.ones(2)}

    ledger.release("round 1", {"x": COST}, both, digest="asked", uncharged=["plain"], seeded=True)
    tell(ledger, "round 2")
    first, second = (line for line in ledger.lines() if line["kind"] == "charge")
    assert (first["uncharged"], first["seeded"]) == (["plain"], True)
    assert not {"uncharged", "seeded"} & second.keys() and ledger.costs() == [COST, COST]


def test_a_draw_that_fails_stays_charged_and_is_not_charged_twice(ledger: Ledger) -> None:
    def fails() -> dict[str, np.ndarray]:
        raise RunError("no model")

    with pytest.raises(RunError, match="no model"):
        tell(ledger, "round 1", drawn=fails)
    spent = ledger.spent()
    assert spent > 0
    with pytest.raises(RequestError):  # and cannot be had under another question for the same charge
        tell(ledger, "round 1", digest="another")
    tell(ledger, "round 1")
    assert ledger.spent() == spent


def test_nfdp_sample_is_drawn_once(tmp_path: Path) -> None:
    account = Account("a", "d", "record", "add-remove", 0.0, 0.1)
    first = sample_once(Ledger(tmp_path, account), NfdpSample(2880, 60), os_noise())
    assert np.array_equal(sample_once(Ledger(tmp_path, account), NfdpSample(2880, 60), os_noise()), first)
    for other in (NfdpSample(2880, 61), NfdpSample(2881, 60), NfdpSample(2880, 60, replacement=False)):
        with pytest.raises(RequestError):
            sample_once(Ledger(tmp_path, account), other, os_noise())
    assert len(Ledger(tmp_path).costs()) == 1


def test_nfdp_sample_of_another_version_is_another_one_at_a_charge_of_its_own(tmp_path: Path) -> None:
    sample = NfdpSample(2880, 60)
    ledger = Ledger(tmp_path, Account("a", "d", "record", "add-remove", 0.0, 2.5 * sample.delta))
    first, second = (sample_once(ledger, sample, os_noise(), version=name) for name in ("one", "two"))
    assert not np.array_equal(first, second)
    assert np.array_equal(sample_once(ledger, sample, os_noise(), version="one"), first)
    assert ledger.costs() == [sample.cost()] * 2
    with pytest.raises(BudgetError):
        sample_once(ledger, sample, os_noise(), version="three")


def test_nfdp_sample_is_charged_at_least_its_own_cost(tmp_path: Path) -> None:
    ledger, sample = Ledger(tmp_path, Account("a", "d", "record", "add-remove", 0.0, 0.9)), NfdpSample(2880, 60)
    with pytest.raises(SettingsError, match="the sample's own is"):
        sample_once(ledger, sample, os_noise(), DeltaCost(0.99 * sample.delta))
    assert ledger.costs() == []
    sample_once(ledger, sample, os_noise(), NfdpSample(100, 60).cost())
    assert ledger.costs() == [NfdpSample(100, 60).cost()]


EDITS = {
    "half a line at the end": lambda text: text[:-20],
    "last line break gone": lambda text: text[:-1],
    "cost made smaller": lambda text: text.replace('"mu": 0.1', '"mu": 0.01', 1),
    "charge removed": lambda text: "".join(line for line in text.splitlines(True) if '"round 1"' not in line),
    "last lines cut off": lambda text: "".join(text.splitlines(True)[:3]),
    "beginning cut off": lambda text: "".join(text.splitlines(True)[1:]),
    "lines swapped": lambda text: "".join(text.splitlines(True)[i] for i in (0, 3, 2, 1, 4)),
    "digest changed": lambda text: text.replace('"asked"', '"other"', 1),
    "not json": lambda text: text + "hello\n",
    "not an object": lambda text: text + "3\n",
    "emptied": lambda text: "",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_torn_or_edited_file_is_refused(ledger: Ledger, edit) -> None:
    tell(ledger, "round 1")
    tell(ledger, "round 2")
    time.sleep(0.02)  # longer than a tick of the file system's clock: some edits leave the size as it is
    ledger.path.write_text(edit(ledger.path.read_text()))
    with pytest.raises(DataError, match="line"):
        tell(ledger, "round 3")
    with pytest.raises(DataError, match="line"):
        Ledger(ledger.folder, ACCOUNT)


def test_a_ledger_that_was_deleted_does_not_start_afresh(ledger: Ledger) -> None:
    tell(ledger, "round 1")
    ledger.path.unlink()
    with pytest.raises(DataError, match="gone"):
        Ledger(ledger.folder, ACCOUNT)


def test_lost_and_exchanged_releases_are_noticed(ledger: Ledger) -> None:
    tell(ledger, "round 1")
    stored = next((ledger.folder / "releases").iterdir())
    content = stored.read_bytes()
    stored.write_bytes(content[:-1] + b"?")
    with pytest.raises(DataError, match="not the release"):
        ledger.verify()
    stored.unlink()
    with pytest.raises(DataError, match="is gone"):
        tell(ledger, "round 1")


def test_head_changes_with_every_line(ledger: Ledger) -> None:
    before = ledger.head
    tell(ledger, "round 1")
    assert ledger.head != before


def test_nothing_is_pickled(ledger: Ledger) -> None:
    with pytest.raises(DataError, match="objects"):
        tell(ledger, "round 1", drawn=lambda: {"x": np.array([{}], dtype=object)})


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
    with ledger.locked():
        body = {"kind": "charge", "request": "round 1", "digest": "asked", "costs": {"x": {"type": "NewCost"}}}
        ledger.append(ledger.read(), body)
    with pytest.raises(DataError, match="NewCost"):
        ledger.verify()


def test_a_busy_ledger_is_not_waited_for_for_ever(ledger: Ledger) -> None:
    impatient = Ledger(ledger.folder, ACCOUNT, wait=0.05)
    with ledger.locked(), pytest.raises(RunError, match="another process"):
        tell(impatient, "round 1", drawn=never)
    assert kinds(ledger) == ["open"]


def test_nobody_waits_while_another_draws(ledger: Ledger) -> None:
    """A draw may train for hours: another process is served meanwhile, and of two draws only the first is told."""
    context = multiprocessing.get_context("fork")
    draws, go_on, told = context.Event(), context.Event(), context.SimpleQueue()

    def slow() -> dict[str, np.ndarray]:
        draws.set()
        assert go_on.wait(60)
        return {"x": np.zeros(16, dtype=np.uint8)}

    other = context.Process(target=lambda: told.put(tell(Ledger(ledger.folder), "round 1", drawn=slow)))
    other.start()
    try:
        assert draws.wait(60)
        impatient = Ledger(ledger.folder, ACCOUNT, wait=0.05)
        tell(impatient, "round 2")
        with pytest.raises(RequestError):
            tell(impatient, "round 1", drawn=never, digest="another")
        first = tell(impatient, "round 1")
        go_on.set()
        assert np.array_equal(told.get(), first) and first.any()
        other.join(60)
        assert other.exitcode == 0
    finally:
        other.kill()
        other.join()
    assert np.array_equal(tell(ledger, "round 1", drawn=never), first)
    assert kinds(ledger) == ["open", "charge", "charge", "release", "release"]
    assert ledger.costs() == [COST, COST] and ledger.verify() == 5


def test_who_reads_while_another_releases_sees_a_whole_ledger(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_bytes

    def slow(path: Path) -> bytes:
        content = read(path)
        monkeypatch.setattr(Path, "read_bytes", read)
        tell(ledger, "in between")
        return content

    tell(ledger, "before")
    monkeypatch.setattr(Path, "read_bytes", slow)
    assert [line["kind"] for line in Ledger(ledger.folder).lines()][-1] == "release"
    assert ledger.stored("in between") is not None


def test_versions_of_the_data_are_noted_and_what_was_spent_stays(ledger: Ledger) -> None:
    assert ledger.version() is None
    ledger.register(Version("sha256:1", 100), "as first found")
    tell(ledger, "round 1")
    spent = ledger.spent()
    ledger.register(Version("sha256:2", 101), "a label was corrected")
    assert Ledger(ledger.folder, ACCOUNT).version() == Version("sha256:2", 101)
    assert kinds(ledger) == ["open", "data", "charge", "release", "data"]
    last = ledger.lines()[-1]
    assert (last["fingerprint"], last["records"], last["note"]) == ("sha256:2", 101, "a label was corrected")
    assert ledger.spent() == spent > 0 and ledger.verify() == 5


def test_a_sum_is_opened_in_one_session_once_and_for_all(ledger: Ledger) -> None:
    assert ledger.opened("round 1") is None
    ledger.open("round 1", "session a")
    ledger.open("round 1", "session a")
    again = Ledger(ledger.folder, ACCOUNT)
    with pytest.raises(RequestError, match="opened before"):
        again.open("round 1", "session b")
    assert again.opened("round 1") == "session a" and again.opened("round 2") is None
    again.open("round 2", "session b")
    assert kinds(ledger) == ["open", "opened", "opened"] and ledger.costs() == []


OPEN = {"kind": "open", "adjacency": "replace-one", "epsilon": 1.0, "delta": 1e-5, "accountant": "exact"}
OLD = {
    1: [
        {**OPEN, "party": "a", "data": "sha256:1", "unit": "record"},
        {"kind": "charge", "request": "round 1", "cost": to_plain(COST)},
    ],
    2: [
        {**OPEN, "format": 2, "party": "a", "population": "sha256:1", "unit": "agent", "salt": "0" * 32},
        {"kind": "charge", "request": "round 1", "digest": "asked", "costs": {"x": to_plain(COST)}, "salt": "1" * 32},
    ],
}


@pytest.mark.parametrize("number", OLD)
def test_a_ledger_of_another_format_is_refused_in_words(tmp_path: Path, number: int) -> None:
    """The first had `data` for `population`, one cost for a charge, no digest; the second `party` for `client`."""
    text, head = "", "0" * 64
    for body in OLD[number]:
        line = {**body, "time": "2026-01-01T00:00:00+00:00"}
        head = hashlib.sha256((head + json.dumps(line, sort_keys=True)).encode()).hexdigest()
        text += json.dumps({**line, "hash": head}) + "\n"
    (tmp_path / "ledger.jsonl").write_text(text)
    for account in (None, ACCOUNT):
        with pytest.raises(DataError, match=f"format {number}, but this version writes and reads {FORMAT}.*by that"):
            Ledger(tmp_path, account)
    assert (tmp_path / "ledger.jsonl").read_text() == text


def test_one_ledger_verifies_its_lines_once_until_another_writes(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(ledger, "before")
    real, contents = chain.parse, []

    def counted(path: Path, content: bytes) -> tuple[Line, ...]:
        contents.append(content)
        return real(path, content)

    monkeypatch.setattr(chain, "parse", counted)
    mine = Ledger(ledger.folder, ACCOUNT)
    mine.bind("round 1", "asked")
    mine.answer(mine.admit("round 1", {"x": COST}, "asked"), draw)
    assert mine.spent() > 0 and mine.head == mine.lines()[-1]["hash"] and len(contents) == 1
    tell(ledger, "round 2")  # which reads what was written beside it, and is read in turn
    assert mine.costs() == [COST] * 3 and len(contents) == 3


def test_an_edit_after_a_ledger_was_verified_is_noticed(ledger: Ledger) -> None:
    tell(ledger, "round 1")
    before, stat = ledger.path.read_text(), ledger.path.stat()
    time.sleep(0.02)
    with ledger.path.open("r+") as stream:  # in place, of the same size and time
        stream.write(before.replace('"mu": 0.1', '"mu": 0.0'))
    os.utime(ledger.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(DataError, match="line 2"):
        ledger.spent()


def test_what_was_admitted_is_looked_up_again_if_others_charged_meanwhile(ledger: Ledger) -> None:
    admission = ledger.admit("round 1", {"x": GaussianCost(0.2)}, "asked")
    assert kinds(ledger) == ["open"]
    tell(Ledger(ledger.folder), "round 2", GaussianCost(0.2))
    with pytest.raises(BudgetError):
        ledger.answer(admission, never)
    again = ledger.admit("round 3", {"x": COST}, "asked")
    Ledger(ledger.folder).bind("round 3", "another")
    with pytest.raises(RequestError):
        ledger.answer(again, never)
    assert ledger.costs() == [GaussianCost(0.2)]


def test_a_cost_that_could_not_be_read_again_is_refused_before_anything_is_charged(ledger: Ledger) -> None:
    @dataclass(frozen=True)
    class Stranger(GaussianCost):
        pass

    with pytest.raises(SettingsError, match="register_cost"):
        tell(ledger, "round 1", Stranger(0.1), never)
    assert kinds(ledger) == ["open"]


def test_the_examples_in_the_documentation() -> None:
    for module in (account_module, ledger_module):
        assert doctest.testmod(module).failed == 0


def write(folder: Path, name: str, charges: int, seen: Path) -> None:
    """What each writer does: release after release, telling what it got only once it has it."""
    ledger = Ledger(folder, Account("client", "population", "record", "replace-one", 50.0, 1e-5))
    with seen.open("ab", buffering=0) as told:
        for number in range(charges):
            request = f"{name} {number}"
            out = tell(ledger, request, GaussianCost(0.05))
            told.write(f"{request} {out.tobytes().hex()}\n".encode())
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
