"""The packages in examples/: each runs by its import path and by its name, and passes fedballot's checks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedballot import get_method
from fedballot.core.errors import SettingsError
from fedballot.deploy.rules import check_import
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import init_site
from fedballot.testing import check_mechanism, check_method
from tests.deploy.harness import edit

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = [
    "dataset=digits",
    "clients=3",
    "private_size=300",
    "public_size=100",
    "test_size=100",
    "workers=1",
    "queries=30",
]
MODELS = ["client_models=logistic-regression", "server_model=logistic-regression"]
PATHS = {"noisy_max": ("fedballot_noisy_max:METHOD", "pate-noisy-max")}
MORE = {"noisy_max": ["epsilon=60"]}
QUICK = {"noisy_max": {"queries": 20}}
each = pytest.mark.parametrize("example", PATHS)


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for example in PATHS:
        monkeypatch.syspath_prepend(EXAMPLES / example)


@each
def test_an_example_passes_the_checks(example: str) -> None:
    check_method(get_method(PATHS[example][0]), **QUICK[example])


@each
def test_an_example_is_read_as_one_page(example: str) -> None:
    (page,) = EXAMPLES.joinpath(example).glob("fedballot_*.py")
    assert len(page.read_text().splitlines()) <= 170


def test_the_noisy_maximum_is_a_mechanism() -> None:
    import numpy as np
    from fedballot_noisy_max import NoisyMax

    counts = np.random.default_rng(0).integers(0, 4, size=(50, 10))
    for noise in ("laplace", "exponential"):
        check_mechanism(NoisyMax(50, 2.0, noise), counts)  # type: ignore[arg-type]


def installed(example: str, target: Path) -> dict[str, str]:
    """The environment of a process that finds the package as pip has installed it, entry point included."""
    source = EXAMPLES / example
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    copy = target / "source"
    copy.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    subprocess.run([*pip, "--target", str(target / "site"), str(copy)], check=True)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent), str(target / "site")])}


def fedballot(environment: dict[str, str], *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "fedballot.cli", *words], env=environment, capture_output=True, text=True, timeout=500
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
@each
def test_an_example_runs_once_it_is_installed(example: str, tmp_path: Path) -> None:
    environment, (path, name) = installed(example, tmp_path), PATHS[example]
    assert name in [method["name"] for method in json.loads(fedballot(environment, "methods", "--json"))]
    words = [word for pair in [*SMALL, *MODELS, *MORE[example]] for word in ("--set", pair)]
    result = json.loads(
        fedballot(environment, "run", path, *words, "--out", str(tmp_path / "run"), "--quiet", "--json")
    )
    assert (result["status"], result["method"], result["clients"]["answered"] % 3) == ("done", name, 0)
    assert result["metrics"]["server_accuracy"] > 0.4
    assert (tmp_path / "run" / "report.html").exists() and (tmp_path / "run" / "server-model-0").exists()


def test_a_site_allows_an_example_by_its_path(tmp_path: Path) -> None:
    init_site(tmp_path / "site", number=1, sites=3, server="localhost:1")
    file = tmp_path / "site" / "site.toml"
    with pytest.raises(SettingsError, match="add it to methods under"):
        check_import(read_site(file), "fedballot_noisy_max:METHOD")
    edit(file, methods=["fedballot_noisy_max:METHOD"])
    site = read_site(file)
    check_import(site, "fedballot_noisy_max:METHOD")
    edit(file, methods=["fedballot_noisy_max:OTHER"])
    with pytest.raises(SettingsError, match="cannot be imported"):
        read_site(file)


def test_the_page_on_adding_a_method_is_the_example() -> None:
    page = (EXAMPLES.parent / "docs" / "adding-a-method.md").read_text()
    example = EXAMPLES / "noisy_max"
    blocks = re.findall(r"```python\n(.*?)\n```", page, flags=re.DOTALL)
    code = (example / "fedballot_noisy_max.py").read_text()
    assert "".join("".join(blocks).split()) == "".join(code.split())
    assert re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL) == [(example / "pyproject.toml").read_text()]
