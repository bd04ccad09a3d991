"""The warm process of a server and of a site: real processes, and Flower's own apps."""

from __future__ import annotations

import importlib.util
import json
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
from types import ModuleType

import pytest

from fedballot.deploy import clientapp, handover, node, server, serverapp
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

serve(Path(sys.argv[1]), ["json", "no_such_module", *sys.argv[2:]], run)
"""


def start(folder: Path, *line: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, *line], stdin=subprocess.DEVNULL)
    wait_until("the socket", (folder / handover.SOCKET).exists, 120)
    return process


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a warm process whose app is the one above: the same for all tests, which must leave it well."""
    folder = tmp_path_factory.mktemp("warm") / ("long" * 30)  # beyond what an address of a socket may have
    folder.mkdir(mode=0o700)
    process = start(folder, "-c", APP, str(folder))
    yield folder
    assert app(folder, "0").returncode == 0 and process.poll() is None
    process.kill()
    process.wait()


def line(folder: Path, *arguments: str, module: str = clientapp.__name__) -> list[str]:
    return [sys.executable, "-I", "-S", handover.__file__, str(folder), module, *arguments]


def app(folder: Path, *arguments: str, module: str = clientapp.__name__) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line(folder, *arguments, module=module), capture_output=True, text=True, timeout=120)


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


# says that it is imported, and is not done before a file is there
SLOW = """
import sys, time
from pathlib import Path
print("importing", flush=True)
while not Path(__file__).with_name("ends").exists():
    if Path(__file__).with_name("dies").exists():
        sys.exit(1)
    time.sleep(0.01)
"""


@pytest.mark.parametrize("end", ["ends", "dies"])
def test_an_app_that_comes_while_modules_are_imported_waits_for_them(
    tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_module.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    process = subprocess.Popen(
        [sys.executable, "-c", APP, str(tmp_path), "slow_module"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"importing\n"
    coming = subprocess.Popen(line(tmp_path, "--help", module="json.tool"), stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        coming.wait(0.5)
    (tmp_path / end).touch()
    try:
        words, _ = coming.communicate(timeout=120)
        if end == "dies":
            assert coming.returncode == 0 and "usage: " in words and process.wait(30) == 1
        else:
            assert words.split()[1] == str(process.pid)
    finally:
        process.kill()
        process.communicate()


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
    warm.chmod(0o700)
    (warm / handover.SOCKET).chmod(0o600)


@pytest.mark.parametrize(
    ("app_module", "modules", "words"),
    [
        (clientapp, node.APP_MODULES, "Run a Flower ClientApp"),
        (serverapp, server.APP_MODULES, "Run a Flower ServerApp"),
    ],
)
def test_flower_s_app_runs_warm_and_without_the_warm_process_cold(
    tmp_path: Path, app_module: ModuleType, modules: tuple[str, ...], words: str
) -> None:
    process = start(tmp_path, "-m", app_module.__name__, "--warm", str(tmp_path), *modules)
    try:
        app(tmp_path, "--help", module=app_module.__name__)  # waits for the imports
        began = time.monotonic()
        warm = app(tmp_path, "--help", module=app_module.__name__)
        took = time.monotonic() - began
    finally:
        process.kill()
        process.wait()
    began = time.monotonic()
    cold = app(tmp_path, "--help", module=app_module.__name__)
    assert (warm.returncode, warm.stdout) == (cold.returncode, cold.stdout) and words in cold.stdout
    assert took < (time.monotonic() - began) / 2


# imports the modules, reads nothing in the folder, and has no second thread, be it Python's or a library's; what all
# models need is imported first, and a child forked for each, which is as if it had imported all by itself
IMPORTS = """
import importlib, json, os, sys
opened = []
sys.addaudithook(lambda name, args: opened.append(str(args[0])) if name == "open" else None)
def take(names):
    [importlib.import_module(name) for name in names]
    threads = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
    threads = [name for name in threads if name != "jemalloc_bg_thd"]  # of pyarrow's, which knows of forks
    assert len(threads) == 1, threads
    assert not [path for path in opened if sys.argv[1] in path], opened
def forked():
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
needed = json.loads(sys.argv[2])
take([name for name in min(needed.values(), key=len) if all(name in names for names in needed.values())])
for model, names in needed.items():
    if (code := forked()) is None:
        break
    assert code == 0, model
else:
    sys.exit()
take(names)
there = set(sys.modules)
if (code := forked()) is not None:
    os._exit(code)
import numpy as np
from pathlib import Path
from fedballot.learners.registry import make_learner
x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
learner = make_learner(model, n_classes=2, input_shape=(3,), seed=0, epochs=1, batch_size=8, lr=0.1)
learner.fit(x, (x[:, 0] > 0).astype(np.int64)).predict_logits(x)
"""
# and a child that it forks can train the model, and needs no further library
AT_A_SITE = """
from fedballot.datasets.own import load_own
from fedballot.datasets.sources import load
load_own(Path(sys.argv[1], "own.csv"), load(sys.argv[1] + "/own.csv"))
further = {name.partition(".")[0] for name in set(sys.modules) - there}
assert not further & {"pandas", "sklearn", "xgboost", "lightgbm", "catboost", "torch"}, further
os._exit(0)
"""
AT_A_SERVER = """
learner.save(Path(sys.argv[1], "model.skops"))
further = [name for name in set(sys.modules) - there if name.startswith(("sklearn", "skops"))]
assert not further, further
os._exit(0)
"""


def carry_out(script: str, folder: Path, needed: dict[str, list[str]]) -> None:
    """For each model the modules that its warm process imports."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}  # NumPy's BLAS has threads of its own, which know of forks
    line = [sys.executable, "-c", IMPORTS + script, str(folder), json.dumps(needed)]
    subprocess.run(line, check=True, cwd=folder, timeout=400, env=env)


LIBRARIES = {
    "random-forest": "sklearn",
    "xgboost(max_depth=3)": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "linear-torch": "torch",
}


def test_the_warm_process_imports_what_the_site_s_apps_need_and_reads_nothing(tmp_path: Path) -> None:
    init_site(tmp_path / "site", number=0, sites=3, server="localhost:1")
    path = tmp_path / "site" / "site.toml"
    before = path.read_text()
    (tmp_path / "own.csv").write_text(
        "a,b,label\n" + "\n".join(f"{row / 7},{'uv'[row % 2]},{row % 2}" for row in range(30))
    )
    needed = {}
    for model, library in LIBRARIES.items():
        if importlib.util.find_spec(library):
            path.write_text(before.replace('model = "random-forest"', f'model = "{model}"'))
            needed[model] = node.app_modules(read_site(path))
            assert "fedballot.clients.pate" in needed[model]
    assert len({tuple(names) for names in needed.values()}) == len(needed) > 0
    carry_out(AT_A_SITE, tmp_path, needed)


def test_the_server_s_warm_process_imports_what_the_apps_of_runs_need(tmp_path: Path) -> None:
    modules = server.app_modules()
    assert {"fedballot.strategies.voting", "fedballot.strategies.fedaux_sum"} <= set(modules)
    carry_out(AT_A_SERVER, tmp_path, {"logistic-regression": modules})


def test_a_model_of_the_site_s_own_is_not_imported_before_it_is_used(tmp_path: Path) -> None:
    init_site(tmp_path / "site", number=0, sites=3, server="localhost:1")
    path = tmp_path / "site" / "site.toml"
    path.write_text(path.read_text().replace('model = "random-forest"', 'model = "planted:forest(depth=3)"'))
    assert not [name for name in node.app_modules(read_site(path)) if "planted" in name or "learner" in name]


def test_the_process_over_a_site_imports_neither_flower_nor_a_model_s_library() -> None:
    code = "import sys, fedballot.deploy.node; print({'flwr', 'grpc', 'sklearn', 'torch'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
