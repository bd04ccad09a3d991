"""Writes docs/performance.md from benchmarks/performance.json:  python benchmarks/performance_page.py"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORD = HERE / "performance.json"
PAGE = HERE.parent / "docs" / "performance.md"
PFL = "pfl-research, SGD"

HEAD = """# Performance

<!-- Written by `python benchmarks/performance_page.py` from benchmarks/performance.json. -->

What runs cost beside a plain loop and other frameworks. Your seconds will differ; ratios are of runs that took turns on
one machine. `FEDBALLOT_DATA=DIR make benchmark` repeats all of it in a quarter of an hour (DIR holds
`mnist.npz`); `python benchmarks/performance.py --rows fedavg` repeats one row.

- **process**: seconds from the command to its end, the median of the repeats.
- **CPU**: seconds of all its processes together; a dash where Ray ends some of them.
- **plain loop**: the same learners, seeds and records in forked processes with nothing around them
  ([`benchmarks/plain.py`](../benchmarks/plain.py)). For FedAvg it ends with the same weights; for PATE-FL it adds up
  votes and trains a student, without noise or ledgers.
- **pfl-research** and **Flower's quickstart** ([`benchmarks/peers.py`](../benchmarks/peers.py)): the same network and
  records by plain SGD without augmentation, less work a step than fedballot's AdamW with augmented images.
"""

TAIL = """## What is slower, and why

- **Short runs are mostly starting**: Python imports Flower, scikit-learn and torch in the command, and again in the
  process that workers are forked from.
- **Charged methods write**: each client's ledger and release are on disk before its answer leaves.
- **Plain SGD is a tenth cheaper a step** than AdamW on augmented images.
- **Clients train one by one** unless `clients_per_worker` says otherwise: a worker then trains that many at once
  (`torch.func.vmap`), each with its own data, seed, batches, noise and charge, and with the weights of
  training alone but for rounding. It is meant for GPUs, where nobody has measured it yet (`python
  benchmarks/cohort.py` does); on a CPU it has 0.7 to 0.9 of the speed of one by one, so the default is 1.
  Networks with batch norm or dropout, and objectives with gradients (FedProx, `domain_adaptation`), always train alone.
"""


def ratio(way: Mapping[str, Any], other: Mapping[str, Any], key: str) -> str:
    """How many times as much as the other; a dash where there is none."""
    return f"{way[key] / other[key]:.2f}" if key in way and key in other else "–"


def notes(way: Mapping[str, Any]) -> str:
    """What else is known of a way: accuracy, parts of the time, memory."""
    words = []
    if "accuracy" in way:
        words.append(f"accuracy {way['accuracy']:.3f}")
    if "work_s" in way:
        words.append(f"work {way['work_s']:.1f} s")
    if "train_s" in way:
        words.append(f"rounds {way['train_s']:.1f} s, overhead {way['engine_overhead']:.2f}")
    if "peak_mb" in way:
        words.append(f"peak {way['peak_mb'] / 1e3:.1f} GB")
    return "; ".join(words)


def table(row: Mapping[str, Any]) -> Iterator[str]:
    """A row of the record as a table of its ways."""
    ways = row["ways"]
    bases = [name for name in (next(iter(ways)), PFL) if name in ways]
    if len(ways) == 1:
        bases = []
    yield f"| | process, s | CPU, s | {''.join(f'÷ {name} | CPU ÷ {name} | ' for name in bases)}|"
    yield "|---" * (4 + 2 * len(bases)) + "|"
    for name, way in ways.items():
        ratios = "".join(f"{ratio(way, ways[base], 'wall_s')} | {ratio(way, ways[base], 'cpu_s')} | " for base in bases)
        cpu = f"{way['cpu_s']:.2f}" if "cpu_s" in way else "–"
        yield f"| {name} | {way['wall_s']:.2f} | {cpu} | {ratios}{notes(way)} |"


def client(row: Mapping[str, Any]) -> Iterator[str]:
    """The row about one client: CPU time beside plain loops, and where it goes."""
    (way,) = row["ways"].values()
    seconds, shares = way["cpu_seconds"], way["shares"]
    plain = seconds["plain loop"]
    yield "| | CPU, ms a client | ÷ plain loop |"
    yield "|---|---|---|"
    for name, value in seconds.items():
        yield f"| {name} | {1e3 * value:.0f} | {value / plain:.2f} |"
    own = sum(shares[part] for part in ("forward and loss", "backward", "optimiser"))
    yield ""
    yield (
        "The plain loop has torch's AdamW and the same augmentation. Of fedballot's time, looked at every millisecond, "
        f"**{own:.0%} is the model's own arithmetic**: "
        + ", ".join(f"{part} {share:.0%}" for part, share in shares.items())
        + "."
    )


def page(record: Mapping[str, Any]) -> str:
    """The page."""
    lines = [HEAD]
    machines = {json.dumps(row["machine"], sort_keys=True) for row in record.values()}
    for text in sorted(machines):
        where = json.loads(text)
        versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
        hardware = f"{where['cores']} cores of {where['cpu']}, {where['memory_gb']} GB"
        lines.append(f"Measured on {where['date']}: {hardware}; {versions}.\n")
    loads = sorted({row["load"] for row in record.values()})
    lines.append(
        f"Load average when rows began: {', '.join(loads)}. Above half the cores other work ran beside: then CPU "
        "ratios say something, and seconds next to nothing.\n"
    )
    for name, row in record.items():
        lines += [
            f"## {row['about'][0].upper()}{row['about'][1:]}\n",
            *(client if name == "client" else table)(row),
            "",
        ]
    return "\n".join([*lines, TAIL])


def main() -> None:
    """Write it."""
    PAGE.write_text(page(json.loads(RECORD.read_text())))


if __name__ == "__main__":
    main()
