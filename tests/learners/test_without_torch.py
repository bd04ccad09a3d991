"""scikit-learn learners leave torch alone: importing it would cost every worker seconds and 700 MB."""

import subprocess
import sys

CODE = """
import sys
from pathlib import Path
from fedballot.datasets.sources import load
from fedballot.learners.registry import make_learner
digits = load("digits").train
learner = make_learner("random-forest", n_classes=10, input_shape=(8, 8), seed=0, epochs=1, batch_size=8, lr=.1)
learner.fit(digits.x[:200], digits.y[:200])
learner.save(Path(sys.argv[1]))
learner.load(Path(sys.argv[1]))
print("torch" in sys.modules)
"""


def test_a_forest_does_not_import_torch(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "model")], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"
