"""`fedballot budget`, `audit` and `ledger`: figures, exit codes, words for mistakes, faults that are caught."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from fedballot.cli import main as cli
from fedballot.clients.pate import PateClient
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import SettingsError
from fedballot.core.folders import ClientFolder
from fedballot.core.progress import Silent
from fedballot.privacy.accounting import DeltaCost, GaussianCost, IntegerCost, LaplaceCost, PoissonCost, PureCost
from fedballot.privacy.audit import mechanisms as audit_runs
from fedballot.privacy.ledger import Account, Chain, Ledger
from fedballot.privacy.ledger.samples import sample_once
from fedballot.privacy.mechanisms import histogram, subsampled, vectors, votes
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.noise.randomness import os_noise, seeded_noise
from fedballot.report.audit_plot import audit_figure
from fedballot.runs.engine import federated_data
from fedballot.studies import audit as auditing
from fedballot.studies.audits import samples
from fedballot.studies.audits.mechanisms import audit_alone, knows
from fedballot.studies.ledger_view import view
from tests.audited import AUDITED
from tests.faults import each_fault, no_noise


@pytest.fixture
def call(capsys, monkeypatch):
    """Run the command line in this process: exit code, stdout, and stderr with its spaces joined."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedballot", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out, " ".join(printed.err.split())

    return run


def draw() -> dict[str, np.ndarray]:
    return {"x": np.ones(3)}


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    made = Ledger(tmp_path / "ledger", Account("site [3]", "sha256:12ab", "record", "replace-one", 1.0, 1e-5))
    made.release("round [1]", {"x": GaussianCost(0.1)}, draw, digest="asked")
    made.release("round 2", {"x": GaussianCost(0.1)}, draw, digest="asked")
    return made


# budget


def sets(**values: object) -> list[str]:
    """Settings as the command line takes them."""
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


@pytest.mark.parametrize(
    ("words", "part", "epsilon"),
    [
        (["private-knn-fl"], "votes", 4.3),
        (["fedkd-dp", "--classes", 10], "logits", 8.0),
        (["fedmd-ldp", "--classes", 10], "predictions", 1.0),
        (["fedmd-nfdp", "--records", 1000], "sample", 0.0),
        (["fedauxfdp", "--classes", 10, "--features", 64, "--records", 500], "sums", 0.5),
        (["fedauxfdp-sum", "--classes", 10], "sums", 0.5),
        (["fedd-p", "--classes", 10, "--features", 64, "--records", 500, "--negatives", 9], "classes", 0.5),
        (["fedavg-p", "--classes", 10, "--features", 64, "--records", 500, "--negatives", 9], "classes", 0.5),
        (["dp-fedavg", "--weights", 1000], "difference", 4.3),
        (["dp-fedsgd", "--weights", 1000], "difference", 4.3),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, list) else "",
)
def test_every_private_method_can_be_planned(words, part, epsilon, call) -> None:
    code, out, _ = call("budget", *words, "--budget", 50, "--json")
    found = json.loads(out)
    spent = found.get("spending", found)
    assert code == 0 and [one["name"] for one in spent["parts"]] == [part]
    assert found["guarantees"][0]["epsilon"] == pytest.approx(epsilon, rel=1e-3)
    assert spent["runs"] >= 1 and spent["charges"][0]["epsilon"] >= epsilon * (1 - 1e-3)


def test_budget_solves_the_noise_of_a_preset(call, tmp_path) -> None:
    picture = tmp_path / "plan.png"
    code, out, _ = call("budget", "pate-fl", "--preset", "pate-mnist-noniid", "--json", "--out", picture)
    found = json.loads(out)
    assert code == 0 and found["fits"]
    assert (found["queries"], found["max_votes"], found["min_clients"]) == (3000, 1650, 100)
    assert found["sigma"] == pytest.approx(31.565, abs=0.001)
    saved = {(row["unit"], row["route"]): row["saved"] for row in found["rows"]}
    assert saved["client", "mironov"] == pytest.approx(0.209, abs=0.001)
    assert found["guarantees"][0]["epsilon"] == pytest.approx(4.3)
    assert "at most a factor of 73.7 (epsilon = 4.3), plus 0.001 (delta)" in found["guarantees"][0]["sentence"]
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_budget_works_out_epsilon_from_noise(call) -> None:
    words = sets(sigma=25, queries=500, vote_fraction=1, delta=1e-5, min_clients=100)
    code, out, _ = call("budget", "pate-fl", *words)
    assert code == 0
    assert "3.85" in out and "5.76" in out and "134" in out  # client, record, the server's own view
    assert "budget" not in out


def test_budget_says_when_noise_and_epsilon_do_not_fit(call) -> None:
    noise = {"sigma": 30, "epsilon": 2, "queries": 2000}
    code, out, err = call("budget", "pate-fl", *sets(**noise, vote_fraction=0.5))
    assert code == 0 and "EXCEEDED" in out
    assert "σ ≥ 45.703" in err and "at most 430 of the votes" in err
    again = json.loads(call("budget", "pate-fl", *sets(**noise, vote_fraction=0.215), "--json")[1])
    assert again["fits"] and again["max_votes"] == 430


def test_budget_follows_options_before_presets(call) -> None:
    words = ["--preset", "demo", *sets(clients=50, unit="record", epsilon=1, queries=4000, colluders=5)]
    found = json.loads(call("budget", "pate-fl", *words, "--json")[1])
    assert (found["clients"], found["min_clients"], found["colluders"]) == (50, 45, 5)
    assert (found["unit"], found["queries"], found["target_epsilon"]) == ("record", 4000, 1.0)


def test_a_plan_names_both_worlds_and_says_that_it_does_not_know_how_many_records_there_are(call) -> None:
    code, out, err = call("budget", "pate-fl", "--preset", "demo", *sets(unit="record"))
    said = " ".join(out.replace("│", " ").split())
    assert code == 0 and "ε for one whole client (zero-out)" in said and "ε for one record (replace-one)" in said
    assert "to replace is to blank one and put in another" in said
    assert "How many records there are is not known here" in err and "1,000 records or more" in err
    code, out, _ = call("budget", "private-knn-fl", "--preset", "knn-mnist")
    assert code == 0 and "put in another" not in " ".join(out.split())


def test_budget_warns_of_shares_that_cannot_be_smaller(call) -> None:
    code, _, err = call("budget", "pate-fl", *sets(epsilon=50, queries=10))
    assert code == 0 and "share" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["standalone"], "no guarantee, so nothing is ever charged"),
        (["fedavg"], "Weights without noise: no guarantee"),
        (["pate"], "did you mean 'pate-fl'"),
        (["pate-fl", *sets(epsilon=0)], "more than 0"),
        (["pate-fl", *sets(epsilon="inf")], "no guarantee"),
        (["pate-fl", *sets(epsilon="nan")], "finite"),
        (["pate-fl", *sets(sigma=-1)], "at least 0"),
        (["pate-fl", *sets(sigma=0.5)], "sigma=0.5 asks for noise"),
        (["pate-fl", *sets(sigma=1e6, queries=10)], "where plans start"),
        (["pate-fl", *sets(epsilon=1e-300)], "where plans start"),
        (["pate-fl", *sets(delta=1)], "less than 1"),
        (["pate-fl", *sets(unit="person")], "client, record"),
        (["pate-fl", *sets(queries=0)], "at least 1"),
        (["pate-fl", *sets(clients=0)], "at least 1"),
        (["pate-fl", "--preset", "demoo"], "did you mean 'demo'"),
        (["pate-fl", *sets(colluder=1)], "'colluders'"),
        (["pate-fl", "--out", "plan.gif"], ".png"),
        (["pate-fl", "--out", "/nowhere/plan.png"], "folder"),
        (["fedkd-dp"], "--classes N"),
        (["fedauxfdp", "--classes", "10"], "--features N"),
        (["dp-fedavg"], "--weights N"),
        (["fedkd-dp", "--classes", "10", "--out", "plan.png"], "noisy votes only"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_budget_refuses(words, told, call) -> None:
    code, out, err = call("budget", *words)
    assert code == 2 and told in err and "Traceback" not in err and out == ""


# audit


@pytest.mark.slow
@pytest.mark.parametrize(("method", "seed"), [("pate-fl", 1), ("pate-fl", 2), ("private-knn-fl", 1)])
def test_correct_code_passes(method: str, seed: int, tmp_path) -> None:
    report = auditing.audit_method(method, 1.0, 6000, Silent(), seed=seed)
    assert report.passed and 0 <= report.lower_bound <= report.claim
    each = [
        ("mechanism", "variance"),
        ("mechanism", "two worlds"),
        ("mechanism", "one run"),
        ("clients", "variance"),
        ("clients", "two worlds"),
    ]
    weighted = each if method == "pate-fl" else []  # votes of clients that allow less
    assert [(layer.part, layer.finding.layer) for layer in report.layers] == each + weighted


@each_fault
def test_faulty_code_is_caught_through_the_real_clients(fault, caught, call, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(votes, "discrete_gaussian", fault)
    code, out, err = call("audit", "pate-fl", "--runs", 8000, "--json", "--out", tmp_path)
    assert code == 1 and "contradicted" in err
    found = json.loads(out)
    failed = {(layer["part"], layer["layer"]) for layer in found["layers"] if not layer["passed"]}
    wanted = {(part, layer) for part in ("mechanism", "clients") for layer in caught} - {("clients", "one run")}
    assert failed >= wanted and not found["passed"]
    assert json.loads((tmp_path / "audit.json").read_text()) == found
    assert (tmp_path / "audit.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("method", [name for name in AUDITED if name not in ("pate-fl", "fedmd-nfdp")])
def test_every_audited_mechanism_passes_and_its_method_is_caught_without_noise(method, call, monkeypatch) -> None:
    """That real clients pass as well is looked at in tests/studies/test_audit.py, at twice as many runs."""
    alone = [
        audit_alone(release.mechanism, 1.0, seeded_noise(3), 1000)
        for release in auditing.releases(method, 1.0)
        if knows(release.mechanism)
    ]
    assert all(finding.passed for findings in alone for finding in findings), alone
    assert alone or method in ("fedmd-ldp", "dp-fedavg", "dp-fedsgd")  # whose clients alone are audited
    for module in (votes, vectors, subsampled, histogram):
        monkeypatch.setattr(module, "discrete_gaussian", no_noise)
    code, out, err = call("audit", method, "--runs", 1000, "--json")
    assert code == 1 and "contradicted" in err and json.loads(out)["method"] == method
    noisy = [layer for layer in json.loads(out)["layers"] if layer["layer"] not in ("batches", "reach")]
    assert noisy and all(not layer["passed"] for layer in noisy)


def test_a_sample_is_audited_by_its_delta(call, monkeypatch) -> None:
    monkeypatch.setattr(samples, "SAMPLES", 10)  # tests/studies/test_audit.py looks at all of them
    code, out, _ = call("audit", "fedmd-nfdp", "--runs", 1000)
    assert code == 0 and "δ ≤ 0.227" in out and "δ ≥" in out


def test_audit_as_a_table_with_progress_on_stderr(call, monkeypatch) -> None:
    monkeypatch.setattr(audit_runs, "ALARM", 1e-15)  # secret noise here: no false alarm once in ten thousand runs
    code, out, err = call("audit", "pate-fl", "--runs", 2000, "--claim", 0.8)
    assert code == 0 and out.count("stands") == 2 * 5  # of votes, and of votes with weights
    assert "real clients, votes: 2 of 2" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["standalone"], "private as a whole"),
        (["fedkd"], "private as a whole"),
        (["pate"], "did you mean 'pate-fl'"),
        (["pate-fl", "--claim", "0"], "epsilon"),
        (["pate-fl", "--claim", "30"], "up to that"),
        (["pate-fl", "--runs", "10"], "1,000"),
        (["pate-fl", "--out", __file__], "is a file"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_audit_refuses(words, told, call) -> None:
    code, out, err = call("audit", *words)
    assert code == 2 and told in err and out == ""


def test_the_picture_of_a_refuted_claim_says_so() -> None:
    layers = tuple(
        auditing.Layer("votes", "mechanism", audit_runs.Finding(*values))
        for values in [("variance", 14.0, 0.0, False), ("two worlds", 1.0, 5.0, False), ("one run", 1.0, 0.0, True)]
    )
    report = auditing.AuditReport("pate-fl", 1.0, 1e-5, 8000, layers)
    figure = audit_figure(report)
    assert "CONTRADICTED" in figure.get_suptitle()
    assert report.lower_bound == 5.0 and not report.passed


# ledger


@pytest.mark.parametrize("which", ["folder", "file"])
def test_show_tells_lines_costs_and_what_is_left(which, call, ledger) -> None:
    path = ledger.folder if which == "folder" else ledger.path
    found = json.loads(call("ledger", "show", path, "--json")[1])
    assert [entry["what"] for entry in found["entries"]] == ["opened", "charged", "released", "charged", "released"]
    spent = [entry["spent"] for entry in found["entries"]]
    assert spent[0] == 0 < spent[1] == spent[2] < spent[3] == found["spent"] == pytest.approx(ledger.spent())
    assert found["spent"] < found["guarantee"]["epsilon"] == found["account"]["epsilon"]
    assert found["head"] == ledger.head
    code, out, _ = call("ledger", "show", path)
    text = " ".join(out.replace("│", " ").split())
    assert code == 0 and "round [1]" in text and "site [3]" in text
    assert f"{found['fits_again']} more releases like 'round 2'" in text
    assert "Only single records are protected" in text
    for _ in range(found["fits_again"]):
        ledger.release(f"more {_}", {"x": GaussianCost(0.1)}, draw, digest="asked")
    assert "no more releases" in " ".join(call("ledger", "show", path)[1].split())


def test_show_of_a_new_ledger_and_of_a_sample(call, tmp_path) -> None:
    made = Ledger(tmp_path, Account("a", "d", "record", "add-remove", 0.5, 0.01))
    code, out, _ = call("ledger", "show", tmp_path)
    assert code == 0 and "nothing" in out and "ε = 0.500" in out
    sample_once(made, NfdpSample(2880, 18), os_noise())
    found = json.loads(call("ledger", "show", tmp_path, "--json")[1])
    assert (found["spent"], found["fits_again"]) == (0.0, None)
    assert "δ = 0.00624, once" in found["entries"][1]["cost"]
    code, out, _ = call("ledger", "show", tmp_path)
    text = " ".join(out.replace("│", " ").split())
    assert code == 0 and "a sample of the records" in text
    assert "protects one record (add-remove)" in text
    assert "With probability at least 0.99 a given record was never used" in text


def test_show_says_where_noise_came_from_a_seed(call, tmp_path) -> None:
    made = Ledger(tmp_path, Account("a", "d", "record", "replace-one", 9.0, 1e-5))
    made.release("round 1", {"x": GaussianCost(0.1)}, draw, digest="asked")
    assert json.loads(call("ledger", "show", tmp_path, "--json")[1])["guarantee"]["status"] == "proved"
    made.release("round 2", {"x": GaussianCost(0.1)}, draw, digest="asked", seeded=True)
    found = json.loads(call("ledger", "show", tmp_path, "--json")[1])
    assert found["guarantee"]["status"] == "seeded" and "seeded noise in 1 of them" in found["guarantee"]["sentence"]
    assert ["SEEDED" in entry["cost"] for entry in found["entries"] if entry["what"] == "charged"] == [False, True]
    assert "NOT PRIVATE" in call("ledger", "show", tmp_path)[1]


def test_a_budget_that_is_all_delta_has_no_finite_epsilon(call, tmp_path, monkeypatch) -> None:
    made = Ledger(tmp_path, Account("a", "d", "record", "add-remove", 1.0, 1e-3))
    monkeypatch.setattr(Chain, "_require_budget", lambda *_: None)  # as an older, laxer program might have written it
    made.release("sample", {"x": DeltaCost(0.1)}, draw, digest="asked")
    found = json.loads(call("ledger", "show", tmp_path, "--json")[1])
    assert found["spent"] is None and "no privacy guarantee" in found["guarantee"]["sentence"]
    assert "∞" in call("ledger", "show", tmp_path)[1]


def test_every_kind_of_cost_has_words(tmp_path) -> None:
    made = Ledger(tmp_path, Account("a", "d", "record", "add-remove", 1e4, 1e-5, "rdp"))
    costs = [GaussianCost(0.1, 2), LaplaceCost(0.1), PureCost(0.1), IntegerCost(1.0, 1, 20.0), PoissonCost(0.1, 2.0, 3)]
    for number, cost in enumerate(costs):
        made.release(f"{number}", {"x": cost}, draw, digest="asked")
    words = [entry.cost for entry in view(made).entries if entry.what == "charged"]
    wanted = ["Gaussian noise, 2 times", "Laplace noise", "pure privacy", "integer Gaussian noise", "3 steps"]
    assert all(want in word and "by itself" in word for want, word in zip(wanted, words, strict=True))


@pytest.mark.slow
def test_the_ledger_of_a_real_client_is_readable(call, small, tmp_path) -> None:
    folder = ClientFolder(tmp_path)
    client = PateClient(Workspace(0, small, federated_data(small), folder, "cpu"))
    queries = np.arange(small.query_count, dtype=np.int32)
    client.fit([queries], {"request": "run/1", "fingerprint": client.workspace.data.public_fingerprint})
    code, _, err = call("ledger", "verify", tmp_path)
    assert code == 2 and f"try {tmp_path}/ledger" in err
    assert call("ledger", "verify", tmp_path / "ledger")[0] == 0
    found = json.loads(call("ledger", "show", tmp_path / "ledger", "--json")[1])
    assert found["account"]["unit"] == "client" and found["fits_again"] == 0
    assert 0 < found["spent"] <= found["account"]["epsilon"] <= 20


def test_verify_counts_lines_and_names_the_one_that_is_wrong(call, ledger) -> None:
    code, out, _ = call("ledger", "verify", ledger.folder)
    assert code == 0 and "5 lines" in out and ledger.head in out
    assert json.loads(call("ledger", "verify", ledger.folder, "--json")[1])["whole"]
    text = ledger.path.read_text()
    ledger.path.write_text(text.replace('"mu": 0.1', '"mu": 0.01', 1))
    code, out, err = call("ledger", "verify", ledger.folder)
    assert code == 1 and "line 2" in err and out == ""
    assert call("ledger", "show", ledger.folder)[0] == 2
    ledger.path.write_bytes(b"\xff\xfe" + text.encode())
    code, _, err = call("ledger", "verify", ledger.folder)
    assert code == 1 and "is not text" in err
    ledger.path.write_text(text)
    next((ledger.folder / "releases").iterdir()).write_bytes(b"?")
    code, _, err = call("ledger", "verify", ledger.folder)
    assert code == 1 and "not the release" in err


def test_budget_of_a_ledger_is_shown_lowered_and_raised_on_the_record(call, ledger) -> None:
    found = json.loads(call("ledger", "budget", ledger.folder, "--json")[1])
    assert found["account"]["epsilon"] == 1.0 and "entries" not in found
    assert call("ledger", "budget", ledger.folder, "--epsilon", 0.9)[0] == 0
    assert ledger.account.epsilon == 0.9
    code, _, err = call("ledger", "budget", ledger.folder, "--epsilon", 5)
    assert code == 2 and "--raise" in err and ledger.account.epsilon == 0.9
    code, out, _ = call("ledger", "budget", ledger.folder, "--epsilon", 5, "--raise")
    assert code == 0 and ledger.account.epsilon == 5 and out.count("limit ε") == 3
    before = ledger.head
    assert call("ledger", "budget", ledger.folder, "--epsilon", 5)[0] == 0 and ledger.head == before
    code, _, err = call("ledger", "budget", ledger.folder, "--epsilon", 0.1)
    assert code == 0 and "nothing more will be released" in err
    with pytest.raises(SettingsError, match="budget"):
        ledger.release("round 3", {"x": GaussianCost(1e-6)}, draw, digest="asked")


def test_a_limit_that_cannot_be_written_stays(call, ledger) -> None:
    (ledger.folder / "ledger.lock").unlink()
    (ledger.folder / "ledger.lock").mkdir()  # nobody may write there, not even root
    code, _, err = call("ledger", "budget", ledger.folder, "--epsilon", 0.9)
    assert code == 1 and "cannot be written, so the limit stays 1" in err and ledger.account.epsilon == 1.0


@pytest.mark.parametrize("words", [["--raise"], ["--epsilon", "0.5", "--raise"], ["--epsilon", "-1"]])
def test_budget_of_a_ledger_refuses(words, call, ledger) -> None:
    before = ledger.path.read_bytes()
    code, out, err = call("ledger", "budget", ledger.folder, *words)
    assert code == 2 and ("--raise" in err or "epsilon" in err) and out == ""
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("command", ["show", "verify", "budget"])
def test_no_ledger(command, call, tmp_path) -> None:
    for path in (tmp_path, tmp_path / "ledger.jsonl", Path("/nowhere")):
        code, out, err = call("ledger", command, path)
        assert code == 2 and "no ledger" in err and out == ""
    other = tmp_path / "other.txt"
    other.write_text("x")
    assert "named ledger.jsonl" in call("ledger", command, other)[2]
