"""Worker processes: real ones, whose clients work, fail, die, hang, and are left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fedballot.core.errors import RunError
from fedballot.runs.worker import ONE_THREAD, Job, _pools, one_thread
from fedballot.runs.workers import Workers, replies_here
from fedballot.wire.messages import Arrays, Config, Reply, Request, Scalar, deserialise, serialise


class Squaring:
    """A client that squares what it gets, or does what its number asks of it."""

    def __init__(self, fault: dict[int, str], number: int) -> None:
        if fault.get(number) == "cannot be made":
            raise ValueError("no such client")
        self._fault, self._number = fault.get(number), number

    def fit(self, parameters: Arrays, config: Config) -> tuple[Arrays, int, dict[str, Scalar]]:
        match self._fault:
            case "raises":
                raise RuntimeError("its program broke")
            case "is killed later":
                time.sleep(0.3)
                os.kill(os.getpid(), signal.SIGKILL)
            case "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exits":
                os._exit(3)
            case "gives up":
                sys.exit("no licence")
            case "stops its run":  # as `timeout` and a cluster's scheduler do: all processes get the signal
                os.killpg(os.getpgid(0), signal.SIGTERM)
                time.sleep(1000)
            case "hangs":
                print(os.getpid(), flush=True)
                time.sleep(1000)
            case "speaks":
                print("a line of a client", flush=True)
        metrics = {"client_id": self._number, "process": os.getpid(), "place": os.getcwd()}
        return [parameters[0] ** 2], 1, {**metrics, "variable": os.environ.get("FEDBALLOT_DATA", "")}


def job(tmp_path: Path, fault: dict[int, str] | None = None) -> Job:
    return Job(partial(Squaring, fault or {}), tmp_path / "log.txt")


def requests(count: int) -> list[Request]:
    return [Request(str(number), serialise([np.arange(3) + number]), {"round": 1}) for number in range(count)]


SEES_PROCESSES = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc who is alive")


def exists(process: int) -> bool:
    try:
        threads = os.listdir(f"/proc/{process}/task")
        return len(threads) > 1 or Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def workers():
    with Workers(2) as two:
        yield two


def numbers(replies: list[Reply | str]) -> list[int]:
    return sorted(int(one.sender) for one in replies if isinstance(one, Reply))


@pytest.mark.parametrize("here", [False, True])
def test_each_client_answers_once(workers: Workers, tmp_path: Path, here: bool) -> None:
    replies = list((replies_here if here else workers.replies)(job(tmp_path), requests(7), 60))
    assert numbers(replies) == list(range(7))
    for reply in replies:
        assert isinstance(reply, Reply)
        assert np.array_equal(deserialise(reply.tensors)[0], (np.arange(3) + int(reply.sender)) ** 2)
    processes = {reply.metrics["process"] for reply in replies if isinstance(reply, Reply)}
    assert processes == {os.getpid()} if here else os.getpid() not in processes and len(processes) <= 2


def test_workers_stand_where_their_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the second ones, though the process that forks them is as old as the first."""
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        monkeypatch.chdir(tmp_path / run)
        monkeypatch.setenv("FEDBALLOT_DATA", run)
        with Workers(1) as one:
            (reply,) = one.replies(job(tmp_path), requests(1), 60)
        assert isinstance(reply, Reply)
        assert (reply.metrics["place"], reply.metrics["variable"]) == (str(tmp_path / run), run)


def test_nobody_is_asked(workers: Workers, tmp_path: Path) -> None:
    assert list(workers.replies(job(tmp_path), [], 60)) == []


@pytest.mark.parametrize("here", [False, True])
def test_a_client_that_fails_costs_its_own_answer(workers: Workers, tmp_path: Path, here: bool) -> None:
    fault = {1: "raises", 3: "cannot be made", 4: "gives up"}
    replies = list((replies_here if here else workers.replies)(job(tmp_path, fault), requests(6), 60))
    log = tmp_path / "log.txt"
    assert numbers(replies) == [0, 2, 5]
    assert sorted(one for one in replies if isinstance(one, str)) == [
        f"client 1: RuntimeError: its program broke; {log} says where",
        f"client 3: ValueError: no such client; {log} says where",
        f"client 4: SystemExit: no licence; {log} says where",
    ]
    words = log.read_text()
    assert words.count("Traceback") == 3 and 'raise ValueError("no such client")' in words


class Unknown:
    """Somebody's client whose module the workers cannot import."""

    def __call__(self, number: int) -> Squaring:
        raise NotImplementedError

    def __reduce__(self) -> tuple[object, ...]:
        return import_module, ("no_such_module",)


@pytest.mark.parametrize("here", [False, True])
def test_clients_that_work_together_answer_once_each(workers: Workers, tmp_path: Path, here: bool) -> None:
    three = replace(job(tmp_path, {1: "raises"}), together=3)
    replies = list((replies_here if here else workers.replies)(three, requests(8), 60))
    assert numbers(replies) == [0, 2, 3, 4, 5, 6, 7] and len(replies) == 8
    if not here:
        with pytest.raises(RunError, match=r"^worker [12] of 2 .* while clients 3, 4, 5 were at work"):
            list(workers.replies(replace(job(tmp_path, {4: "is killed"}), together=3), requests(8), 60))
        late = list(workers.replies(replace(job(tmp_path, {4: "hangs"}), together=6), requests(8), 3))
        assert numbers(late) == [6, 7] and late.count("no answer within 3 s") == 6


def test_a_job_that_workers_cannot_read_is_told_in_words(workers: Workers, tmp_path: Path) -> None:
    replies = list(workers.replies(Job(Unknown(), tmp_path / "log.txt"), requests(3), 60))
    why = "ModuleNotFoundError: No module named 'no_such_module'"
    assert sorted(map(str, replies)) == [f"client {number}: {why}" for number in range(3)]
    assert numbers(list(workers.replies(job(tmp_path), requests(4), 60))) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("is killed", r"was killed by signal 9 \(Killed\) while client 4 was at work; as the kernel does where memory"),
        ("is killed later", r"was killed by signal 9 \(Killed\) while client 4 was at work; .*workers=1.*--resume"),
        ("exits", r"ended with exit code 3 while client 4 was at work; .*log\.txt may say why.*--resume"),
    ],
)
def test_a_process_that_ends_before_its_answer_ends_the_run_and_is_replaced_for_the_next(
    workers: Workers, tmp_path: Path, fault: str, words: str
) -> None:
    coming, replies = workers.replies(job(tmp_path, {4: fault}), requests(8), 60), []
    with pytest.raises(RunError, match=f"^worker [12] of 2 {words}"):
        for reply in coming:
            replies.append(reply)
    # the other worker may still be at one of the four
    assert len({0, 1, 2, 3} & {*numbers(replies)}) >= 3 and all(isinstance(reply, Reply) for reply in replies)
    assert numbers(list(workers.replies(job(tmp_path), requests(4), 60))) == [0, 1, 2, 3]


@SEES_PROCESSES
def test_a_process_that_ends_while_nobody_works_costs_nothing(workers: Workers, tmp_path: Path) -> None:
    replies = list(workers.replies(job(tmp_path), requests(6), 60))
    for process in {reply.metrics["process"] for reply in replies if isinstance(reply, Reply)}:
        os.kill(int(process), signal.SIGKILL)
        while exists(int(process)):
            time.sleep(0.01)
    assert numbers(list(workers.replies(job(tmp_path), requests(6), 60))) == [0, 1, 2, 3, 4, 5]


def test_whoever_stops_asking_gets_no_answer_of_then_later(workers: Workers, tmp_path: Path) -> None:
    coming = workers.replies(job(tmp_path), requests(6), 60)
    next(coming)
    coming.close()
    (tmp_path / "later").mkdir()
    later = [Request("9", serialise([np.arange(3)]), {"round": 2})]
    assert numbers(list(workers.replies(job(tmp_path / "later"), later, 60))) == [9]


def test_a_client_that_hangs_is_given_up_and_its_process_ended(workers: Workers, tmp_path: Path) -> None:
    began = time.monotonic()
    replies = list(workers.replies(job(tmp_path, {0: "hangs"}), requests(5), 3))
    assert time.monotonic() - began < 60
    assert numbers(replies) == [1, 2, 3, 4]
    assert [one for one in replies if isinstance(one, str)] == ["no answer within 3 s"]
    assert numbers(list(workers.replies(job(tmp_path), requests(4), 60))) == [0, 1, 2, 3]


def test_what_clients_print_stands_in_the_log_of_their_run(workers: Workers, tmp_path: Path) -> None:
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        list(workers.replies(job(tmp_path / run, {0: "speaks", 1: "speaks"}), requests(2), 60))
        assert (tmp_path / run / "log.txt").read_text().count("a line of a client") == 2


def test_the_threads_of_this_process_are_its_own_again() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("loaded", ["before", "by the first client"])
def test_a_server_has_the_threads_of_mkl_too_after_clients_in_its_process(loaded: str) -> None:
    pytest.importorskip("torch")
    script = f"""
        from fedballot.runs.engine import prepare_worker
        from fedballot.runs.worker import one_thread
        if {loaded!r} == "before":
            import torch
            torch.get_num_threads()
        with one_thread():
            prepare_worker(True)
        import torch
        print(torch.__config__.parallel_info())
    """
    fresh = "import torch; torch.get_num_threads(); print(torch.__config__.parallel_info())"
    environment = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}

    def told(text: str) -> str:
        command = [sys.executable, "-c", textwrap.dedent(text)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert told(script) == told(fresh)


def test_pools_of_threads_are_looked_for_again_where_modules_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def counts() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info()]

    with threadpool_limits(2):
        before = counts()
        with one_thread():
            looked = _pools.cache_info().misses
        for more in (0, 1):
            if more:
                monkeypatch.setitem(sys.modules, "came_later", ModuleType("came_later"))
            with one_thread():
                assert set(counts()) == {1}
            assert counts() == before
            assert _pools.cache_info().misses == looked + more


SCRIPT = """
    import sys
    from functools import partial
    from pathlib import Path
    from tests.runs.test_workers import Squaring, requests
    from fedballot.runs.worker import Job
    from fedballot.runs.workers import Workers

    print("the script runs", flush=True)
    fault = {0: sys.argv[1]}
    with Workers(2) as workers:
        for reply in workers.replies(Job(partial(Squaring, fault), Path(sys.argv[2])), requests(3), 600):
            print(reply if isinstance(reply, str) else reply.metrics["process"], flush=True)
"""


STOPPED = """
    import sys
    from functools import partial
    from pathlib import Path
    from tests.runs.test_workers import Squaring, requests
    from fedballot.core.stopping import stoppable
    from fedballot.runs.worker import Job
    from fedballot.runs.workers import Workers

    try:
        with stoppable(), Workers(2) as workers:
            list(workers.replies(Job(partial(Squaring, {0: sys.argv[1]}), Path(sys.argv[2])), requests(3), 600))
    except KeyboardInterrupt:
        print("stopped")
"""


def script(
    tmp_path: Path, word: str, *, code: str = SCRIPT, path: str = "", start_new_session: bool = False
) -> subprocess.Popen[str]:
    place = tmp_path / "script.py"
    place.write_text(textwrap.dedent(code))
    return subprocess.Popen(
        [sys.executable, str(place), word, str(tmp_path / "log.txt")],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), path])},
        start_new_session=start_new_session,
    )


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    out, _ = script(tmp_path, "speaks").communicate(timeout=300)
    assert out.count("the script runs") == 1 and len(out.splitlines()) == 4


FORKSERVER = """
    import os, signal, sys
    from functools import partial
    from multiprocessing.forkserver import _forkserver
    from pathlib import Path
    from tests.runs.test_workers import Squaring, requests
    from fedballot.core.errors import RunError
    from fedballot.runs.worker import Job
    from fedballot.runs.workers import Workers, prepare

    job = Job(partial(Squaring, {}), Path(sys.argv[2]))
    prepare(["leaves_at_once"] if sys.argv[1] == "at its start" else [])
    try:
        with Workers(2) as workers:
            for _ in range(2):
                print(len(list(workers.replies(job, requests(4), 60))), flush=True)
                os.kill(_forkserver._forkserver_pid, signal.SIGKILL)
    except RunError as error:
        print(error)
"""


@pytest.mark.parametrize("when", ["at its start", "between rounds"])
def test_the_process_that_forks_workers_may_die(tmp_path: Path, when: str) -> None:
    """Between rounds there is another one; one that dies as it imports would do so again, so the run ends in words."""
    (tmp_path / "leaves_at_once.py").write_text("import os\nos._exit(1)\n")
    out, _ = script(tmp_path, when, code=FORKSERVER, path=str(tmp_path)).communicate(timeout=300)
    if when == "between rounds":
        assert out.split() == ["4", "4"]
    else:
        assert out.startswith("worker 1 of 2 could not be started (") and "workers=1" in out


def test_a_signal_to_all_processes_stops_a_run_and_is_no_fault_of_its_workers(tmp_path: Path) -> None:
    running = script(tmp_path, "stops its run", code=STOPPED, start_new_session=True)
    out, _ = running.communicate(timeout=300)
    assert out.split() == ["stopped"] and running.returncode == 0


@SEES_PROCESSES
def test_workers_end_in_the_middle_of_their_work_when_their_run_is_killed(tmp_path: Path) -> None:
    running = script(tmp_path, "hangs")
    assert running.stdout is not None
    running.stdout.readline()
    workers = {int(running.stdout.readline())}  # of the one that does not hang, who has answered
    deadline = time.monotonic() + 30
    while not (words := (tmp_path / "log.txt").read_text()).endswith("\n") and time.monotonic() < deadline:
        time.sleep(0.05)
    workers.add(int(words))
    assert len(workers) == 2 and all(map(exists, workers))
    running.kill()
    running.wait()
    deadline = time.monotonic() + 30
    while any(map(exists, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(exists, workers))
