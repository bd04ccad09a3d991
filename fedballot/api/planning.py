"""What is asked before a run: what it costs, and whether a method keeps what it claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedballot.api.experiment import resolve
from fedballot.api.objects import as_settings
from fedballot.api.watch import listener
from fedballot.core.errors import SettingsError
from fedballot.core.progress import Progress

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedballot.privacy.guarantee import Guarantee
    from fedballot.studies.audit import AuditReport
    from fedballot.studies.budget import Plan
    from fedballot.studies.spending import Spending

FACTS = ("classes", "records", "features", "negatives", "weights")


@dataclass(frozen=True)
class Budget:
    """What a run would cost, planned from its settings alone.

    Attributes
    ----------
    method : str
    spending : Spending
        Each part's cost, and the charge to a ledger of each unit.
    guarantees : tuple of Guarantee
        What would be promised.
    plan : Plan or None
        Of noisy votes: noise, votes and clients against ε.
    aimed : bool
        Whether an ε was asked for, and the noise follows; else the other way round.
    clients : int
    """

    method: str
    spending: Spending
    guarantees: tuple[Guarantee, ...]
    plan: Plan | None
    aimed: bool
    clients: int

    @property
    def guarantee(self) -> Guarantee:
        """The first."""
        return self.guarantees[0]

    @property
    def runs(self) -> int | None:
        """How many such runs the budget pays for; None: no budget was given."""
        return self.spending.runs

    def to_frame(self) -> pd.DataFrame:
        """A row for each unit whose ledger would be charged."""
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(charge) for charge in self.spending.charges])

    def figure(self) -> Figure | None:
        """Of noisy votes: what ε asks of noise, votes and clients."""
        if self.plan is None:
            return None
        from fedballot.report.budget_plot import planning_figure

        return planning_figure(self.plan)

    def _repr_html_(self) -> str:
        from fedballot.report.shown import shown

        return shown(
            f"Plan of {self.method}", self.to_frame(), self.figure(), [one.sentence() for one in self.guarantees]
        )

    def write(self, out: str | Path) -> Path:
        """Write it as a page (``.html``), a table (``.csv``, ``.tex``, ``.md``) or, of votes, a picture.

        Raises
        ------
        SettingsError
            If the file ends otherwise, is none of fedballot's, or a picture has nothing to show.
        """
        from fedballot.report.budget_page import budget_page
        from fedballot.report.canvas import write_picture
        from fedballot.report.study import write_study
        from fedballot.report.tables import FORMATS, write_table

        path = Path(out)
        page = budget_page(self.method, self.plan, self.spending, self.guarantees, self.clients, aimed=self.aimed)
        if path.suffix == ".html":
            return write_study(page, path)
        if path.suffix in FORMATS:
            write_table(page.tables[-1], path)
        elif (figure := self.figure()) is None:
            raise SettingsError(f"--out {path}: there is a figure of noisy votes only; write .html or .csv")
        else:
            write_picture(figure, path)
        return path


def budget(
    method: str,
    *,
    preset: str | None = None,
    budget: float | None = None,
    facts: Mapping[str, int] | None = None,
    **settings: Any,
) -> Budget:
    """Plan without running: what a run costs, and whom it protects.

    Parameters
    ----------
    budget : float, optional
        Epsilon of a ledger: how many such runs does it pay for?
    facts : mapping, optional
        What the noise of some methods depends on: ``classes``, ``records`` (of a client), ``features``, ``negatives``,
        ``weights``.

    Raises
    ------
    SettingsError
        If a setting cannot work, a fact is missing, or the method promises nothing.
    """
    from fedballot.privacy.mechanisms.votes import NoisyVotes
    from fedballot.settings.layers import load_preset, preset_layers
    from fedballot.studies import budget as planning
    from fedballot.studies.spending import composition_of, spending

    values = as_settings(settings)
    if "queries" in values:  # a plan reads no data: the pool is as large as it must be
        values = {"public_size": values["queries"], **values}
    chosen: Any = resolve(method, values, preset)
    composition = composition_of(chosen, {name: (facts or {}).get(name) for name in FACTS})
    spent = spending(composition, budget)
    plan, aimed = None, True
    (first, *more) = composition.parts.values()
    if isinstance(first, NoisyVotes) and not more:
        from fedballot.methods.registry import get_method, settings_types

        found = get_method(method)
        layers = preset_layers(load_preset(preset), found.name, settings_types(found)) if preset else []
        aimed = any("epsilon" in layer for layer in [*layers, values]) or not chosen.sigma
        plan = planning.make_plan(first, composition.delta, composition.unit, chosen.epsilon if aimed else None)
    return Budget(method, spent, tuple(composition.guarantees()), plan, aimed, chosen.clients)


def audit(
    method: str,
    *,
    claim: float = 1.0,
    runs: int = 20_000,
    seed: int | None = None,
    progress: bool | Progress = True,
) -> AuditReport:
    """Try to refute what a method claims, from its own releases.

    Parameters
    ----------
    claim : float
        Epsilon of the one release that is audited; 1 or less.
    runs : int
        Releases in each of two worlds.

    Returns
    -------
    AuditReport
        ``passed``, ``lower_bound``, and each layer's finding.
    """
    from fedballot.studies.audit import audit_method

    return audit_method(method, claim, runs, listener(progress), seed)
