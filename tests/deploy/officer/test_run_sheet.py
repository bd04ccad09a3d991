"""The evaluation sheet of a run: what backs a statement exists, and each finding follows from the run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fedballot.deploy.officer.evidence import METHOD_TESTS, all_evidence
from fedballot.deploy.officer.public_part import public_part
from fedballot.deploy.officer.run_sheet import run_sheet
from fedballot.deploy.officer.sheet import Row
from fedballot.methods.registry import all_methods
from tests.run_folders import guarantee

ROOT = Path(__file__).parents[3]


def rows_of(result: dict[str, Any], audit: dict[str, Any] | None = None, **changes: Any) -> dict[str, Row]:
    """The sheet of a changed result, by heading; of several rows the first."""
    sheet: dict[str, Row] = {}
    for row in run_sheet(public_part({**result, **changes}), audit):
        sheet.setdefault(row.heading, row)
    return sheet


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", sorted(all_evidence()))
def test_what_backs_a_statement_exists(path: str) -> None:
    place, _, anchor = path.partition("#")
    assert (ROOT / place).is_file()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", (ROOT / place).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {slug(heading) for heading in headings}
    else:
        assert "def test_" in (ROOT / place).read_text(encoding="utf-8")


def test_every_method_with_a_promise_has_tests_and_no_other_has() -> None:
    promising = {
        name for name, method in all_methods().items() if not method.protects.startswith(("nothing", "everything"))
    }
    assert set(METHOD_TESTS) == promising


def test_the_sheet_names_no_evidence_that_is_not_listed(result: dict[str, Any]) -> None:
    for row in rows_of(result).values():
        assert set(row.evidence) <= all_evidence()


def test_a_run_without_privacy_is_said_to_have_none(result: dict[str, Any]) -> None:
    sheet = rows_of(result, guarantees=[])
    assert sheet["Privacy parameters ε and δ"].finding == "missing"
    assert sheet["Algorithms and correctness: mechanisms"].finding == "missing"
    assert sheet["Side channels: randomness and floating point"].finding == "missing"
    assert sheet["Trust models"].finding == sheet["Auditing and empirical measures"].finding == "missing"


def test_what_nobody_claims_is_called_no_kind_of_privacy(result: dict[str, Any]) -> None:
    sheet = rows_of(result, guarantees=[guarantee(epsilon=None, delta=0.0, status="none", sentence="Nothing.")])
    assert sheet["Privacy parameters ε and δ"].statement == "Nothing."
    assert sheet["Unit of privacy"].finding == "missing"
    assert not [heading for heading in sheet if heading.startswith("Unit of privacy:")]


def test_a_paper_s_figure_beside_a_proved_one_takes_nothing_from_it(result: dict[str, Any]) -> None:
    both = [guarantee(), guarantee(status="paper's claim", composition="as in the paper", accountant="moments")]
    sheet = rows_of(result, guarantees=both)
    assert sheet["Algorithms and correctness: mechanisms"].finding == "backed"
    accounting = sheet["Algorithms and correctness: accounting"]
    assert accounting.finding == "backed" and "moments" not in accounting.statement


@pytest.mark.parametrize(
    ("changes", "heading", "finding"),
    [
        ({"epsilon": 0.5, "delta": 1e-6}, "Privacy parameters ε and δ", "backed"),
        ({"epsilon": 30.0}, "Privacy parameters ε and δ", "missing"),
        ({"status": "seeded"}, "Privacy parameters ε and δ", "missing"),
        ({"status": "seeded"}, "Side channels: randomness and floating point", "missing"),
        ({"status": "seeded"}, "Algorithms and correctness: mechanisms", "missing"),
        ({"status": "seeded"}, "Algorithms and correctness: accounting", "missing"),
        ({}, "Algorithms and correctness: mechanisms", "backed"),
        ({"status": "paper's claim"}, "Algorithms and correctness: mechanisms", "limited"),
        ({"status": "paper's claim"}, "Algorithms and correctness: accounting", "limited"),
        ({"adjacency": "add-remove"}, "Unit of privacy: bounded or unbounded", "backed"),
        ({"adjacency": "replace-one"}, "Unit of privacy: bounded or unbounded", "limited"),
        ({"unit": "record"}, "Unit of privacy: one person’s data", "limited"),
        ({"unit": "client"}, "Unit of privacy: one person’s data", "backed"),
    ],
)
def test_findings_follow_from_the_guarantee(
    result: dict[str, Any], changes: dict[str, Any], heading: str, finding: str
) -> None:
    assert rows_of(result, guarantees=[guarantee(**changes)])[heading].finding == finding


def test_seeded_noise_is_called_that(result: dict[str, Any]) -> None:
    sheet = rows_of(result, guarantees=[guarantee(status="seeded")])
    for heading in ("Side channels: randomness and floating point", "Algorithms and correctness: mechanisms"):
        assert "known seed" in sheet[heading].statement


def test_a_method_of_another_package_is_not_vouched_for(result: dict[str, Any]) -> None:
    sheet = rows_of(result, method="package.module:METHOD")
    assert sheet["Algorithms and correctness: mechanisms"].finding == "open"
    assert sheet["Side channels: randomness and floating point"].finding == "open"


def test_a_federation_is_told_from_a_simulation(result: dict[str, Any]) -> None:
    real = {**result["data"], "n_private": None, "client_sizes": None}
    trust = [guarantee(trust="secure aggregation (min_clients=3, colluders=1)")]
    masks = {"secure": True, "words": "Under masks.", "colluders": 1}
    made_up = rows_of(result, guarantees=trust, aggregation=masks)
    federated = rows_of(result, data=real, guarantees=trust, aggregation=masks)
    for heading, before, after in (
        ("Trust models", "limited", "backed"),
        ("Data security and access control", "missing", "limited"),
        ("Data collection exposure", "missing", "backed"),
        ("Side channels: refusals and error messages", "open", "backed"),
    ):
        assert (made_up[heading].finding, federated[heading].finding) == (before, after)
    assert "tests/wire/secagg/test_hostile.py" in federated["Trust models"].evidence
    alone = rows_of(result, data=real, guarantees=trust, aggregation={**masks, "colluders": 0})
    assert alone["Trust models"].finding == "limited" and "one too many" in alone["Trust models"].statement
    plain = rows_of(result, data=real)
    assert plain["Trust models"].finding == "limited", "a server that must be trusted"


def test_an_audit_is_told_as_it_came_out(result: dict[str, Any]) -> None:
    heading = "Auditing and empirical measures"
    report = {"method": "pate-fl", "claim": 1.0, "delta": 1e-5, "layers": [{}], "passed": True, "lower_bound": 0.30199}
    assert rows_of(result)[heading].finding == "open"
    passed = rows_of(result, audit=report)[heading]
    assert passed.finding == "backed" and "ε ≥ 0.301 " in passed.statement
    failed = rows_of(result, audit={**report, "passed": False})[heading]
    assert failed.finding == "missing" and "contradicted" in failed.statement
