"""The privacy package stands alone: no Flower, no torch, no global randomness, no pickle."""

import subprocess
import sys
from pathlib import Path

import pytest

import fedballot.privacy

SOURCES = sorted(Path(fedballot.privacy.__file__).parent.rglob("*.py"))


def test_imports_neither_flower_nor_torch() -> None:
    root = Path(fedballot.__file__).parents[1]
    modules = [".".join(path.relative_to(root).with_suffix("").parts) for path in SOURCES if path.stem != "__init__"]
    code = f"import sys, importlib\n[importlib.import_module(m) for m in {modules}]\n"
    code += "print([m for m in ('torch', 'flwr', 'ray') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_source_has_no_global_randomness_and_no_pickle(path: Path) -> None:
    text = path.read_text()
    for word in ("np.random.seed", "np.random.normal", "import random", "import pickle", "allow_pickle=True"):
        assert word not in text
