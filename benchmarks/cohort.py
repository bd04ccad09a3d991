"""What teachers cost one by one and in cohorts of clients_per_worker, on the device there is.

    FEDBALLOT_DATA=DIR python benchmarks/cohort.py                          # 1,000 teachers, MNIST's shapes
    python benchmarks/cohort.py --teachers 64 --cohorts 1 4 16 --epochs 1   # a small one, for a CPU

Each teacher is `cnn-small` on 28 x 28 grey images of its own, made up (times do not depend on what is in them), and on
as many of a pool's, as PATE-FL's teachers are that may abstain. All run in this process; a GPU is warmed up before.
Ratios count: all come from one process. Weights are compared with those of one by one: they differ by rounding.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedballot.core import meeting
from fedballot.learners.flat import flatten
from fedballot.learners.objectives import Abstain
from fedballot.learners.registry import make_learner
from fedballot.runs.worker import one_thread

SHAPE, CLASSES = (28, 28), 10
Array = npt.NDArray[Any]


def records(seed: int, count: int) -> tuple[Array, Array]:
    """Made-up images and labels."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *SHAPE), dtype=np.uint8), rng.integers(0, CLASSES, count)


def teacher(number: int, given: argparse.Namespace, pool: Array) -> Array:
    """The weights of one trained teacher; sizes differ by a fifth, as clients' do."""
    learner = make_learner(
        "cnn-small",
        n_classes=CLASSES,
        input_shape=SHAPE,
        seed=number,
        device=given.device,
        epochs=given.epochs,
        batch_size=given.batch_size,
        lr=2e-3,
    )
    size = given.records - number % 5 * given.records // 25
    learner.fit(*records(number, size), objective=Abstain(pool))
    return flatten(learner.get_weights())


def seconds(cohort: int, teachers: int, given: argparse.Namespace, pool: Array) -> tuple[float, list[Array]]:
    """Seconds for so many teachers, and their weights."""
    began, out = time.perf_counter(), []
    for start in range(0, teachers, cohort):
        works = [partial(teacher, number, given, pool) for number in range(start, min(start + cohort, teachers))]
        out += [work() for work in works] if cohort == 1 else meeting.together(works)
    return time.perf_counter() - began, out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teachers", type=int, default=1000)
    parser.add_argument(
        "--alone", type=int, default=50, help="teachers that are timed one by one, as all cost the same"
    )
    parser.add_argument("--cohorts", type=int, nargs="+", default=[1, 10, 50, 100, 250])
    parser.add_argument("--records", type=int, default=60, help="the most that a teacher has")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    pool = records(10**6, 1000)[0]
    name = torch.cuda.get_device_name() if given.device.startswith("cuda") else "CPU, one thread"
    print(f"{given.teachers} teachers, {given.records} records, {given.epochs} epochs, batches of {given.batch_size}")
    print(f"{name}; torch {torch.__version__}\n")
    print("| clients_per_worker | ms a teacher | one by one ÷ this | weights differ by |")
    print("|---|---|---|---|", flush=True)
    with one_thread():
        seconds(2, 4, given, pool)
        alone_s, alone = seconds(1, min(given.alone, given.teachers), given, pool)
        for cohort in given.cohorts:
            count = len(alone) if cohort == 1 else given.teachers
            spent, weights = (alone_s, alone) if cohort == 1 else seconds(cohort, count, given, pool)
            ratio = alone_s / len(alone) / (spent / count)
            apart = max(float(np.abs(one - other).max()) for one, other in zip(alone, weights, strict=False))
            print(f"| {cohort} | {1e3 * spent / count:.3g} | {ratio:.2f} | {apart:.1e} |", flush=True)


if __name__ == "__main__":
    main()
