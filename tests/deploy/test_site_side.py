"""What stands between a server and a site's records, one bolt at a time: each is seen to hold by itself."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.clients.base import BallotClient
from fedballot.clients.pate import PateClient
from fedballot.clients.workspace import Refusal, Workspace
from fedballot.core.errors import RunError
from fedballot.core.setting import build
from fedballot.datasets.own import SITES
from fedballot.deploy.client import SiteClient, make_site_client, own_version
from fedballot.deploy.rules import check_request, site_settings
from fedballot.deploy.site_file import read_site
from fedballot.deploy.site_ledger import SiteLedger
from fedballot.deploy.time_limit import TimeLimitError, time_limit
from fedballot.methods.registry import Method, get_method
from fedballot.privacy.accounting import GaussianCost
from fedballot.privacy.ledger.ledger import Ledger
from fedballot.runs.engine import federated_data
from tests.deploy.harness import edit
from tests.deploy.hostile import COMMON, make_site, world
from tests.deploy.test_time_limit import in_main, in_thread

COST = GaussianCost(0.5)  # epsilon 1.3 at delta 1e-3


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site's file; it allows all methods, answers in the clear, and epsilon 20 for a release, 30 in all."""
    return make_site(tmp_path, tmp_path / "site", "plain", world(tmp_path), "client")


def settings(site: Path, method: str = "pate-fl", **changes: Any) -> Any:
    kind = get_method(method).settings
    names = {field.name for field in dataclasses.fields(kind)}
    given = {**COMMON, "dataset": SITES, "public_dataset": str(site.parents[1] / "public.npz"), "epsilon": 8.0}
    return build(kind, {name: value for name, value in given.items() if name in names}, changes)


def ask(site: Path, asked: Any = None, name: str = "run/1", method: Method | str = "pate-fl") -> tuple[Any, Any]:
    """The arrays and metrics of the site's answer."""
    asked = asked or settings(site)
    config = {"request": name, "round": 1, "fingerprint": federated_data(asked).public_fingerprint}
    queries = np.arange(asked.query_count, dtype=np.int32)
    found, _, metrics = SiteClient(site, get_method(method) if isinstance(method, str) else method, asked).fit(
        [queries], config
    )
    return found, metrics


def kinds(site: Path) -> list[str]:
    return [line["kind"] for line in Ledger(site.parent / "ledger").lines()]


# rules, each by itself

RULES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # what the file says, what is asked, and the words of the refusal
    "methods": ({"methods": ["fedkd-dp"]}, {}, "method 'pate-fl' is not allowed here; allowed are fedkd-dp"),
    "own records": ({}, {"dataset": "digits", "public_dataset": ""}, "answers with its own records only"),
    "sites": ({}, {"clients": 4}, "clients=4, but this site joined a federation of 3"),
    "queries": ({"queries": 7}, {}, "8 queries are more than the 7 that this site allows"),
    "seeds": ({}, {"noise_seed": 1}, "seeded noise protects nobody"),
    "answers": ({"least_clients": 3}, {"min_clients": 2}, "min_clients=2; this site allows at least 3"),
    "infinite targets": ({}, {"epsilon": float("inf")}, "epsilon=inf: this site releases nothing without noise"),
    "limits": ({}, {"epochs": 501}, "epochs=501; this site allows 1 to 500"),
    "colluders": ({"least_colluders": 1}, {}, "colluders=0; this site allows 1 to 1000000"),
}


@pytest.mark.parametrize(("rules", "changes", "words"), RULES.values(), ids=RULES)
def test_each_rule_refuses_by_itself_what_passes_without_it(
    site: Path, rules: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    check_request(read_site(site), get_method("pate-fl"), settings(site))
    edit(site, **rules)
    with pytest.raises(Refusal) as refusal:
        check_request(read_site(site), get_method("pate-fl"), settings(site, **changes))
    assert refusal.value.reason == "policy" and words in str(refusal.value)


def test_a_site_asks_its_rules_before_anything_else(site: Path) -> None:
    edit(site, methods=["fedkd-dp"], private="gone.npz")
    found, metrics = ask(site)
    assert (found, metrics["refused"]) == ([], "policy") and not (site.parent / "ledger").exists()


def test_a_site_that_asks_for_masks_answers_nothing_in_the_clear(site: Path) -> None:
    assert ask(site)[1]["refused"] == ""
    edit(site, secure_aggregation=True)
    found, metrics = ask(site, name="run/2")
    assert (found, metrics["refused"]) == ([], "policy") and "leaves under masks" in metrics["detail"]
    assert kinds(site).count("charge") == 1


def test_as_many_queries_as_allowed_pass(site: Path) -> None:
    edit(site, queries=8, least_clients=3)
    check_request(read_site(site), get_method("pate-fl"), settings(site))


def test_a_method_of_one_client_is_refused(site: Path) -> None:
    with pytest.raises(Refusal, match="no site takes part in it"):
        check_request(read_site(site), get_method("centralized"), settings(site, "centralized"))


def test_what_the_server_sets_for_itself_reaches_no_client(site: Path) -> None:
    asked = settings(site, server_epochs=31, client_models="mlp-torch", workers=7)
    got, usual = site_settings(read_site(site), asked), site_settings(read_site(site), settings(site))
    assert got == usual and got.client_models == ("logistic-regression",) and got.server_epochs != 31


# the ledger of a site


def release(ledger: SiteLedger, cost: GaussianCost = COST, **given: Any) -> Any:
    return ledger.release("run/1", {"x": cost}, lambda: {"x": np.ones(2)}, digest="asked", **given)


@pytest.mark.parametrize(
    ("mu", "limits", "refused"),
    [
        (0.5, {"largest_epsilon": 2.0, "smallest_epsilon": 1.0}, False),
        (0.5, {"largest_epsilon": 1.0}, True),
        (0.5, {"smallest_epsilon": 2.0}, True),
    ],
)
def test_a_release_lies_within_the_limits_of_a_single_one(
    site: Path, mu: float, limits: dict[str, float], refused: bool
) -> None:
    edit(site, **limits)
    ledger = SiteLedger(read_site(site))
    if not refused:
        assert release(ledger)["x"].tolist() == [1, 1] and ledger.used
        return
    with pytest.raises(Refusal, match="the release costs epsilon 1"):
        ledger.check("run/1", {"x": COST}, "asked")
    with pytest.raises(Refusal, match="the release costs epsilon 1"):
        release(ledger)
    assert ledger.costs() == [] and not ledger.used


@pytest.mark.parametrize("given", [{"seeded": True}, {"uncharged": ["x"]}])
def test_no_seeded_or_uncharged_part_leaves_a_site(site: Path, given: dict[str, Any]) -> None:
    ledger = SiteLedger(read_site(site))
    with pytest.raises(RunError, match="it stays here"):
        release(ledger, **given)
    with pytest.raises(RunError, match="it stays here"):
        ledger.release("run/1", {}, lambda: {}, digest="asked")
    assert ledger.costs() == []
    with pytest.raises(RunError, match="not charged"):
        ledger.require_use()


def test_the_budget_of_the_file_is_the_ledgers(site: Path) -> None:
    assert release(SiteLedger(read_site(site)))["x"].any()
    edit(site, epsilon=1.0)
    lowered = SiteLedger(read_site(site))
    assert lowered.account.epsilon == 1.0
    found, metrics = ask(site, settings(site, epsilon=0.5), "run/2")
    assert (found, metrics["refused"]) == ([], "budget") and kinds(site).count("charge") == 1


@pytest.mark.parametrize(("name", "lines"), [("run/2", 2), ("run/1", 0)])
def test_a_request_reads_the_ledger_once_whatever_it_asks(site: Path, reads: list[str], name: str, lines: int) -> None:
    assert ask(site)[1]["refused"] == "" and reads == [], "it writes the first one"
    before = kinds(site)
    reads.clear()
    assert ask(site, name=name)[1]["refused"] == "" and len(reads) == 1
    assert len(kinds(site)) == len(before) + lines


def test_a_request_that_the_budget_refuses_reads_the_ledger_once(site: Path, reads: list[str]) -> None:
    ask(site)
    edit(site, epsilon=1.0)
    ask(site, name="run/2")  # notes the other budget
    reads.clear()
    assert ask(site, name="run/2")[1]["refused"] == "budget" and len(reads) == 1


def test_lines_of_another_process_are_seen(site: Path) -> None:
    """Although a ledger reads its file once: the first draw is told, the second is not, and both are charged once."""
    read = read_site(site)
    ledger, other = SiteLedger(read), SiteLedger(read)

    def draw() -> dict[str, np.ndarray]:
        other.release("run/1", {"x": COST}, lambda: {"x": np.zeros(2)}, digest="asked")
        return {"x": np.ones(2)}

    assert ledger.release("run/1", {"x": COST}, draw, digest="asked")["x"].tolist() == [0, 0]
    assert [line["kind"] for line in ledger.lines()] == ["open", "charge", "release"]
    assert release(other)["x"].tolist() == [0, 0]
    assert other.head == ledger.head == Ledger(read.budget.ledger).head


# the site's client


def test_an_answer_carries_no_times(site: Path) -> None:
    found, metrics = ask(site)
    assert len(found) == 1 and metrics["refused"] == "" and not {"began", "compute_s"} & metrics.keys()
    assert kinds(site) == ["open", "data", "charge", "release"]


class Forgetful(PateClient):
    """A method that forgets its ledger."""

    def release(self, question: Any, asked: Any) -> dict[str, Any]:
        return dict(self.exact(question))


def test_an_answer_of_a_method_that_forgets_the_ledger_stays(site: Path) -> None:
    forgetful = dataclasses.replace(get_method("pate-fl"), client=Forgetful)
    found, metrics = ask(site, method=forgetful)
    assert (found, metrics["refused"]) == ([], "site") and kinds(site) == ["open", "data"]


def workspace_of(site: Path) -> Workspace[Any]:
    """The client that a site makes of a request."""
    read, seen = read_site(site), []

    def noted(workspace: Workspace[Any]) -> BallotClient[Any]:
        seen.append(workspace)
        return PateClient(workspace)

    method = dataclasses.replace(get_method("pate-fl"), client=noted)  # type: ignore[arg-type]
    make_site_client(read, method, settings(site), SiteLedger(read))
    return seen[0]  # type: ignore[no-any-return]


def test_a_client_is_told_what_its_site_is(site: Path) -> None:
    edit(site, longest_training_s=0.05, secure_aggregation=True)
    workspace = workspace_of(site)
    version = Ledger(site.parent / "ledger").version()
    assert (
        version is not None and workspace.version == version.fingerprint and workspace.records == version.records == 24
    )
    assert isinstance(workspace.ledger, SiteLedger) and workspace.masks_only and workspace.client_id == 1
    assert all(part.size == 0 for number, part in enumerate(workspace.data.parts) if number != 1)
    with pytest.raises(RunError, match="longest_training_s"), workspace.limit():
        for _ in range(200):
            sum(range(10**5))


def overwrite(site: Path, twin: str = "others") -> None:
    """Other records in the place of the site's own."""
    content = (site.parents[1] / f"{twin}.npz").read_bytes()
    (site.parents[1] / "plain.npz").write_bytes(content)


def test_records_that_were_overwritten_are_refused(site: Path) -> None:
    """Although the process has read the former ones."""
    assert ask(site)[1]["refused"] == ""
    overwrite(site)
    for name in ("run/1", "run/2", "run/2"):
        found, metrics = ask(site, name=name)
        assert (found, metrics["refused"]) == ([], "site")
    assert kinds(site).count("charge") == 1


def test_records_that_change_behind_the_charge_are_not_told(site: Path) -> None:
    workspace = workspace_of(site)
    assert len(workspace.private().y) == 24
    overwrite(site)
    with pytest.raises(RunError, match="has changed since the request was charged"):
        workspace.private()


def test_a_version_is_registered_once(site: Path) -> None:
    read = read_site(site)
    ledger = SiteLedger(read)
    first = own_version(read, ledger)
    assert own_version(read, ledger) == first == ledger.version()
    assert [line["kind"] for line in ledger.lines()] == ["open", "data"]


@pytest.mark.parametrize("where", [in_main, in_thread])
def test_work_ends_soon_after_its_time(where: Callable[..., None]) -> None:
    """Not when it is done: what is still to do would take forty times as long."""
    steps = []

    def work() -> None:
        with time_limit(0.05):
            for step in range(400):
                steps.append(step)
                time.sleep(0.005)

    with pytest.raises(TimeLimitError):
        where(work)
    assert len(steps) < 300
