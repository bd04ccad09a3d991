"""Labels beside points, none on top of another."""

from collections.abc import Sequence
from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from fedballot.report.palette import LIGHT

SIZE = 9.0  # points
MARK = 9.0  # points: width of a marker and what is free around it
REACHES = (7.0, 13.0, 20.0, 28.0)  # points between a point and its label; the nearest free place is taken


def label(figure: Figure, axes: Axes, points: Sequence[tuple[float, float, str]]) -> None:
    """Write a text beside each point, where neither another text nor a point is.

    Parameters
    ----------
    points
        Places in the data's units, and texts. Axes must have their limits.
    """
    figure.draw_without_rendering()  # a layout that follows from what is drawn
    scale = figure.dpi / 72
    places = [axes.transData.transform((x, y)) for x, y, _ in points]
    inside = axes.get_window_extent()
    taken = [
        Bbox.from_bounds(x - MARK * scale / 2, y - MARK * scale / 2, MARK * scale, MARK * scale) for x, y in places
    ]
    for (x, y, text), (at_x, at_y) in zip(points, places, strict=True):
        width, height = 0.64 * SIZE * len(text) * scale, 1.15 * SIZE * scale
        best, least = (0.0, 0.0), float("inf")
        for rank, (reach, (right, up)) in enumerate(product(REACHES, _SIDES)):
            left = at_x + right * reach * scale - (width if right < 0 else width / 2 if right == 0 else 0.0)
            bottom = at_y + up * reach * scale * (0.6 if right else 1.0) - height / 2
            box = Bbox.from_bounds(left, bottom, width, height)
            cost = sum(_overlap(box, other) for other in taken) + 4 * (width * height - _overlap(box, inside))
            if cost + rank * 1e-6 < least - 1e-9:
                best, least = (left, bottom), cost + rank * 1e-6
        box = Bbox.from_bounds(*best, width, height)
        taken.append(box)
        offset = ((box.x0 - at_x) / scale, (box.y0 + height / 2 - at_y) / scale)
        mark = axes.annotate(
            text, (x, y), xytext=offset, textcoords="offset points", va="center", color=LIGHT["ink"], fontsize=SIZE
        )
        mark.set_in_layout(False)


_SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))


def _overlap(one: Bbox, other: Bbox) -> float:
    shared = Bbox.intersection(one, other)
    return 0.0 if shared is None else float(shared.width * shared.height)
