"""The warm process of a server or site: it has imported what an app needs, and forks a child for each task.

Flower starts a process for each run at the server and for each message to a site, and a round of secure aggregation is
five messages: most of the work was importing. And a task whose app says nothing for 30 s is given to a new one, for
ever where importing takes longer. The warm process knows modules and nothing else: it reads no record, key or file,
gets no message, and every task has a process of its own as before, which ends with it.
"""

from __future__ import annotations

import array
import contextlib
import importlib
import json
import logging
import os
import random
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from fedballot.deploy.handover import SOCKET, TOKEN, with_token

WARM = "--warm"  # option of the app's module: be the warm process
LONGEST = 1 << 16  # bytes of an app's arguments
SLOWEST_S = 5.0  # in which whoever connects must have said what it wants

Run = Callable[[list[str]], None]


class Warm:
    """Forks a child for each connection, and tells it the child's number and then its exit code.

    Parameters
    ----------
    folder
        Where the socket lies; only its owner may enter it.
    run
        The app, called in the child with its arguments.
    """

    def __init__(self, folder: Path, run: Run) -> None:
        self._run = run
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET, dir_fd=place)
        self._listener.bind(f"/proc/self/fd/{place}/{SOCKET}")
        os.chmod(SOCKET, 0o600, dir_fd=place)
        os.close(place)
        self._listener.listen()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def serve(self) -> None:
        """Go on until the process is ended."""
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _accept(self) -> None:
        link, _ = self._listener.accept()
        outputs: list[int] = []
        try:
            link.settimeout(SLOWEST_S)
            arguments, outputs = _read(link)
            child = self._fork(arguments, outputs)
            link.sendall(f"{child}\n".encode())
        except (OSError, ValueError, struct.error):  # whoever asks starts an app of its own then
            link.close()
            return
        finally:
            for output in outputs:
                os.close(output)
        ended = os.pidfd_open(child)
        self._selector.register(ended, selectors.EVENT_READ, lambda: self._end(child, ended, link))
        self._selector.register(link, selectors.EVENT_READ, lambda: self._abandon(child, link))

    def _fork(self, arguments: list[str], outputs: list[int]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            for target, output in zip((1, 2), outputs, strict=True):
                os.dup2(output, target)
            for key in list(self._selector.get_map().values()):  # other children's, and the listener
                os.close(key.fd)
            self._selector.close()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            _own_randomness()
            self._run(arguments)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except BaseException:
            logging.getLogger("flwr").exception("fedballot: the app failed")
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _end(self, child: int, ended: int, link: socket.socket) -> None:
        _, status = os.waitpid(child, 0)
        self._selector.unregister(ended)
        os.close(ended)
        with contextlib.suppress(KeyError):
            self._selector.unregister(link)
        with contextlib.suppress(OSError):
            code = os.waitstatus_to_exitcode(status)
            link.sendall(f"{code if code >= 0 else 128 - code}\n".encode())
        link.close()

    def _abandon(self, child: int, link: socket.socket) -> None:
        """Whom Flower started for this task has ended: so does the child."""
        self._selector.unregister(link)
        os.kill(child, signal.SIGTERM)


def _read(link: socket.socket) -> tuple[list[str], list[int]]:
    """An app's arguments, and where its output goes."""
    (_, user, _) = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if user != os.getuid():
        raise ValueError("another user")
    content, extra, _, _ = link.recvmsg(4 + LONGEST, socket.CMSG_SPACE(2 * array.array("i").itemsize))
    outputs = array.array("i")
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            outputs.frombytes(data[: len(data) - len(data) % outputs.itemsize])
    try:
        size = int.from_bytes(content[:4], "big")
        while len(content) < 4 + size <= 4 + LONGEST:
            more = link.recv(4 + size - len(content))
            if not more:
                break
            content += more
        arguments = json.loads(content[4:])
        if len(outputs) != 2 or not isinstance(arguments, list):
            raise ValueError("no app's arguments")
        return [str(one) for one in arguments], list(outputs)
    except BaseException:
        for output in outputs:
            os.close(output)
        raise


def _own_randomness() -> None:
    """Generators that a process seeds when it starts: a child must not draw what another one draws."""
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()


def serve(folder: Path, modules: list[str], run: Run) -> None:
    """Import the modules that are there, and fork apps until the process is ended; apps wait for the imports."""
    try:  # before the imports: an app that comes while they last would do them all a second time
        warm = Warm(folder, run)
    except OSError as error:  # a file system without sockets
        sys.exit(f"fedballot: no warm process, so each app imports for itself: {error}")
    for name in modules:
        with contextlib.suppress(ImportError):  # an app that needs it says so
            importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: whoever started this process ends it
    warm.serve()


def main(run: Run) -> None:
    """Run an app, or with ``--warm FOLDER MODULE...`` fork apps for :mod:`fedballot.deploy.handover`."""
    if sys.argv[1:2] == [WARM]:
        folder, *modules = sys.argv[2:]
        serve(Path(folder), modules, run)
    arguments = with_token(sys.argv[1:])
    os.environ.pop(TOKEN, None)  # what the app starts has no use for it
    run(arguments)
