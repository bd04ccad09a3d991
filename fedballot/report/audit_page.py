"""The page of an audit: what a method's own releases give away, against what it claims."""

from fedballot.core import numbers
from fedballot.privacy.audit.mechanisms import Finding
from fedballot.report.audit_plot import panel_figures
from fedballot.report.plot import drawn
from fedballot.report.study import Study
from fedballot.report.tables import Table
from fedballot.report.view import Headline
from fedballot.studies.audit import AuditReport

_TITLES = {"bounds": "What was shown", "p-values": "How likely it is by chance"}
_CAPTIONS = {
    "bounds": "At least this much was shown, with 95 % confidence or more; the line is the claim.",
    "p-values": "Of what was seen, if the claim is true; left of the line it is not.",
}


def audit_page(report: AuditReport) -> Study:
    """What the page says."""
    failed = [one for one in report.layers if not one.finding.passed]
    stamp: tuple[str, ...] = ()
    if failed:
        wrong = ", ".join(f"{one.finding.layer} ({one.release}, {one.part})" for one in failed)
        stamp = ("The claim is contradicted", f"By {wrong}. Release nothing with this code until that is explained.")
    verdict = (
        Headline("The claim", "contradicted", f"by {len(failed)} of {len(report.layers)} tests", "bad")
        if failed
        else (Headline("The claim", "stands", f"none of {len(report.layers)} tests contradicts it", "good"))
    )
    headlines = (
        verdict,
        Headline("ε claimed", numbers.epsilon(report.claim), f"of each release, at δ = {numbers.delta(report.delta)}"),
        Headline("ε shown", f"≥ {report.lower_bound:.2f}", "the largest lower bound, with 95 % confidence"),
    )
    return Study(
        kind="Audit",
        title=report.method,
        lede=f"{numbers.count(report.runs)} releases in each of two worlds that differ in one unit, and attacks that "
        "try to tell the worlds apart.",
        stamp=stamp,
        headlines=headlines,
        plots=tuple(
            drawn(
                _TITLES[name], figure, f"audit-{name}", f"{_TITLES[name]}. {_CAPTIONS[name]}", _CAPTIONS[name], pdf=True
            )
            for name, figure in panel_figures(report)
        ),
        tables=(audit_table(report),),
        notes=(
            "ε is towards whoever sees the release, under the adjacency of the method’s guarantee. An audit can refute "
            "a claim; that it does not is no proof of it.",
        ),
    )


def audit_table(report: AuditReport) -> Table:
    """A row for each layer."""
    rows = tuple(
        (
            layer.release,
            layer.part,
            layer.finding.layer,
            claimed(layer.finding),
            found(layer.finding),
            "stands" if layer.finding.passed else "contradicted",
        )
        for layer in report.layers
    )
    head = ("release", "part", "layer", "claim", "found", "the claim")
    return Table("audit", "What each test found", head, rows, texts=(0, 1, 2, 5))


def claimed(finding: Finding) -> str:
    """The claim that a finding is held against."""
    what, _ = finding.about
    if what in ("ε", "δ"):
        return f"{what} ≤ {(numbers.epsilon if what == 'ε' else numbers.delta)(finding.claim)}"
    return f"{what} {'≤' if what == 'Δ' else '='} {finding.claim:.5g}"


def found(finding: Finding) -> str:
    """What was found."""
    _, what = finding.about
    return f"p = {finding.found:.2g}" if what == "p" else f"{what} ≥ {finding.found:.3g}"
