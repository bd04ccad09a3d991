"""docs/deploy.md, command by command, as it stands, and the faults that docs/deploy-reference.md lists."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedballot.deploy.addresses import free_port
from tests.deploy.harness import listens, wait_until

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"<!-- at: (?P<where>[\w-]+)(?P<stays>, stays)? -->\n```sh\n(?P<text>.*?)```", re.DOTALL)


@pytest.mark.slow
def test_every_command_of_the_page(tmp_path):
    fleet, control = free_port(), free_port()
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    staying: list[subprocess.Popen[bytes]] = []
    blocks = list(BLOCK.finditer((DOCS / "deploy.md").read_text()))
    assert len(blocks) >= 10
    try:
        for number, block in enumerate(blocks):
            # this machine plays all three, on ports that are free
            text = block["text"].replace("server.example.org", "localhost").replace("9092", str(fleet))
            text = text.replace("server init server", f"server init server --control 127.0.0.1:{control}")
            text = text.replace("0.0.0.0", "127.0.0.1")
            if block["stays"]:
                log = tmp_path / f"{block['where']}.log"
                with log.open("wb") as stream:
                    staying.append(
                        subprocess.Popen(
                            ["bash", "-c", text],
                            cwd=tmp_path,
                            env=env,
                            stdout=stream,
                            stderr=subprocess.STDOUT,
                            start_new_session=True,
                        )
                    )
                ready = "SuperNode ID" if block["where"] != "server" else None
                wait_until(
                    f"block {number}",
                    lambda log=log, ready=ready: ready in log.read_text() if ready else listens(fleet),
                    120,
                )
                continue
            done = subprocess.run(
                ["bash", "-euc", text], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        result = json.loads((tmp_path / "runs" / "first" / "result.json").read_text())
        assert result["status"] == "done" and result["clients"]["answered"] == 2
        assert result["metrics"]["server_accuracy"] > 0.7  # .87 to .97 seen
        assert "epsilon 0 of" not in done.stdout and "of 60 spent" in " ".join(done.stdout.split())
    finally:
        for process in staying:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait(timeout=15)


def test_the_fault_table_names_what_is_tested():
    files = [Path(__file__).parent / name for name in ("test_faults.py", "test_namespaces.py")]
    operations = (Path(__file__).parent / "test_operations.py").read_text()
    tests = {name for path in files for name in re.findall(r"(?m)^def (test_\w+)\(", path.read_text())}
    tests |= {name for name in re.findall(r"(?m)^def (test_\w+)\(", operations) if "starter_dies" in name}
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "deploy-reference.md").read_text()))
    assert named == tests
