"""What a run asks is noted at the site, and waits for a decision where the site's file says so."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from fedballot.core.errors import SettingsError
from fedballot.deploy import approval
from fedballot.deploy.approval import asked_runs, decide
from fedballot.deploy.site_file import read_site
from tests.deploy.harness import edit, write_data
from tests.deploy.test_ledger_site import ask, charges, make_site, settings_for


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(approval, "LOOK_S", 0.05)
    (tmp_path / "fingerprint").write_text(write_data(tmp_path))
    return make_site(tmp_path, approve="by-hand")


def later(site: Path, run: str, *, approved: bool) -> threading.Thread:
    """Decide once the run waits."""

    def act() -> None:
        for _ in range(400):
            try:
                decide(read_site(site), run, approved=approved)
                return
            except SettingsError:
                time.sleep(0.05)

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_run_waits_until_it_is_approved_and_is_charged_only_then(site: Path) -> None:
    thread = later(site, "r", approved=True)
    _, metrics = ask(site)
    thread.join()
    assert metrics["refused"] == "" and charges(site) == 1
    (record,) = asked_runs(read_site(site))
    assert (record.run, record.method, record.decision) == ("r", "pate-fl", "approved")
    assert 0 < record.epsilon == record.total <= 40 and record.spent == 0 and "epsilon=40" in record.settings


def test_a_refused_run_is_charged_nothing_and_stays_refused(site: Path) -> None:
    thread = later(site, "r", approved=False)
    _, metrics = ask(site)
    thread.join()
    assert metrics["refused"] == "policy" and "have refused this run" in metrics["detail"]
    began = time.monotonic()
    assert ask(site)[1]["refused"] == "policy" and time.monotonic() - began < 30
    assert charges(site) == 0
    decide(read_site(site), "r", approved=True)  # a refusal by mistake
    assert ask(site)[1]["refused"] == "" and charges(site) == 1


def test_without_a_decision_it_is_refused_in_time_and_a_later_one_holds(site: Path) -> None:
    settings = settings_for(site, round_timeout_s=1)
    _, metrics = ask(site, settings=settings)
    assert metrics["refused"] == "policy" and "--resume" in metrics["detail"] and charges(site) == 0
    decide(read_site(site), "r", approved=True)
    assert ask(site, settings=settings)[1]["refused"] == "" and charges(site) == 1


def test_the_same_request_is_not_asked_about_again_but_another_run_is(site: Path) -> None:
    settings = settings_for(site, round_timeout_s=1)
    ask(site, settings=settings)
    decide(read_site(site), "r", approved=True)
    first, _ = ask(site, settings=settings)
    again, _ = ask(site, settings=settings)
    assert first[0].tobytes() == again[0].tobytes()
    assert ask(site, "q/1", settings)[1]["refused"] == "policy"


def test_a_run_that_comes_to_cost_more_than_was_approved_is_asked_about_again(site: Path) -> None:
    settings = settings_for(site, round_timeout_s=1)
    ask(site, settings=settings)
    decide(read_site(site), "r", approved=True)
    assert ask(site, settings=settings)[1]["refused"] == ""
    assert ask(site, "r/2", settings)[1]["refused"] == "policy", "one release was approved"
    (record,) = asked_runs(read_site(site))
    assert record.decision == "waits" and record.total > record.epsilon


def test_what_costs_little_enough_passes_unasked(site: Path) -> None:
    edit(site, unasked_epsilon=100.0)
    assert ask(site)[1]["refused"] == ""
    assert asked_runs(read_site(site))[0].decision == "by rule"
    with pytest.raises(SettingsError, match=r"names no runs of those to be decided by hand here: none"):
        decide(read_site(site), "r", approved=True)


def test_words_of_the_server_are_cut_and_rules_come_first(site: Path) -> None:
    edit(site, largest_epsilon=1.0)
    assert "this site allows" in ask(site)[1]["detail"]
    assert asked_runs(read_site(site)) == []
