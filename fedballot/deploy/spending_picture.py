"""A site's spending over time, to be put into a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fedballot.report.spending_plot import spending_figure
from fedballot.report.svg import inline_svg, standalone_svg
from fedballot.studies.ledger_view import Entry


def spending_picture(entries: Sequence[Entry], limit: float) -> Any:
    """Epsilon after each charge against the limit, as SVG; None where nothing was charged, or without noise."""
    from markupsafe import Markup

    charges = [entry for entry in entries if entry.charge is not None]
    if not charges or any(math.isinf(entry.spent) for entry in charges):
        return None
    times, spent = [datetime.fromisoformat(entry.time) for entry in charges], [entry.spent for entry in charges]
    words = f"Epsilon spent by {len(charges)} charges: {spent[-1]:.3g} of {limit:g}"
    return Markup(inline_svg(standalone_svg(spending_figure(times, spent, limit)), "spending", words))
