"""What Flower starts for each task: has a child of the warm process do it, and ends as that does.

Run as a script, with nothing but the standard library: handover.py FOLDER MODULE ARGUMENTS...
"""

import array
import json
import os
import signal
import socket
import sys

SOCKET = "warm.sock"
TOKEN = "FEDBALLOT_TASK_TOKEN"  # in the environment: others can read a command line


def connected(folder: str) -> socket.socket:
    """A connection to the warm process whose socket lies in this folder.

    Raises
    ------
    OSError
        If there is none.
    """
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.connect(f"/proc/self/fd/{place}/{SOCKET}")  # a path of any length
        return link
    finally:
        os.close(place)


def with_token(arguments: list[str]) -> list[str]:
    """An app's arguments and its token out of the environment."""
    token = os.environ.get(TOKEN)
    return [*arguments, "--token", token] if token else arguments


def main() -> None:
    """Have the app run in a child of the warm process; where there is none, or it dies, become the app: MODULE."""
    folder, module, *arguments = sys.argv[1:]
    try:
        link = connected(folder)
        content = json.dumps(with_token(arguments)).encode()
        outputs = array.array("i", [1, 2])
        link.sendmsg([len(content).to_bytes(4, "big") + content], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, outputs)])
        words = link.makefile("r")
        child = int(words.readline())
    except (OSError, ValueError):
        os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
    # a terminal sends these to the child as well
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    sys.exit(int(words.readline() or 1))


if __name__ == "__main__":
    main()
