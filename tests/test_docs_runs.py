"""What the pages show does run: the notebooks, README's Python, and the tutorial on one's own table."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_stores_what_it_shows(path: Path, tmp_path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    stored = [len(cell.outputs) for cell in book.cells if cell.cell_type == "code"]
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [len(cell.outputs) for cell in code] == stored, "run it and save it"
    assert not any("Traceback" in json.dumps(cell.outputs) for cell in code)
    source = "\n".join(cell.source for cell in code)
    shown = [output.get("data", {}) for cell in code for output in cell.outputs]
    assert sum("image/png" in data for data in shown) == source.count("plt.subplots")
    last = [cell.source.splitlines()[-1] for cell in code]
    own = sum("<img alt=" in data.get("text/html", "") for data in shown)
    assert own == last.count("comparison") + last.count("sweep")


def python_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def run(words: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.smoke
def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = python_of("README.md")
    printed = run(["-c", code], tmp_path)
    server, alone = map(float, printed.splitlines()[0].split())
    assert min(server, alone) > 0.5
    assert "(epsilon = 4)" in printed and "standalone" in printed


def test_the_first_python_of_its_page_runs(tmp_path: Path) -> None:
    given = "import numpy as np\nx = np.zeros((3, 8, 8), np.uint8)\n"
    run(["-c", given + python_of("docs/python.md")[0]], tmp_path)


def test_the_tutorial_on_ones_own_table_runs(tmp_path: Path) -> None:
    run(["-c", python_of("docs/tutorials/own-table.md")[0]], tmp_path)
    text = (ROOT / "docs" / "tutorials" / "own-table.md").read_text()
    command = re.findall(r"^fedballot (try .*?)\n```", text, flags=re.MULTILINE | re.DOTALL)[0]
    words = [*shlex.split(command.replace("\\\n", " ")), "--set", "noise_seed=0"]  # three clinics: a draw may be bad
    printed = run(["-m", "fedballot", *words], tmp_path)
    shown = re.findall(r"```text\n(.*?)on test records", text, flags=re.DOTALL)[0]  # what does not hang on the noise
    assert lines(shown) == lines(printed.partition("on test records")[0])
    server = float(re.findall(r"server, private-knn-fl *│ ([\d.]+)\s%", printed)[0])
    alone = float(re.findall(r"alone, on average *│ ([\d.]+)\s%", printed)[0])
    assert server > alone


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]
