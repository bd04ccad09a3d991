r"""How far `fedauxfdp-sum` is from a linear head that sees all private records without noise, on the same features.

    FEDBALLOT_DATA=DIR python benchmarks/sum_gap.py --preset fedaux-fashion --seeds 3 --out runs/gap
    FEDBALLOT_DATA=DIR python benchmarks/sum_gap.py --preset fedaux-cifar10 --set dataset=FEATURES.npz \
      --set extractor=pca+l2 --out runs/gap-cifar10

The head is a logistic regression on what the extractor makes of a record, each feature with variance 1, with a penalty
of `PENALTY` beside the mean loss, the best of three on MNIST's test images. Epsilon is the whole of a record's. Rows
that are in --out are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from fedaux_rows import Row, run
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedballot.clients.frozen import public_features
from fedballot.core.files import write_json
from fedballot.methods.registry import settings_types
from fedballot.runs.engine import federated_data, prepare_worker
from fedballot.settings.layers import parse_assignments, resolve

METHOD = "fedauxfdp-sum"
PENALTY = 1e-3  # lambda of lambda/2 |W|^2 beside the mean loss


def head(preset: str, seed: int, given: list[str]) -> dict[str, Any]:
    """The head without noise: it learns from the private records of all clients together."""
    words = [*given, "alpha=10.24", f"seed={seed}"]
    settings = resolve(METHOD, settings_types(), preset=preset, values=parse_assignments(words))
    data = federated_data(settings)
    extractor = public_features(settings, data, "cpu").extractor
    rows = np.concatenate(data.parts)
    clock = time.perf_counter()
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (PENALTY * len(rows)), max_iter=300))
    model.fit(extractor.transform(np.asarray(data.private.x[rows])), data.private.y[rows])
    right = model.score(extractor.transform(np.asarray(data.test_x)), data.test_y)
    return {"accuracy": float(right), "records": len(rows), "seconds": time.perf_counter() - clock}


def show(out: Path) -> None:
    """Mean and deviation over the seeds that are in ``out``."""
    found: dict[str, list[float]] = {}
    for path in sorted(out.glob("*.json")):
        found.setdefault(path.stem.rsplit("_s", 1)[0], []).append(100 * json.loads(path.read_text())["accuracy"])
    for name, values in found.items():
        print(f"{name}: {np.mean(values):.1f} ± {np.std(values):.1f} [{len(values)}]")


def main() -> None:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="fedaux-fashion")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--alphas", nargs="+", type=float, default=[10.24, 0.01])
    parser.add_argument("--set", action="append", default=[], help="a setting for all rows")
    parser.add_argument("--out", type=Path, default=Path("runs/gap"))
    given = parser.parse_args()
    prepare_worker(with_torch=True)
    for seed in range(given.seeds):
        path = given.out / f"head_s{seed}.json"
        if not path.exists():
            write_json(path, head(given.preset, seed, given.set))
        for alpha in given.alphas:
            for epsilon in given.epsilons:
                row = Row("gap", "sum", METHOD, epsilon, alpha, (f"epsilon={epsilon}",))
                path = given.out / row.file(seed)
                if not path.exists():
                    write_json(path, run(row, given.preset, seed, given.set))
        show(given.out)


if __name__ == "__main__":
    main()
