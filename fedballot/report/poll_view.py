"""What the page of a poll says: the recommendation, where records lie, and what the cells look like."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedballot.core.numbers import percent
from fedballot.report.pictures import Picture, data_uri
from fedballot.report.plot import Plot, drawn
from fedballot.report.poll_plot import cells_figure, classes_figure
from fedballot.report.tables import Table
from fedballot.report.view import Headline
from fedballot.runs.results import Release

VERDICTS = {
    "fits": ("yes", "good"),
    "fits in part": ("in part", "warn"),
    "does not fit": ("no", "bad"),
    "cannot be told": ("unclear", "warn"),
}
CELLS = ("cell", "of the pool", "of the clients’ records", "state", "records there have")
STATES = {"": "", "short": "too few", "idle": "idle"}


@dataclass(frozen=True)
class PollView:
    """The section of a poll; with nothing in it for other methods."""

    advice: list[str] = field(default_factory=list)
    headlines: list[Headline] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    table: Table | None = None


def poll_view(result: Mapping[str, Any], release: Release, *, pdf: bool = False) -> PollView:
    """All that the page shows of a poll."""
    poll, classes = result["metrics"].get("poll"), [str(name) for name in result["classes"]]
    if not poll:
        return PollView()
    far = poll["far"]
    error = f"± {percent(2 * far['error'])}; {percent(poll['expected'])} of a pool of the same kind"
    headlines = [
        Headline("Does the pool fit?", *answer(poll["verdict"])),
        Headline("Records far from it", percent(far["value"]), error),
    ]
    caption = "Grey: the pool. Dots: the clients, with two standard errors of the noise to either side."
    plots = [drawn("By cell", cells_figure(poll), "cells", f"Records by cell. {caption}", caption, pdf=pdf)]
    if any(poll["classes"]):
        caption = f"The line is {percent(poll['expected'])}, what a pool of the same kind would have."
        figure, title = classes_figure(poll, classes), "Far records by class"
        plots.append(drawn(title, figure, "far", f"{title}. {caption}", caption, pdf=pdf))
    rows = tuple(
        (
            f"{number}",
            percent(cell["pool"]),
            f"{percent(cell['clients']['value'])} ± {100 * 2 * cell['clients']['error']:.1f}",
            STATES.get(cell["state"], cell["state"]),
            cell["like"],
        )
        for number, cell in enumerate(poll["cells"], 1)
    )
    table = Table("cells", f"{len(rows)} cells", CELLS, rows, texts=(0, 3, 4))
    return PollView(list(poll["advice"]), headlines, plots, _pictures(poll, release), table)


def answer(verdict: str) -> tuple[str, str, str]:
    """Value, remark and tone of the verdict's headline."""
    value, tone = VERDICTS.get(verdict, (verdict, ""))
    return value, verdict, tone


def _pictures(poll: Mapping[str, Any], release: Release) -> list[Picture]:
    """The public image in the middle of each cell."""
    if release.images is None:
        return []
    filled = [(number, cell) for number, cell in enumerate(poll["cells"], 1) if cell["row"] is not None]
    out = []
    for image, (number, cell) in zip(release.images, filled, strict=False):
        state = cell["state"]
        words = f"{percent(cell['pool'], 0)} | {percent(cell['clients']['value'], 0)}"
        alt = f"Public image in the middle of cell {number}"
        out.append(Picture(data_uri(image), alt, f"{number}", words, None, bool(state)))
    return out
