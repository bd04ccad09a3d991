"""What SuperLink and SuperNode start in place of ``flower-superexec``: the same, with two differences.

Flower hands a task's token to its app on the command line, which every user of the machine can read (``ps``); whoever
has it can fetch the task's messages. Here it goes in the environment, which only the user's own processes can read.

Flower takes back a task whose app has said nothing for 30 s and starts another app for it, for ever, beside those that
it started before. Here the one before is ended, and a run whose app never begins fails, with words.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fedballot.core.errors import RunError
from fedballot.deploy.handover import TOKEN

if TYPE_CHECKING:
    from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult

OPTION = "--token"
MAIN = f"from {__name__} import main"  # by which its process is known
RUN = "flwr-serverapp"  # the app of a run; an answer of a site's is waited for until the round ends
TRIES = 3  # starts of a run's app before the run fails
SLOW = "has not begun in time: this machine is too busy, or the app ends at once"

Launch = Callable[[Any, "ExecutionSpec"], "LaunchResult"]
Fail = Callable[["ExecutionSpec", str], "LaunchResult"]


def start(args: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start an app as Flower does, with its token in the environment."""
    line, env = list(args), dict(os.environ)
    if OPTION in line:
        place = line.index(OPTION)
        env[TOKEN] = line[place + 1]
        del line[place : place + 2]
    return subprocess.Popen(line, env=env, **options)


class Starts:
    """The apps that were started for each task.

    Parameters
    ----------
    launch
        Flower's own way, a method of its executor; it starts a process by :meth:`start`.
    fail
        Tells Flower that a task has failed, and why.
    """

    def __init__(self, launch: Launch, fail: Fail) -> None:
        self._launch, self._fail = launch, fail
        self._tries: dict[int, list[subprocess.Popen[bytes]]] = {}
        self._last: subprocess.Popen[bytes] | None = None

    def start(self, args: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """See :func:`start`."""
        self._last = start(args, **options)
        return self._last

    def launch(self, executor: Any, spec: ExecutionSpec) -> LaunchResult:
        """Start an app for a task, in place of an earlier one that has not begun; the app of a run only so often."""
        self._tries = {task: apps for task, apps in self._tries.items() if apps[-1].poll() != 0}
        apps = self._tries.setdefault(spec.task_id, [])
        if apps:
            apps[-1].kill()
            words = f"{spec.task_type.value} {SLOW}; start {len(apps) + 1} of task {spec.task_id}"
            logging.getLogger("flwr").warning("fedballot: %s", words)
        if len(apps) == TRIES and spec.task_type.value == RUN:
            return self._fail(spec, f"{RUN} {SLOW}; started {TRIES} times")
        self._last = None
        result = self._launch(executor, spec)
        if self._last is not None:
            apps.append(self._last)
        return result


def fail(spec: ExecutionSpec, words: str) -> LaunchResult:
    """Tell Flower that a task has failed, and why."""
    import httpx
    from flwr.common.constant import SubStatus
    from flwr.proto.runtime_pb2 import PushTaskOutputRequest
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
    from flwr.supercore.retry import make_simple_http_retry_invoker
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supercore.superexec.executor import LaunchResult
    from flwr.supercore.tls import validate_and_resolve_root_certificates

    client = RuntimeHttpClient.from_server_address(
        server_address=spec.runtime_api_address,
        insecure=spec.insecure,
        root_certificates=validate_and_resolve_root_certificates(spec.root_certificates_path, spec.insecure),
        interceptors=[RuntimeVersionHttpInterceptor("SuperExec"), RuntimeTokenHttpInterceptor(spec.token)],
        retry_invoker=make_simple_http_retry_invoker(),
    )
    try:
        client.PushTaskOutput(PushTaskOutputRequest(sub_status=SubStatus.FAILED, details=words))
    except httpx.HTTPError as error:
        words = f"{words}; and the server could not be told: {error}"  # so Flower hands the task out once more
    finally:
        client.close()
    return LaunchResult.failed(words)


def main() -> None:
    """Run Flower's command.

    Raises
    ------
    RunError
        If this version of Flower starts apps in another way.
    """
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec.executor import subprocess_executor

    executor = getattr(subprocess_executor, "SubprocessExecutor", None)
    if executor is None or not hasattr(subprocess_executor, "subprocess"):
        raise RunError("this version of Flower starts apps in a way that fedballot does not know")
    starts = Starts(executor.launch, fail)
    vars(subprocess_executor)["subprocess"] = SimpleNamespace(Popen=starts.start, DEVNULL=subprocess.DEVNULL)
    executor.launch = lambda self, spec: starts.launch(self, spec)
    sys.argv[0] = "flower-superexec"
    flower_superexec()
