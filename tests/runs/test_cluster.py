"""Runs on a real Ray cluster: its nodes come, go, are lost in mid-round, and are refused."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedballot import __version__
from fedballot.core.errors import RunError
from fedballot.core.files import read_arrays
from fedballot.core.progress import Silent
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.ledger.reconcile import charges
from fedballot.settings.voting import PateSettings
from fedballot.sim import simulate
from tests.conftest import SMALL, small_settings
from tests.held import HOLD, hold
from tests.runs.nodes import ROOT, Nodes, nodes

pytestmark = pytest.mark.slow

SLOW = {**SMALL, "dataset": "usps", "clients": 10, "client_models": "tests.held:make", "epsilon": 40, "workers": 0}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two hosts' folders with the same file, which usps is read from."""
    digits = load_digits()
    folders = [tmp_path_factory.mktemp("data") for _ in range(2)]
    for folder in folders:
        np.savez(folder / "usps.npz", x=np.kron(digits.images, np.ones((2, 2))).astype(np.uint8) * 15, y=digits.target)
    return folders


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file for which runs beside it wait."""
    return tmp_path_factory.mktemp("held") / "hold"


@pytest.fixture(scope="module")
def cluster(data: list[Path], held: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    cache = tmp_path_factory.mktemp("cache")
    own = {"FEDBALLOT_CACHE": str(cache), "FEDBALLOT_DATA": str(data[0]), HOLD: str(held)}
    with tempfile.TemporaryDirectory(prefix="fb") as folder, nodes(Path(folder), **own) as started:  # short for sockets
        yield started


def command(cluster: Nodes, out: Path, *words: str, **values: Any) -> list[Any]:
    chosen = {**SLOW, "ray_address": cluster.address, **values}
    pairs = [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    return ["-m", "fedballot.cli", "run", "pate-fl", "--out", out, *pairs, *words]


def stamps(out: Path) -> dict[Path, tuple[int, bytes]]:
    """What was released, and when."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.glob("clients/*/ledger/releases/*.npz")}


def arrays_of(out: Path) -> dict[str, np.ndarray]:
    """What the run and each of its clients have released."""
    paths = {"run": out / "release.npz", **{path.parts[-4]: path for path in stamps(out)}}
    return {f"{name}/{key}": array for name, path in paths.items() for key, array in read_arrays(path).items()}


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for(count: int, out: Path, process: subprocess.Popen[str]) -> None:
    """Until so many clients have released something."""

    def enough() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return len(stamps(out)) >= count

    until(enough)


def test_a_run_is_stopped_goes_on_loses_a_node_gets_another_and_has_the_bits_of_one_machine(
    cluster: Nodes, data: list[Path], held: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(1, FEDBALLOT_DATA=str(data[1]))
    out = held.parent / "cluster"
    hold(held)
    words = command(cluster, out, noise_seed=5, ray_address="")

    process = cluster.driver(*words, RAY_ADDRESS=cluster.address)
    wait_for(2, out, process)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 130 and "--resume" in said, said
    assert json.loads((out / "result.json").read_text())["status"] == "stopped"
    until(lambda: not any(cluster.runs(number, "ray::answer") for number in (0, 1)))  # they end with their run
    before = stamps(out)
    assert 2 <= len(before) < 8

    hold(held, len(before) + 1)
    process = cluster.driver(*words, "--resume", RAY_ADDRESS=cluster.address)
    wait_for(len(before) + 1, out, process)
    for number in (0, 1):
        cluster.signal(number, signal.SIGSTOP, "ray::")
    time.sleep(0.5)  # both are at a client, or have been sent one
    before = stamps(out)
    cluster.kill(1)
    cluster.start(1, FEDBALLOT_DATA=str(data[1]))
    held.unlink()
    until(lambda: cluster.runs(1, "ray::answer"))
    cluster.signal(0, signal.SIGCONT, "ray::")
    said = process.communicate(timeout=240)[0]
    cluster.kill(1)
    assert process.returncode == 0 and "2 nodes, 2 clients at once" in said, said
    assert "is asked again" in (out / "log.txt").read_text()
    after = stamps(out)
    assert all(after[path] == stamp for path, stamp in before.items())
    assert [len(charges(Ledger(path))) for path in out.glob("clients/*/ledger")] == [1] * 10
    result = json.loads((out / "result.json").read_text())
    assert result["clients"] == {"asked": 10, "answered": 10, "rejected": {}, "first_details": {}}
    assert (result["timing"]["engine"], result["timing"]["workers"]) == ("ray", 2)

    monkeypatch.setenv("FEDBALLOT_DATA", str(data[0]))
    monkeypatch.setenv(HOLD, str(held))
    monkeypatch.setenv("FEDBALLOT_CACHE", cluster.environment["FEDBALLOT_CACHE"])
    here = small_settings(PateSettings, SLOW, {"noise_seed": 5, "workers": 1, "engine": "local"})
    alone = simulate("pate-fl", here, tmp_path / "here", resume=False, progress=Silent())
    assert alone["metrics"] == result["metrics"]
    arrays, arrays_here = arrays_of(out), arrays_of(tmp_path / "here")
    assert len(arrays) > 10 and arrays.keys() == arrays_here.keys()
    assert all(np.array_equal(arrays[name], arrays_here[name]) for name in arrays)


def test_nodes_that_cannot_serve_are_named_before_anything_is_charged(cluster: Nodes, tmp_path: Path) -> None:
    for name in ("runs", "own", "fedballot"):
        (tmp_path / name).mkdir()
    runs, absent = tmp_path / "runs", "No module named 'fedballot'"
    (tmp_path / "fedballot" / "__init__.py").write_text(f"raise ModuleNotFoundError({absent!r})")
    cluster.start(2, FEDBALLOT_DATA=str(tmp_path / "nowhere"))
    expected = {2: f"FEDBALLOT_DATA: '{tmp_path / 'nowhere'}' is no folder"}
    if cluster.apart:
        cluster.start(3, mounted=(runs, tmp_path / "own"))
        cluster.start(4, mounted=(ROOT / "fedballot", tmp_path / "fedballot"))
        expected[3] = f"does not share the run's folder {runs / 'run'}: name"
        expected[4] = f"cannot run fedballot {__version__}, is it installed there? (ModuleNotFoundError: {absent}"
    process = cluster.driver(*command(cluster, runs / "run"))
    words = " ".join(process.communicate(timeout=240)[0].split())
    assert process.returncode == 1
    for number, part in expected.items():
        assert part in words and (f"node {cluster.place(number)} " in words or not cluster.apart), words
    result = json.loads((runs / "run" / "result.json").read_text())
    assert result["status"] == "failed" and "nowhere" in result["error"]
    assert not list(runs.glob("run/clients/0*"))


def test_no_cluster_and_one_of_another_ray_are_told_in_words(cluster: Nodes, tmp_path: Path) -> None:
    settings = small_settings(PateSettings, {"epsilon": 40, "ray_address": "127.0.0.1:9"})
    with pytest.raises(RunError, match=r"no Ray cluster answers at 127\.0\.0\.1:9: .*refused"):
        simulate("pate-fl", settings, tmp_path / "none", resume=False, progress=Silent())
    assert not (tmp_path / "none").exists()
    older = "import sys, ray; ray.__version__ = '2.0.0'; from fedballot.cli.main import main; sys.exit(main())"
    process = cluster.driver("-c", older, *command(cluster, tmp_path / "older")[2:])
    words = " ".join(process.communicate(timeout=120)[0].split())
    assert process.returncode == 1
    assert f"the Ray cluster at {cluster.address} is of other versions" in words and "Ray: 2.0.0" in words
    assert not (tmp_path / "older").exists()
