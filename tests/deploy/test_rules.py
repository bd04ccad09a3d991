"""A site's own client, without the network: its rules, its ledger, and what it tells about its data."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import RunError
from fedballot.core.setting import build
from fedballot.datasets.own import SITES
from fedballot.deploy.check import check_site
from fedballot.deploy.client import SiteClient
from fedballot.deploy.site_file import read_site
from fedballot.deploy.site_ledger import SiteLedger
from fedballot.deploy.template import init_site
from fedballot.methods.registry import get_method
from fedballot.privacy.accounting import GaussianCost
from fedballot.privacy.ledger import Ledger
from fedballot.runs.engine import federated_data
from fedballot.settings.parts import CommonSettings
from fedballot.settings.voting import PateSettings
from tests.conftest import fitting
from tests.deploy.harness import edit, write_data


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site's file whose budget, 100, is enough for two releases of epsilon 40."""
    print_ = write_data(tmp_path)
    init_site(tmp_path / "site", number=1, sites=3, server="localhost:1")
    path = tmp_path / "site" / "site.toml"
    edit(
        path,
        model="logistic-regression",
        private=str(tmp_path / "own1.npz"),
        public=str(tmp_path / "public.npz"),
        public_fingerprint=print_,
        largest_epsilon=50.0,
        epsilon=100.0,
        secure_aggregation=False,
    )
    return path


def settings_for(site: Path, **changes: Any) -> PateSettings:
    values = {
        "dataset": SITES,
        "public_dataset": str(site.parents[1] / "public.npz"),
        "clients": 3,
        "public_size": 200,
        "test_size": 100,
        "epsilon": 40,
        "vote_fraction": 1,
        "server_model": "logistic-regression",
        "client_models": "mlp",
        **changes,
    }
    return build(PateSettings, values)


def ask(site: Path, settings: PateSettings, request: str = "r/1", method: str = "pate-fl") -> Any:
    """The arrays and metrics of the site's answer."""
    config = {"request": request, "round": 1, "fingerprint": federated_data(settings).public_fingerprint}
    queries = np.arange(settings.query_count, dtype=np.int32)
    arrays, one, metrics = SiteClient(site, get_method(method), settings).fit([queries], config)
    assert one == 1
    return arrays, metrics


def fingerprint(site: Path) -> str:
    """Of the public records."""
    return federated_data(settings_for(site)).public_fingerprint


def charges(site: Path) -> int:
    path = site.parent / "ledger" / "ledger.jsonl"
    return path.read_text().count('"kind": "charge"') if path.exists() else 0


def test_the_same_request_gets_the_same_bytes_and_one_charge(site):
    first, metrics = ask(site, settings_for(site))
    assert metrics["refused"] == "" and metrics["client_id"] == 1 and first[0].shape == (200, 10)
    again, _ = ask(site, settings_for(site))
    assert first[0].tobytes() == again[0].tobytes() and charges(site) == 1
    other, _ = ask(site, settings_for(site), "r/2")
    assert first[0].tobytes() != other[0].tobytes() and charges(site) == 2


def test_the_site_trains_its_own_model_on_its_own_records(site):
    ask(site, settings_for(site))
    [record] = site.parent.glob("state/runs/*/figures.json")
    assert "confusion" in record.read_text()
    assert not list(site.parent.glob("state/runs/*/release*")), "releases belong to the ledger"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clients": 30}, "clients=30, but this site joined a federation of 3"),
        ({"public_size": 500, "queries": 300}, "300 queries are more than the 250"),
        ({"noise_seed": 1}, "seeded noise protects nobody"),
        ({"epsilon": "inf"}, "nothing without noise"),
        ({"dataset": "digits", "public_dataset": ""}, "own records only"),
        ({"public_size": 20, "epsilon": 1, "vote_fraction": 0.1}, "this site allows 2 to 50"),
    ],
)
def test_a_request_beyond_the_sites_rules_is_refused_in_words(site, caplog, changes, words):
    edit(site, queries=250, smallest_epsilon=2.0)
    with caplog.at_level(logging.WARNING, "flwr"):
        logging.getLogger("flwr").propagate = True
        arrays, metrics = ask(site, settings_for(site, **changes))
    assert arrays == [] and metrics["refused"] == "policy" and words in metrics["detail"]
    assert words in caplog.text and charges(site) == 0


def test_a_method_that_is_not_allowed_is_refused(site):
    settings = settings_for(site)
    _, metrics = ask(site, settings, method="standalone")
    assert metrics["refused"] == "policy" and "'standalone' is not allowed here" in metrics["detail"]


def test_an_answer_that_nothing_was_charged_for_stays(site):
    edit(site, methods=["pate-fl", "standalone"])
    kind = get_method("standalone").settings
    names = {field.name for field in dataclasses.fields(kind)}
    values = {name: value for name, value in settings_for(site).to_dict().items() if name in names}
    client = SiteClient(site, get_method("standalone"), build(kind, values))
    arrays, _, metrics = client.fit([], {"request": "r/1", "round": 1, "fingerprint": fingerprint(site)})
    assert arrays == [] and metrics["refused"] == "policy" and charges(site) == 0
    assert "this site releases nothing uncharged" in metrics["detail"]
    assert not list(site.parent.glob("state/runs/*/figures.json")), "nothing was trained either"


def test_the_budget_ends_in_words_and_without_a_charge(site):
    edit(site, epsilon=25.0)
    assert ask(site, settings_for(site), "r/1")[1]["refused"] == ""
    arrays, metrics = ask(site, settings_for(site), "r/2")
    assert arrays == [] and (metrics["refused"], charges(site)) == ("budget", 1)
    assert "budget does not allow" in metrics["detail"]
    assert ask(site, settings_for(site), "r/1")[1]["refused"] == "", "what was paid for is served for ever"
    edit(site, epsilon=200.0)
    assert ask(site, settings_for(site), "r/2")[1]["refused"] == "", "the owner may raise it"


@pytest.mark.parametrize(("accountant", "refused"), [("exact", "settings"), ("rdp", "")])
def test_laplace_noise_needs_an_accountant_that_knows_it(site, accountant, refused):
    edit(site, accountant=accountant, methods=["fedmd-ldp"], unit="client", largest_epsilon=100.0)
    kind = get_method("fedmd-ldp").settings
    common = {field.name: getattr(settings_for(site), field.name) for field in dataclasses.fields(CommonSettings)}
    laplace = {"epsilon": 90, "rounds": 1, "queries": 20, "pretrain_epochs": 0, "noise": "laplace"}
    settings = build(kind, fitting(kind, common), laplace)
    _, metrics = ask(site, settings, method="fedmd-ldp")
    assert metrics["refused"] == refused and charges(site) == (not refused)


def test_other_records_under_the_same_ledger_are_refused(site):
    first, _ = ask(site, settings_for(site))
    usual = str(site.parents[1] / "own1.npz")
    edit(site, private=str(site.parents[1] / "own2.npz"))
    for request in ("r/1", "r/2"):
        arrays, metrics = ask(site, settings_for(site), request)
        assert arrays == [] and metrics["refused"] == "site" and "sha256" not in metrics["detail"]
    assert charges(site) == 1
    edit(site, private=usual)
    assert ask(site, settings_for(site))[0][0].tobytes() == first[0].tobytes() and charges(site) == 1


def test_the_same_name_for_another_question_is_refused(site):
    first, _ = ask(site, settings_for(site))
    for changes in ({"epsilon": 39}, {"vote_fraction": 0.9}, {"abstain": False}):
        arrays, metrics = ask(site, settings_for(site, **changes))
        assert (arrays, metrics["refused"]) == ([], "request") and charges(site) == 1
    # what no client reads is no part of the question
    same, metrics = ask(site, settings_for(site, server_epochs=31))
    assert metrics["refused"] == "" and same[0].tobytes() == first[0].tobytes() and charges(site) == 1
    assert ask(site, settings_for(site))[0][0].tobytes() == first[0].tobytes()


def test_the_ledger_notes_which_records_it_answers_for(site):
    ask(site, settings_for(site))
    kinds = [line["kind"] for line in Ledger(site.parent / "ledger").lines()]
    assert kinds == ["open", "data", "charge", "release"]
    version = Ledger(site.parent / "ledger").version()
    assert version is not None and version.records == len(np.load(site.parents[1] / "own1.npz")["y"])


@pytest.mark.parametrize(("name", "content"), [("patients.npz", b"PK nothing"), ("patients.json", b"[" * 10**5)])
def test_records_that_cannot_be_read_are_answered_blank_and_charged(site, caplog, name, content):
    """Whether a record makes its file unreadable, in whatever way, is known to nobody but the site."""
    logging.getLogger("flwr").propagate = True
    broken = site.parent / name
    broken.write_bytes(content)
    edit(site, private=str(broken))
    with caplog.at_level(logging.WARNING, "flwr"):
        arrays, metrics = ask(site, settings_for(site))
    assert {*metrics} == {"client_id", "refused", "detail", "head", "ledger"}
    assert metrics["refused"] == metrics["detail"] == "" and arrays[0].shape == (200, 10)
    assert charges(site) == 1 and "answer is blank" in caplog.text
    assert "ValueError" not in str(metrics)
    assert name in next(one.words for one in check_site(site) if one.what == "own data")
    again, _ = ask(site, settings_for(site))
    assert again[0].tobytes() == arrays[0].tobytes() and charges(site) == 1


def test_a_fault_that_nobody_foresaw_is_a_refusal_whose_text_stays(site, caplog):
    """Flower would send the text of an exception to the server; and a log is no place for what may quote a record."""
    logging.getLogger("flwr").propagate = True
    (site.parent / "state").mkdir(mode=0o700, exist_ok=True)
    (site.parent / "state" / "ledgers.json").write_text('["patient 17"]')
    arrays, metrics = ask(site, settings_for(site))
    assert arrays == [] and metrics["refused"] == "site" and "patient 17" not in str(metrics)
    assert metrics["detail"] == "AttributeError; the site's own log says more"
    assert "Traceback" not in caplog.text and "errors.txt says more" in caplog.text
    assert "Traceback" in (site.parent / "state" / "errors.txt").read_text()


def test_records_that_are_not_there_are_refused_in_words_that_name_no_file(site, caplog):
    edit(site, private=str(site.parent / "patients-of-dr-jones.npz"))
    logging.getLogger("flwr").propagate = True
    arrays, metrics = ask(site, settings_for(site))
    assert arrays == [] and metrics["refused"] == "site" and charges(site) == 0
    assert "jones" not in str(metrics) + caplog.text and "fedballot site check" in metrics["detail"]
    assert "jones" in next(one.words for one in check_site(site) if one.what == "own data")


@pytest.mark.parametrize("options", [{"uncharged": ["plain"]}, {"seeded": True}, {"costs": {}}])
def test_a_sites_ledger_takes_nothing_without_a_charge_or_with_seeded_noise(site, options):
    ledger = SiteLedger(read_site(site))
    costs = options.pop("costs", {"x": GaussianCost(1.0)})
    with pytest.raises(RunError, match="it stays here"):
        ledger.release("r/1", costs, lambda: {"x": np.ones(2)}, digest="asked", **options)
    assert ledger.costs() == [] and not ledger.used
    with pytest.raises(RunError, match="not charged"):
        ledger.require_use()


def test_another_public_set_is_refused(site):
    settings = settings_for(site)
    edit(site, public=str(site.parents[1] / "own2.npz"))
    _, metrics = ask(site, dataclasses.replace(settings, public_size=100, test_size=50))
    assert metrics["refused"] == "fingerprint"


def test_check_looks_at_everything(site):
    findings = {one.what: one for one in check_site(site)}
    sound = ("file", "public data", "own data", "model", "key", "file modes", "budget")
    assert all(findings[what].good for what in sound)
    assert not findings["authority"].good and "ca.crt" in findings["authority"].words
    assert not (site.parent / "ledger").exists(), "a look makes no ledger"
    ask(site, settings_for(site))
    spent = next(one.words for one in check_site(site) if one.what == "budget")
    assert spent.startswith("epsilon 20.21 of 100 spent")


@pytest.mark.parametrize(
    ("changes", "what", "words"),
    [
        ({"public_fingerprint": "sha256:0"}, "public data", "get the agreed file"),
        ({"public": "nothing.npz"}, "public data", "no such file"),
        ({"model": "random-forst"}, "model", "did you mean 'random-forest'"),
        ({"key": "site.toml"}, "key", "ssh-keygen"),
    ],
)
def test_check_says_what_is_wrong(site, changes, what, words):
    edit(site, **changes)
    findings = {one.what: one for one in check_site(site)}
    assert findings[what].good is False and words in findings[what].words


def test_check_names_a_label_that_the_public_data_lack(site):
    with np.load(site.parents[1] / "own1.npz") as own:
        x, y = own["x"], own["y"].astype(str)
    y[7] = "unheard"
    np.savez(site.parent / "own.npz", x=x, y=y)
    edit(site, private="own.npz")
    findings = {one.what: one for one in check_site(site)}
    assert "row 7 has a label: 'unheard' is a class" in findings["own data"].words and findings["budget"].good is None


def test_a_site_may_hold_a_single_class(site):
    with np.load(site.parents[1] / "own1.npz") as own:
        keep = own["y"] == 3
        np.savez(site.parent / "own.npz", x=own["x"][keep], y=own["y"][keep])
    edit(site, private="own.npz", model="random-forest")
    arrays, metrics = ask(site, settings_for(site))
    assert metrics["refused"] == "" and arrays[0].shape == (200, 10)


# the model of a site


@pytest.mark.parametrize(
    ("model", "good", "words"),
    [
        ("random-forest", True, "random-forest"),
        ("xgboost(max_depth=2)", True, "xgboost(max_depth=2), tried on public records"),
        ("knn(n_neighbors=9999)", True, "tried on public records; n_neighbors=9999 is more than the site's records"),
        ("xgboost(max_dept=2)", False, "has no parameter 'max_dept'; did you mean 'max_depth'"),
        ("sklearn.svm:SVC(kernel='none')", False, "failed when tried on 424 public records: "),
    ],
)
def test_the_check_trains_and_stores_the_model_on_public_records(
    site: Path, model: str, good: bool, words: str
) -> None:
    pytest.importorskip("xgboost")
    edit(site, model=model)
    found = next(one for one in check_site(site) if one.what == "model")
    assert found.good is good and words in found.words
    assert not (site.parent / "ledger").exists()


def test_a_site_answers_with_its_boosted_model(site: Path) -> None:
    pytest.importorskip("xgboost")
    edit(site, model="xgboost(max_depth=2, n_estimators=20)")
    arrays, metrics = ask(site, settings_for(site))
    assert metrics["refused"] == "" and len(arrays) == 1
    (model,) = site.parent.glob("state/runs/*/model")
    assert model.stat().st_size > 1000 and not list(site.parent.glob("state/**/errors.txt"))
