"""Work at a site that would take too long ends, in the main thread and in others, in real training loops."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from fedballot.deploy.time_limit import TimeLimitError, time_limit
from fedballot.learners.registry import make_learner

LONGEST_S = 20.0  # for what ends after half a second, on a machine that does other work


def in_thread(work: Callable[[], None]) -> None:
    """Run in another thread, and raise here what is raised there."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if caught:
        raise caught[0]


def in_main(work: Callable[[], None]) -> None:
    work()


def train(name: str) -> None:
    """Training that takes hours, or a minute where a library stops when nothing gets better."""
    x = np.random.default_rng(0).random((100_000, 20), dtype=np.float32)
    y = np.arange(100_000) % 3
    learner = make_learner(
        name, n_classes=3, input_shape=(20,), seed=0, epochs=10**9, batch_size=32, lr=1e-9, role="client"
    )
    learner.fit(x, y)


def swallow() -> None:
    """A library that catches whatever is raised and goes on."""
    for _ in range(2):
        with contextlib.suppress(Exception):
            while True:
                time.sleep(0.01)


@pytest.mark.parametrize("where", [in_main, in_thread])
@pytest.mark.parametrize("name", ["mlp", "mlp-torch"])
def test_a_training_that_takes_too_long_ends(where: Callable[..., None], name: str) -> None:
    if name == "mlp-torch":
        pytest.importorskip("torch")
        make_learner(name, n_classes=3, input_shape=(20,), seed=0, epochs=1, batch_size=1, lr=1)

    def work() -> None:
        with time_limit(0.5):
            train(name)

    began = time.monotonic()
    with pytest.raises(TimeLimitError, match="longest_training_s"):
        where(work)
    assert time.monotonic() - began < LONGEST_S


@pytest.mark.parametrize("where", [in_main, in_thread])
def test_work_that_ends_in_time_is_left_alone(where: Callable[..., None]) -> None:
    done = []

    def work() -> None:
        with time_limit(0.2):
            done.append("inside")
        for _ in range(30):
            time.sleep(0.02)
        done.append("after")

    where(work)
    assert done == ["inside", "after"]


@pytest.mark.parametrize("where", [in_main, in_thread])
def test_an_error_of_the_work_itself_passes(where: Callable[..., None]) -> None:
    def work() -> None:
        with time_limit(30):
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        where(work)


@pytest.mark.parametrize("where", [in_main, in_thread])
def test_work_that_swallows_the_error_does_not_get_away_with_it(where: Callable[..., None]) -> None:
    left = []

    def work() -> None:
        with time_limit(0.2):
            swallow()
            left.append("still inside")

    with pytest.raises(TimeLimitError):
        where(work)
    assert left in ([], ["still inside"])


@pytest.mark.parametrize("where", [in_main, in_thread])
def test_work_that_is_over_time_fails_on_leaving_if_nothing_reached_it(where: Callable[..., None]) -> None:
    """As with one long call into C: its end is the first moment at which an error can be raised."""

    def work() -> None:
        with time_limit(0.2):
            sum(range(60_000_000))

    with pytest.raises(TimeLimitError):
        where(work)


def test_the_sooner_of_two_limits_ends_the_work_and_timers_are_put_back() -> None:
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append("outer timer"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        with time_limit(0.1), contextlib.suppress(TimeLimitError):
            pass
        time.sleep(0.6)
        assert seen == ["outer timer"]
        with pytest.raises(TimeLimitError), time_limit(0.2), time_limit(30):
            time.sleep(10)
        with pytest.raises(TimeLimitError), time_limit(30), time_limit(0.2):
            time.sleep(10)
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


CALL = """
import threading
from fedballot.deploy.time_limit import time_limit
def work():
    with time_limit(0.5, grace_s=1.0):
        sum(range(10**13))  # one call into C that lets no other thread run
where = {where!r}
if where == "thread":
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
else:
    work()
print("never here")
"""


@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_call_into_c_that_does_not_return_ends_with_its_process(where: str) -> None:
    done = subprocess.run([sys.executable, "-c", CALL.format(where=where)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "never" not in done.stdout
    assert "Timeout" in done.stderr


def test_a_process_is_not_ended_after_the_block() -> None:
    with time_limit(0.2, grace_s=0.2):
        pass
    time.sleep(0.8)


def test_an_error_that_stands_for_the_end_of_the_time_is_told_as_that() -> None:
    """A library that wraps whatever is raised in it, as those that build learners do."""
    with pytest.raises(TimeLimitError), time_limit(0.05):
        try:
            while True:
                pass
        except Exception as error:
            raise ValueError("cannot be built") from error
    with pytest.raises(ValueError, match="early"), time_limit(60):
        raise ValueError("early")


def test_a_time_that_is_over_at_once_leaves_no_alarm() -> None:
    before = signal.getsignal(signal.SIGALRM)
    for _ in range(50):
        with pytest.raises(TimeLimitError), time_limit(1e-6):
            time.sleep(0.01)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0) and signal.getsignal(signal.SIGALRM) == before
