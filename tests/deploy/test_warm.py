"""The warm process of a site: real processes, and Flower's own app."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedballot.deploy import handover
from fedballot.deploy.node import APP_MODULES, app_modules
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import init_site
from tests.deploy.harness import wait_until

# what an app of a test does: says who it is, what it draws, and ends as it is told to
APP = """
import os, random, sys, time
from pathlib import Path
import numpy as np
from fedballot.deploy.warm import serve

def run(arguments):
    print(os.getpid(), os.getppid(), random.random(), np.random.random(), *arguments, flush=True)
    if arguments == ["wait"]:
        time.sleep(60)
    if arguments == ["raise"]:
        raise ValueError("no")
    sys.exit(int(arguments[0]))

serve(Path(sys.argv[1]), ["json", "no_such_module"], run)
"""


def start(folder: Path, *line: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, *line], stdin=subprocess.DEVNULL)
    wait_until("the socket", (folder / handover.SOCKET).exists, 120)
    return process


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Path]:
    """The folder of a warm process whose app is the one above."""
    tmp_path = tmp_path / ("long" * 30)  # beyond what an address of a socket may have
    tmp_path.mkdir()
    process = start(tmp_path, "-c", APP, str(tmp_path))
    yield tmp_path
    process.kill()
    process.wait()


def line(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", handover.__file__, str(folder), *arguments]


def app(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line(folder, *arguments), capture_output=True, text=True, timeout=120)


def test_each_message_has_a_process_of_its_own_and_its_own_randomness(warm: Path) -> None:
    words = [app(warm, "0").stdout.split() for _ in range(3)]
    assert all(word[4] == "0" for word in words)
    assert len({word[0] for word in words}) == 3 and len({word[1] for word in words}) == 1
    assert len({word[2] for word in words}) == 3 and len({word[3] for word in words}) == 3


def test_the_exit_code_and_what_is_printed_come_back(warm: Path) -> None:
    assert app(warm, "0").returncode == 0 and app(warm, "7").returncode == 7
    done = app(warm, "raise")
    assert done.returncode == 1 and "ValueError: no" in done.stderr
    assert app(warm, "3").returncode == 3  # goes on


def test_whoever_is_ended_takes_its_child_along(warm: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen(line(warm, "wait"), stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        child = int(process.stdout.readline().split()[0])
        process.send_signal(number)
        assert process.wait(30) == (128 + signal.SIGTERM if number == signal.SIGTERM else -number)
        wait_until("the end of the child", lambda child=child: not Path(f"/proc/{child}").exists(), 30)


def test_messages_at_the_same_time_do_not_wait_for_each_other(warm: Path) -> None:
    waiting = subprocess.Popen(line(warm, "wait"), stdout=subprocess.PIPE)
    assert waiting.stdout is not None and waiting.stdout.readline()
    assert app(warm, "0").returncode == 0 and waiting.poll() is None
    waiting.terminate()
    waiting.wait(30)


def test_only_the_owner_gets_in_and_nonsense_changes_nothing(warm: Path) -> None:
    assert stat.S_IMODE((warm / handover.SOCKET).stat().st_mode) == 0o600
    for nonsense in (b"", b"\0\0\0\2{}", b"\0\0\0\1", b"\xff\xff\xff\xff"):
        with handover.connected(str(warm)) as link:
            link.sendall(nonsense)
            link.shutdown(socket.SHUT_WR)
            assert link.recv(10) == b""
    assert app(warm, "0").returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="root can be somebody else")
def test_another_user_gets_nothing_even_where_the_folder_is_open(warm: Path) -> None:
    warm.chmod(0o755)
    (warm / handover.SOCKET).chmod(0o666)
    who = """
import os, socket, sys
os.chdir(sys.argv[1]), os.setgid(65534), os.setuid(65534)
link = socket.socket(socket.AF_UNIX)
link.connect("warm.sock")
try:
    link.sendmsg([b'\\0\\0\\0\\5["0"]'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, bytes([1, 0, 0, 0, 2, 0, 0, 0]))])
    print(link.recv(10))
except ConnectionError:
    print(b"")
"""
    script = [sys.executable, "-I", "-S", "-c"]
    done = subprocess.run([*script, who, str(warm)], capture_output=True, text=True)
    assert done.stdout == "b''\n", done.stderr
    ours = who.replace("os.setgid(65534), os.setuid(65534)", "None")
    done = subprocess.run([*script, ours, str(warm)], capture_output=True, text=True)
    assert re.match(r"[0-9]|b'[0-9]+", done.stdout), done.stdout + done.stderr


def test_flower_s_app_runs_warm_and_without_the_warm_process_cold(tmp_path: Path) -> None:
    process = start(tmp_path, "-m", handover.COLD, "--warm", str(tmp_path), *APP_MODULES)
    try:
        wait_until("imports", lambda: app(tmp_path, "--help").returncode == 0, 120)
        began = time.monotonic()
        warm = app(tmp_path, "--help")
        took = time.monotonic() - began
    finally:
        process.kill()
        process.wait()
    began = time.monotonic()
    cold = app(tmp_path, "--help")
    assert (warm.returncode, warm.stdout) == (cold.returncode, cold.stdout) and "Run a Flower ClientApp" in cold.stdout
    assert took < (time.monotonic() - began) / 2


def test_the_warm_process_imports_what_the_site_s_apps_need_and_reads_nothing(tmp_path: Path) -> None:
    init_site(tmp_path / "site", number=0, sites=3, server="localhost:1")
    modules = app_modules(read_site(tmp_path / "site" / "site.toml"))
    assert "fedballot.clients.pate" in modules and "fedballot.learners.sklearn_learner" in modules
    script = (
        "import importlib, sys, threading\n"
        "opened = []\n"
        "sys.addaudithook(lambda name, args: opened.append(str(args[0])) if name == 'open' else None)\n"
        "[importlib.import_module(name) for name in sys.argv[2:]]\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        "assert not [path for path in opened if sys.argv[1] in path], opened\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path), *modules], check=True, cwd=tmp_path, timeout=120)
