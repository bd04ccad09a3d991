"""What a site has spent over time."""

from collections.abc import Sequence
from datetime import datetime

from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from fedballot.report.canvas import canvas, style
from fedballot.report.palette import LIGHT


def spending_figure(times: Sequence[datetime], spent: Sequence[float], limit: float) -> Figure:
    """Epsilon spent after each charge, as steps, against the limit.

    Parameters
    ----------
    times, spent
        Of the charges, the oldest first; at least one.
    limit
        The most that may be spent.
    """
    days = [float(date2num(time)) for time in times]  # type: ignore[no-untyped-call]
    with style():
        figure, axes = canvas(2.2)
        axes.step(days, spent, where="post", color=LIGHT["blue"], linewidth=1.6)
        axes.plot(days, spent, "o", color=LIGHT["blue"], markersize=4)
        axes.axhline(limit, color=LIGHT["red"], linewidth=1, linestyle=(0, (4, 3)))
        axes.text(0.01, limit, "limit", color=LIGHT["red"], va="bottom", transform=axes.get_yaxis_transform())
        axes.set_ylim(0, max(limit, *spent) * 1.15)
        axes.set_ylabel("ε spent")
        if len({*days}) == 1:
            axes.set_xticks([days[0]], [f"{times[0]:%Y-%m-%d %H:%M}"])
        else:
            locator = AutoDateLocator(maxticks=6)  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_locator(locator)
            axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        return figure
