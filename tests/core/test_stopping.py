"""A stop stays a stop, whatever the code that it meets makes of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fedballot.core.stopping import stop_if_asked, stoppable, was_stopped

STOPS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """A process that a shell starts in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _swallowed(how: signal.Signals) -> None:
    with suppress(KeyboardInterrupt):
        os.kill(os.getpid(), how)


@pytest.mark.parametrize("how", STOPS)
def test_an_error_that_a_stop_became_is_a_stop(how: signal.Signals) -> None:
    def archive() -> None:
        try:
            os.kill(os.getpid(), how)
        finally:
            raise ValueError("it closes while it is written")

    with pytest.raises(KeyboardInterrupt) as caught, stoppable():
        try:
            archive()
        except ValueError as error:
            assert was_stopped(error)
            raise
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("how", STOPS)
def test_a_swallowed_stop_is_taken_up(how: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), stoppable():
        stop_if_asked()
        with stoppable():
            _swallowed(how)
        stop_if_asked()
    stop_if_asked()  # the next run knows nothing of it


def test_other_errors_stay_what_they_are() -> None:
    before = [signal.getsignal(how) for how in STOPS]
    with pytest.raises(ValueError, match="ours"), stoppable():
        assert not was_stopped(ValueError())
        raise ValueError("ours")
    assert [signal.getsignal(how) for how in STOPS] == before


def test_who_ignores_ctrl_c_goes_on_to() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stoppable():
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), stoppable():
            os.kill(os.getpid(), signal.SIGTERM)
        stop_if_asked()
    finally:
        signal.signal(signal.SIGINT, before)
