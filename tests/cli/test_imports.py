"""What only tells about fedballot starts without the packages that train, plot or talk."""

import json
import subprocess
import sys

import pytest

HEAVY = {"flwr", "ray", "scipy", "sklearn", "torch", "torchvision", "pandas", "matplotlib", "dp_accounting"}
CALL = """
import json, sys
from fedballot.cli.main import main
sys.argv[0] = "fedballot"
try:
    main()
except SystemExit as end:
    assert not end.code
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("--help", {"numpy", "cryptography"}),
        ("presets", {"numpy", "cryptography"}),
        ("methods", set()),
        ("methods --settings pate-fl", set()),
    ],
)
def test_lists_come_without_heavy_packages(words, more):
    done = subprocess.run(
        [sys.executable, "-c", CALL, *words.split()], capture_output=True, text=True, check=True, timeout=60
    )
    packages = set(json.loads(done.stderr))
    assert {"fedballot", "typer"} <= packages
    assert packages & (HEAVY | more) == set()
    assert "pate-fl" in done.stdout or words in ("--help", "presets")
