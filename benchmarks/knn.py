"""Speed and memory of the exact neighbour search beside scikit-learn's brute force and faiss-cpu's flat index.

    python benchmarks/knn.py                                   # 20,000 records x 2,000 queries x 512 features
    python benchmarks/knn.py --queries 200 --features 16 --whole --check   # ties
    python benchmarks/knn.py --records 100000 --queries 10000  # the largest case that is promised: within 2 GB

faiss is measured where it is installed (pip install faiss-cpu); nothing else here needs it. Each search runs in a
process of its own on one thread; memory is the process's peak, data included. "Differs" counts queries whose neighbours
are not those of double precision with ties by index.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CHECKED = 200  # queries compared with the definition


def data(given: argparse.Namespace) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Normal features of norm 1 in clusters, one record in ten a copy of another; with --whole, whole numbers."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((50, given.features), dtype=np.float32)
    points = []
    for n in (given.records, given.queries):
        x = rng.standard_normal((n, given.features), dtype=np.float32)
        x += centres[rng.integers(0, 50, n)]
        points.append(np.rint(x) if given.whole else x / np.linalg.norm(x, axis=1, keepdims=True))
    records, queries = points
    copies = rng.integers(0, given.records, given.records // 10)
    records[rng.permutation(given.records)[: len(copies)]] = records[copies]
    return records, queries


def search(name: str, records: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Neighbours (Q, k) by one of the three."""
    if name == "fedballot":
        from fedballot.learners.neighbours import nearest

        return nearest(records, queries, k)
    if name == "scikit-learn":
        from sklearn.neighbors import NearestNeighbors

        index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(records)
        return np.asarray(index.kneighbors(queries, return_distance=False))
    import faiss

    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatL2(records.shape[1])
    flat.add(records)
    return np.asarray(flat.search(queries, k)[1])


def differing(records: NDArray[np.float32], queries: NDArray[np.float32], found: NDArray[np.int64]) -> int:
    """Queries of the first 200 for which the set of neighbours is another one."""
    count = 0
    for query, got in zip(queries[:CHECKED], found[:CHECKED], strict=True):
        exact = np.square(records.astype(np.float64) - query).sum(axis=1)
        count += set(np.argsort(exact, kind="stable")[: len(got)].tolist()) != set(got.tolist())
    return count


def one(given: argparse.Namespace) -> dict[str, Any]:
    """Measure one search, in this process."""
    records, queries = data(given)
    search(given.only, records[:2000], queries[:10], given.k)  # imports and first calls are not measured
    began, cpu = time.perf_counter(), time.process_time()
    found = search(given.only, records, queries, given.k)
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    wrong = differing(records, queries, found) if given.check else None
    return {"search": given.only, "wall_s": seconds, "cpu_s": used, "peak_gb": peak, "differs": wrong}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20000)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--check", action="store_true", help="compare 200 queries with the definition (slow)")
    parser.add_argument("--whole", action="store_true", help="features are whole numbers, so that distances often tie")
    parser.add_argument("--only", choices=["fedballot", "scikit-learn", "faiss"], help="one search, as JSON")
    given = parser.parse_args()
    if given.only:
        print(json.dumps(one(given)))
        return
    print(f"{given.records} records x {given.queries} queries x {given.features} features, k={given.k}, one thread\n")
    print("| | seconds of CPU | wall | peak memory, GB | differs, of 200 |\n|---|---|---|---|---|")
    for name in ("fedballot", "scikit-learn", "faiss"):
        command = [sys.executable, __file__, *sys.argv[1:], "--only", name]
        environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            print(f"| {name} | not installed | | | |" if "No module" in done.stderr else done.stderr)
            continue
        told = json.loads(done.stdout)
        wrong = "–" if told["differs"] is None else told["differs"]
        print(f"| {name} | {told['cpu_s']:.1f} | {told['wall_s']:.1f} | {told['peak_gb']:.2f} | {wrong} |", flush=True)


if __name__ == "__main__":
    main()
