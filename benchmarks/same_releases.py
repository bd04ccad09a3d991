"""Whether two versions of the code release the same numbers, bit for bit, in seeded runs of every method.

    PYTHONPATH=CHECKOUT python benchmarks/same_releases.py record OUT    # that checkout's numbers, 2 CPU minutes
    python benchmarks/same_releases.py compare BEFORE AFTER              # what differs; exit code 1 if anything does

A run goes through the command line, so modules may move. It is written in the newest words: where a checkout knows
another word for *client*, that is used, and keys and sentences are compared with all such words made *client*. Left
out of a record: times, salts and hashes with them, random names of requests, versions, paths, settings (results show
them), the masks of secure aggregation (random; their sum is not), and the files of models but for their arrays.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import multiprocessing
import multiprocessing.connection
import os
import runpy
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"  # the order of sums; before NumPy is imported
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from same_cases import CASES, COMMON  # noqa: E402
from same_record import Facts, digest, read_run  # noqa: E402

SHOWN = 12  # differences of a case that are printed


# running


def here_instead_of_ray() -> None:
    """Let Flower's virtual clients run in this process: a start of Ray takes longer than a run; numbered nodes.

    Random numbers of nodes would make the order of clients, and so a cohort that is drawn from them, random.
    """

    class Here:
        num_workers = 1

        def __init__(self, config: Any) -> None:
            pass

        def build(self, app_fn: Any) -> None:
            self._app = app_fn()

        def is_worker_idle(self) -> bool:
            return True

        def process_message(self, message: Any, context: Any) -> tuple[Any, Any]:
            return self._app(message=message, context=context), context

        def terminate(self) -> None:
            pass

    backend = types.ModuleType("raybackend")
    backend.RayBackend = Here  # type: ignore[attr-defined]
    sys.modules["flwr.server.superlink.fleet.vce.backend.raybackend"] = backend
    with contextlib.suppress(ImportError, AttributeError):
        from flwr.server.superlink.linkstate import in_memory_linkstate as nodes

        numbers = iter(range(10**9, 2 * 10**9))
        vars(nodes)["generate_rand_int_from_bytes"] = lambda *_, **__: next(numbers)


def fedballot(words: list[str], output: Path) -> int:
    """What `python -m fedballot.cli WORDS` does, in this process; its exit code."""
    sys.argv = ["fedballot", *words]
    with output.open("w") as stream, contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        try:
            runpy.run_module("fedballot.cli", run_name="__main__", alter_sys=True)
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    return 0


def older(word: str) -> str:
    return word.replace("client", "agent")


def assignments(case: str, scratch: Path) -> tuple[str, list[str]]:
    """Method and settings of a case, in the words of the code that is imported."""
    method, *own = CASES[case].split()
    if fedballot(["methods", "--settings", method, "--json"], scratch / "settings.json"):
        raise SystemExit((scratch / "settings.json").read_text())
    allowed = {row["name"]: row["allowed"].split(", ") for row in json.loads((scratch / "settings.json").read_text())}
    chosen: dict[str, str] = {}
    special = dict(pair.split("=", 1) for pair in own)
    for key, value in {"engine": "local", **COMMON, **special}.items():
        name = key if key in allowed else older(key)
        if name in allowed:
            chosen[name] = older(value) if value not in allowed[name] and older(value) in allowed[name] else value
        elif key in special and key not in COMMON:
            raise SystemExit(f"{case}: {method} has no setting {key!r}")
    return method, [f"{name}={value}" for name, value in chosen.items()]


def write_yeast(folder: Path) -> None:
    """A table of records with several labels, in the form of the data set *yeast*."""
    generator = np.random.default_rng(7)
    features = generator.normal(size=(500, 103)).round(4)
    labels = (features[:, :14] + generator.normal(size=(500, 14)) > 0.5).astype(int)
    with (folder / "yeast.csv").open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow([*(f"Att{i}" for i in range(1, 104)), *(f"Class{i}" for i in range(1, 15))])
        out.writerows([*x, *y] for x, y in zip(features.tolist(), labels.tolist(), strict=True))


def run_case(case: str, scratch: Path, out: Path, ray: bool) -> None:
    """One run in a process of its own; writes its record."""
    began = time.perf_counter()
    if not ray:
        here_instead_of_ray()
    folder = scratch / case
    folder.mkdir()
    method, chosen = assignments(case, folder)
    words = [word for pair in chosen for word in ("--set", pair)]
    code = fedballot(["run", method, *words, "--out", str(folder / "run"), "--quiet"], folder / "output.txt")
    if code:
        print(f"{case}: exit code {code}\n{(folder / 'output.txt').read_text()}", file=sys.stderr, flush=True)
        os._exit(1)
    facts, arrays = read_run(folder / "run")
    np.savez(out / "arrays" / f"{case}.npz", **arrays)  # type: ignore[arg-type]
    digests = {name: digest(array) for name, array in arrays.items()}
    record = {"method": method, "settings": chosen, "facts": facts, "arrays": digests}
    (out / "cases" / f"{case}.json").write_text(json.dumps(record))
    counts = f"{len(facts)} facts, {len(arrays)} arrays"
    print(f"{case:32} {time.perf_counter() - began:5.1f} s  {counts}", flush=True)
    os._exit(0)


def record(out: Path, names: list[str], jobs: int, ray: bool) -> int:
    """Run the cases and write ``OUT/cases.json`` and the arrays."""
    for part in ("arrays", "cases"):
        (out / part).mkdir(parents=True)  # refuses a record that is there
    # everything slow that is not ours, once for all processes
    import flwr.simulation  # noqa: F401
    import matplotlib.figure  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.ensemble  # noqa: F401
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        write_yeast(scratch)
        # a cache of its own: one that another version has filled would hide a change in what reads the data
        os.environ |= {"FEDBALLOT_DATA": temporary, "FEDBALLOT_CACHE": str(scratch / "cache")}
        waiting, failed = list(names), list[str]()
        running: dict[Any, tuple[str, Any]] = {}  # by sentinel
        fork = multiprocessing.get_context("fork")
        while waiting or running:
            while waiting and len(running) < jobs:
                process = fork.Process(target=run_case, args=(waiting[0], scratch, out, ray))
                process.start()
                running[process.sentinel] = (waiting.pop(0), process)
            for sentinel in multiprocessing.connection.wait(list(running)):
                case, process = running.pop(sentinel)
                process.join()
                failed += [case] * bool(process.exitcode)
    cases = {case: json.loads((out / "cases" / f"{case}.json").read_text()) for case in names if case not in failed}
    (out / "cases.json").write_text(json.dumps(cases, indent=1, sort_keys=True))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


# comparing


def compare(before: Path, after: Path, names: list[str], numbers_only: bool, more: bool) -> int:
    """Print what differs; 1 if anything does."""
    one, other = (json.loads((folder / "cases.json").read_text()) for folder in (before, after))
    one, other = ({case: record for case, record in side.items() if case in names} for side in (one, other))
    for folder, alone in ((before, one.keys() - other), (after, other.keys() - one)):
        if alone:
            print(f"only in {folder}: {', '.join(sorted(alone))}")
    wrong = len(one.keys() ^ other.keys())
    for case in sorted(one.keys() & other):
        (left, left_facts), (right, right_facts) = (
            (side[case]["arrays"], side[case]["facts"]) for side in (one, other)
        )
        if more:
            right, right_facts = (
                {k: v for k, v in x.items() if k in y} for x, y in ((right, left), (right_facts, left_facts))
            )
        lines = differing(left_facts, right_facts, numbers_only)
        for name in sorted(key for key in {*left, *right} if left.get(key) != right.get(key)):
            lines.append(f"{name}: {left.get(name, 'nothing')} -> {right.get(name, 'nothing')}")
            if name in left and name in right:
                lines[-1] += distance(*(np.load(f / "arrays" / f"{case}.npz")[name] for f in (before, after)))
        wrong += bool(lines)
        if lines:
            rest = [f"… and {len(lines) - SHOWN} more"] * (len(lines) > SHOWN)
            print("\n   ".join([f"{case}: {len(lines)} differences", *lines[:SHOWN], *rest]))
    cases = len({*one, *other})
    print(f"{cases - wrong} of {cases} cases are the same")
    return int(wrong > 0 or not cases)


def differing(left: Facts, right: Facts, numbers_only: bool) -> list[str]:
    """A line for each fact that differs; texts count unless only numbers are asked for."""
    keys = sorted(key for key in {*left, *right} if left.get(key) != right.get(key))
    texts = {key for key in keys if all(side.get(key, "“")[:1] in ("“", "") for side in (left, right))}
    return [
        f"{k}: {left.get(k, 'nothing')} -> {right.get(k, 'nothing')}" for k in keys if not (numbers_only and k in texts)
    ]


def distance(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> str:
    """How far apart two arrays are, where they can be compared."""
    if not left.size or left.shape != right.shape or left.dtype.kind not in "biuf" or right.dtype.kind not in "biuf":
        return ""
    gap = np.abs(left.astype(np.float64) - right.astype(np.float64))
    return f" ({np.count_nonzero(gap)} of {gap.size} numbers, by {gap.max():.3g} at most)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recorder = verbs.add_parser("record", help="run every case with the fedballot on PYTHONPATH")
    recorder.add_argument("out", type=Path)
    recorder.add_argument("--jobs", type=int, default=2, help="runs at a time")
    recorder.add_argument("--ray", action="store_true", help="on Ray, as `fedballot run` does by itself; slow")
    comparer = verbs.add_parser("compare", help="print what differs; exit code 1 if anything does")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    comparer.add_argument("--numbers", action="store_true", help="differing sentences do not count")
    comparer.add_argument("--more", action="store_true", help="what AFTER holds beyond BEFORE does not count")
    for verb in (recorder, comparer):
        verb.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    chosen = parser.parse_args()
    if chosen.verb == "compare":
        return compare(chosen.before, chosen.after, chosen.only, chosen.numbers, chosen.more)
    return record(chosen.out, chosen.only, chosen.jobs, chosen.ray)


if __name__ == "__main__":
    sys.exit(main())
