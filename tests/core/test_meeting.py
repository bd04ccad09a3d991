"""Works in threads that take turns, and wait for each other."""

from __future__ import annotations

import threading

import pytest

from fedballot.core import meeting


def test_one_works_at_a_time_and_all_who_wait_are_served_at_once() -> None:
    busy, served, steps = threading.Lock(), [], []

    def serve(items: list[int]) -> list[int]:
        served.append(items)
        return [10 * item for item in items]

    def work(number: int) -> list[int]:
        out = []
        for _ in range(number):
            assert busy.acquire(blocking=False) and meeting.held()
            steps.append(number)
            busy.release()
            out.append(meeting.join(number, serve))
        return out

    found = meeting.together([lambda n=n: work(n) for n in (2, 0, 3)])
    assert found == [[20, 20], [], [30, 30, 30]]
    assert served == [[2, 3], [2, 3], [3]] and steps == [2, 3, 2, 3, 3]
    assert not meeting.held() and meeting.join(4, serve) == 40


def test_what_goes_wrong_reaches_those_who_wait_for_it() -> None:
    def broken(items: list[int]) -> list[int]:
        raise ValueError("no")

    def serve(items: list[int]) -> list[object]:
        return [KeyError(item) if item == 1 else item for item in items]

    def work(number: int) -> str:
        try:
            return str(meeting.join(number, broken if number == 2 else serve))
        except (ValueError, KeyError) as error:
            return repr(error)

    assert meeting.together([lambda n=n: work(n) for n in range(3)]) == ["0", "KeyError(1)", "ValueError('no')"]
    with pytest.raises(ZeroDivisionError):
        meeting.together([lambda: 1 / 0, lambda: 1.0])


def test_who_is_interrupted_leaves_no_thread_behind() -> None:
    ended = threading.Event()

    def serve(items: list[int]) -> list[int]:
        raise KeyboardInterrupt

    def work() -> int:
        try:
            return int(meeting.join(1, serve))
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        meeting.together([work, work])
    assert ended.wait(10)
