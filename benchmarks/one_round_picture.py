"""docs/img/one-round.png: one round beside what is published after many:  python benchmarks/one_round_picture.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedballot.core.files import write_atomic
from fedballot.studies.rows import stored_rows

PICTURE = Path(__file__).parents[1] / "docs" / "img" / "one-round.png"
SETS = {"mnist": "MNIST", "fashion-lite2": "Fashion-MNIST", "cifar10": "CIFAR-10"}


def main() -> None:
    """Bars for each benchmark: published for three splits, ours at record ε = 1 and 0.1, the same for all splits."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = stored_rows()
    figure = Figure(figsize=(8.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for place, (key, _) in enumerate(SETS.items()):
        ours = [rows.get(f"selective-{key}{ending}") for ending in ("", "-0.1")]
        published = next(row.published for row in ours if row and row.published)
        heights = [*published.values(), *(row.accuracy or np.nan if row else np.nan for row in ours)]
        colours = ["#c9ced6", "#aab2bd", "#8a94a3", "#1f6feb", "#79b0ff"]
        labels = ["Selective-FD, one class a client", "two classes", "IID"]
        labels += ["fedballot, any split, record ε = 1", "the same, record ε = 0.1"]
        for bar, (height, colour, label) in enumerate(zip(heights, colours, labels, strict=True)):
            x = place + 0.17 * (bar - 2)
            axes.bar(x, height, 0.16, color=colour, label=label if place == 0 else None)
            if np.isfinite(height):
                axes.text(x, height + 1, f"{height:.1f}", ha="center", va="bottom", fontsize=7)
    axes.set_xticks(range(len(SETS)), list(SETS.values()))
    axes.set_ylim(0, 110)
    axes.set_ylabel("accuracy, %")
    axes.legend(fontsize=7, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, columnspacing=1.0)
    axes.spines[["top", "right"]].set_visible(False)
    FigureCanvasAgg(figure)
    write_atomic(
        PICTURE, lambda stream: figure.savefig(stream, format="png", dpi=150, metadata={"Software": "fedballot"})
    )


if __name__ == "__main__":
    main()
