"""docs/img/leakage.png: accuracy against members found, of the rows that attack_rows.py has made.

python benchmarks/leakage_picture.py --data digits --seeds 1 2 3 --out runs/leakage
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from attack_rows import DATA, Line, found_of, lines

from fedballot.core.files import write_atomic
from fedballot.methods.registry import get_method
from fedballot.report.canvas import style
from fedballot.report.palette import LIGHT

PICTURE = Path(__file__).parents[1] / "docs" / "img" / "leakage.png"
KINDS = {
    "predictions, no guarantee": ("vermilion", "o"),
    "weights, no guarantee": ("blue", "s"),
    "with a guarantee": ("green", "^"),
}
Point = tuple[str, str, float, float, bool]  # name, kind, members found in %, accuracy in %, pool planted
APART = 2.9  # points of accuracy between two names
LITTLE = 3.0  # per cent of members found, below which names stand on the left


def points(data: str, seeds: list[int], out: Path) -> list[Point]:
    """What is drawn: means over the seeds that are there; a planted pool has the accuracy of its method."""
    found: list[Point] = []
    known: dict[str, float] = {}
    for line in lines():
        leaks, scores, right = found_of(line, data, seeds, out)
        if not leaks:
            continue
        plain = line.name.replace(", pool planted", "")
        known[plain] = 100 * statistics.mean(right) if right else known[plain]
        caught = 100 * statistics.mean(score.rates[1].value for score in scores)
        kind = "with a guarantee" if leaks[0].promise else _sends(line)
        found.append((line.name, kind, max(caught, 0.4), known[plain], line.adversary == "active-server"))
    return found


def _sends(line: Line) -> str:
    weights = "weights" in get_method(line.method).sends
    return "weights, no guarantee" if weights else "predictions, no guarantee"


def spread(heights: list[float], top: float) -> list[float]:
    """Heights of names (from high to low) that lie at least `APART` from each other, not far from their points."""
    crowd = sum(height > heights[0] - 3 * APART for height in heights) - 1
    out = [min(heights[0] + crowd * APART / 2, top)]
    for height in heights[1:]:
        out.append(min(height, out[-1] - APART))
    return out


def draw(drawn: list[Point], path: Path) -> None:
    """Save the picture. Names stand in two columns, left of what finds next to nothing and right of what finds some."""
    from matplotlib.figure import Figure

    with style(white=True):
        figure = Figure(figsize=(7.6, 5.4), layout="constrained")
        axes = figure.add_subplot()
        for column, at, side in ((True, 0.62, "right"), (False, 55, "left")):
            mine = sorted((one for one in drawn if (one[2] < LITTLE) == column), key=lambda one: (-one[3], -one[2]))
            for one, height in zip(mine, spread([one[3] for one in mine], 101), strict=True):
                name, kind, caught, right, planted = one
                colour, marker = KINDS[kind]
                face = "white" if planted else LIGHT[colour]
                axes.plot(caught, right, marker, color=LIGHT[colour], markerfacecolor=face, markersize=6)
                line: dict[str, Any] = {
                    "arrowstyle": "-",
                    "color": LIGHT["faint"],
                    "lw": 0.4,
                    "shrinkA": 2,
                    "shrinkB": 3,
                }
                line["relpos"] = (1 if column else 0, 0.5)
                axes.annotate(name, (caught, right), (at, height), fontsize=7, va="center", ha=side, arrowprops=line)
        for kind, (colour, marker) in KINDS.items():
            axes.plot([], [], marker, color=LIGHT[colour], label=kind)
        axes.plot([], [], "o", color=LIGHT["ink"], markerfacecolor="white", label="server plants records in the pool")
        axes.axvline(1, color=LIGHT["faint"], linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.set_xlim(0.05, 400)
        axes.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
        axes.minorticks_off()
        axes.set_ylim(0, 103)
        axes.set_xlabel("members found at 1 % false alarms, % (log scale); 1 is chance")
        axes.set_ylabel("accuracy, %")
        axes.legend(loc="lower right")
        write_atomic(path, lambda stream: figure.savefig(stream, format="png", metadata={"Software": "fedballot"}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=tuple(DATA), default="digits")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("runs/leakage"))
    parser.add_argument("--picture", type=Path, default=PICTURE)
    given = parser.parse_args()
    draw(points(given.data, given.seeds, given.out), given.picture)


if __name__ == "__main__":
    main()
