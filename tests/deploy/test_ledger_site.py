"""A site's ledger as its officer meets it: other versions of the data, older ledgers, copies, new folders, backups."""

from __future__ import annotations

import json
import logging
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.common import Context, RecordDict

from fedballot.apps.server_app import server
from fedballot.cli import main as cli
from fedballot.core.setting import build
from fedballot.datasets.own import SITES
from fedballot.deploy.check import check_site
from fedballot.deploy.client import SiteClient, make_site_client, open_ledger
from fedballot.deploy.server import ServerFolder
from fedballot.deploy.site_file import read_site
from fedballot.deploy.submit import run_config
from fedballot.deploy.template import init_site
from fedballot.methods.registry import get_method
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.ledger.heads import Heads
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.runs.legacy_api import BallotServer
from fedballot.settings.fedaux import FedauxfdpSettings
from fedballot.settings.fedmd import NfdpSettings
from fedballot.settings.voting import KnnSettings, PateSettings, mechanism
from fedballot.studies.ledger_view import view
from tests.conftest import fitting
from tests.deploy.harness import edit, write_data
from tests.inprocess import Here


def make_site(folder: Path, number: int = 1, **changes: Any) -> Path:
    """A site's file in FOLDER/siteN, for the data in FOLDER, whose budget is enough for several releases."""
    init_site(folder / f"site{number}", number=number, sites=3, server="localhost:1")
    path = folder / f"site{number}" / "site.toml"
    places = {"private": str(folder / f"own{number}.npz"), "public": str(folder / "public.npz")}
    rules = {"model": "logistic-regression", "largest_epsilon": 50.0, "epsilon": 100.0, "secure_aggregation": False}
    edit(path, **{"public_fingerprint": (folder / "fingerprint").read_text(), **places, **rules, **changes})
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fingerprint").write_text(write_data(tmp_path))
    return tmp_path


@pytest.fixture
def site(folder: Path) -> Path:
    return make_site(folder)


def settings_for(site: Path, kind: type[Any] = PateSettings, **changes: Any) -> Any:
    values = {
        "dataset": SITES,
        "public_dataset": str(site.parents[1] / "public.npz"),
        "clients": 3,
        "public_size": 100,
        "test_size": 100,
        "client_models": "mlp",
        "server_model": "logistic-regression",
        "evaluate_clients": False,
        **({"epsilon": 40, "vote_fraction": 1} if kind is PateSettings else {}),
        **changes,
    }
    return build(kind, fitting(kind, values))


def ask(site: Path, request: str = "r/1", settings: Any = None, method: str = "pate-fl", **config: Any) -> Any:
    """The arrays and metrics of the site's answer."""
    settings = settings or settings_for(site)
    config = {"request": request, "round": 1, "fingerprint": federated_data(settings).public_fingerprint, **config}
    queries = np.arange(settings.query_count, dtype=np.int32)
    arrays, _, metrics = SiteClient(site, get_method(method), settings).fit([queries], config)
    return arrays, metrics


def charges(site: Path) -> int:
    return sum(line["kind"] == "charge" for line in Ledger(site.parent / "ledger").lines())


def budget(site: Path) -> Any:
    return next(one for one in check_site(site) if one.what == "budget")


@pytest.fixture
def call(capsys, monkeypatch):
    """Run the command line in this process: exit code, stdout, and stderr with its spaces joined."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedballot", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return int(stop.value.code or 0), " ".join(printed.out.split()), " ".join(printed.err.split())

    return run


def rewrite(path: Path, change: Any) -> None:
    with np.load(path) as own:
        x, y = own["x"], own["y"]
    x, y = change(x.copy(), y.copy())
    np.savez(path, x=x, y=y)


def resorted(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(3).permutation(len(y))
    return x[order], y[order]


def corrected(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y[0] = (y[0] + 1) % 10
    return x, y


# versions of the data


def test_rows_in_another_order_are_the_same_data(site: Path) -> None:
    first, _ = ask(site)
    rewrite(site.parents[1] / "own1.npz", resorted)
    again, metrics = ask(site)
    assert metrics["refused"] == "" and again[0].tobytes() == first[0].tobytes() and charges(site) == 1
    assert budget(site).good


def test_a_sample_of_resorted_rows_is_of_the_same_records(folder: Path) -> None:
    rules = {"methods": ["fedmd-nfdp"], "unit": "record", "smallest_epsilon": 0.0, "delta": 0.5}
    site = make_site(folder, **rules)
    few = {"k": 20, "min_size": 40, "queries": 50, "pretrain_epochs": 0, "share": "softmax"}
    settings = settings_for(site, NfdpSettings, **few)
    first, metrics = ask(site, settings=settings, method="fedmd-nfdp")
    assert metrics["refused"] == "", metrics["detail"]
    rewrite(folder / "own1.npz", resorted)
    shutil.rmtree(site.parent / "state" / "runs")  # else the model is the one that was kept
    again, _ = ask(site, settings=settings, method="fedmd-nfdp")
    assert first[0].tobytes() == again[0].tobytes() and charges(site) == 1


def test_a_corrected_label_goes_on_where_the_ledger_was(site: Path, call: Any) -> None:
    ask(site)
    spent = Ledger(site.parent / "ledger").spent()
    rewrite(site.parents[1] / "own1.npz", corrected)
    arrays, metrics = ask(site, "r/2")
    assert (arrays, metrics["refused"], charges(site)) == ([], "site", 1)
    assert not budget(site).good
    command = budget(site).words.partition("version: ")[2].partition(";")[0]
    code, out, err = call(*shlex.split(command)[1:])
    assert code == 0 and "300 records, sha256:" in out, err
    assert budget(site).good and Ledger(site.parent / "ledger").spent() == spent
    _, metrics = ask(site, "r/2")
    assert metrics["refused"] == "" and Ledger(site.parent / "ledger").spent() > spent
    assert "over 2 versions of the data" in call("ledger", "show", site.parent / "ledger", "--json")[1]


def test_a_carry_over_that_carries_nothing_is_refused(site: Path, call: Any) -> None:
    def carry_over(note: str = "one label corrected") -> str:
        code, _, err = call("ledger", "carry-over", site, "--note", note)
        assert code in (1, 2)
        return err

    assert "no ledger yet" in carry_over()
    ask(site)
    before = (site.parent / "ledger" / "ledger.jsonl").read_bytes()
    assert "nothing to carry over" in carry_over()
    assert "expected what has changed" in carry_over(" ")
    assert "expected what has changed" in carry_over("two\nlines")
    rewrite(site.parents[1] / "own1.npz", corrected)
    edit(site, population="others")
    assert "population is 'site 1' in this ledger, not 'others'" in carry_over()
    edit(site, population="site 1")
    (site.parents[1] / "own1.npz").write_bytes(b"PK nothing")
    assert "cannot be read as .npz" in carry_over()
    (site.parents[1] / "own1.npz").unlink()
    assert "no such file or folder" in carry_over()
    assert (site.parent / "ledger" / "ledger.jsonl").read_bytes() == before


# whose ledger is where


def test_a_new_folder_is_no_new_budget(site: Path) -> None:
    ask(site)
    edit(site, ledger="ledger2")
    arrays, metrics = ask(site, "r/2")
    assert (arrays, metrics["refused"]) == ([], "ledger") and not (site.parent / "ledger2").exists()
    finding = budget(site)
    assert not finding.good and str(site.parent / "ledger") in finding.words
    assert "ledger restore BACKUP" in finding.words
    edit(site, ledger="ledger")
    assert ask(site, "r/2")[1]["refused"] == ""


def test_another_population_has_a_ledger_of_its_own_and_the_first_is_not_forgotten(site: Path) -> None:
    sent = json.dumps({})
    ask(site)
    edit(site, population="others", private=str(site.parents[1] / "own2.npz"), ledger="ledger2")
    assert ask(site, "r/2", heads=sent)[1]["refused"] == ""
    edit(site, population="site 1", private=str(site.parents[1] / "own1.npz"), ledger="ledger3")
    assert ask(site, "r/3")[1]["refused"] == "ledger"


def test_a_ledger_put_back_without_the_state_folder_is_noticed_at_once(site: Path, caplog: Any) -> None:
    ask(site)
    shutil.copytree(site.parent / "ledger", site.parent / "backup")
    _, shown = ask(site, "r/2")
    shutil.rmtree(site.parent / "ledger")
    shutil.copytree(site.parent / "backup", site.parent / "ledger")
    logging.getLogger("flwr").propagate = True
    arrays, metrics = ask(site, "r/3")
    assert (arrays, metrics["refused"], charges(site)) == ([], "ledger", 1)
    assert str(site.parent) not in metrics["detail"] and f"--lost-head {shown['head']}" in caplog.text
    assert "ended in line 6, this one has 4" in budget(site).words


def test_a_process_that_dies_between_the_line_and_the_note_of_it_alarms_nobody(site: Path) -> None:
    ask(site)
    before = (site.parent / "state" / "ledgers.json").read_bytes()
    ask(site, "r/2")
    (site.parent / "state" / "ledgers.json").write_bytes(before)
    assert ask(site, "r/3")[1]["refused"] == "" and charges(site) == 3


# what the server remembers


class Federation:
    """Three real sites and the real server app, in this process."""

    def __init__(self, folder: Path, **rules: Any) -> None:
        self.folder = folder
        self.sites = [make_site(folder, number, **rules) for number in range(3)]
        self.server = ServerFolder(folder / "server")

    def run(self, name: str, **changes: Any) -> dict[str, Any]:
        settings = settings_for(self.sites[0], min_clients=2, server_epochs=1, **changes)
        text = run_config("pate-fl", settings, self.folder / name, self.server.heads)
        context = Context(1, 1, {}, RecordDict(), tomllib.loads(text))  # type: ignore[arg-type]
        side = server(context)
        running = BallotServer(side.strategy, side.finish)
        for number, site in enumerate(self.sites):
            client = SiteClient(site, get_method("pate-fl"), settings)
            running.client_manager().register(Here(number, lambda _, client=client: client))
        running.fit(side.strategy.rounds - side.strategy.rounds_done, side.round_timeout_s)
        return dict(json.loads((self.folder / name / "result.json").read_text()))


@pytest.mark.parametrize("secure", [False, True])
def test_a_site_restored_with_all_its_folders_is_refused_until_its_officer_accepts(
    folder: Path, call: Any, caplog: Any, secure: bool
) -> None:
    federation = Federation(folder, secure_aggregation=secure)
    place = federation.sites[1].parent
    assert federation.run("first", secure_aggregation=secure)["clients"]["answered"] == 3
    shutil.copytree(place, folder / "image")
    assert federation.run("second", secure_aggregation=secure)["clients"]["answered"] == 3
    shutil.rmtree(place)
    shutil.copytree(folder / "image", place)
    assert charges(federation.sites[1]) == 1 and budget(federation.sites[1]).good, "nothing here can tell"
    logging.getLogger("flwr").propagate = True
    for name in ("third", "fourth"):
        result = federation.run(name, secure_aggregation=secure)
        assert result["clients"]["answered"] == 2 and result["clients"]["rejected"] == {"ledger": 1}
        assert charges(federation.sites[1]) == 1
    warning = next(record.getMessage() for record in caplog.records if "ledger restore" in record.getMessage())
    head = warning.partition("--lost-head ")[2][:64]
    folder_ = place / "ledger"
    code, _, err = call("ledger", "restore", folder_, folder_, "--lost-head", head)
    assert code == 2 and "cannot be known, only bounded" in err and "add --accept-spent" in err
    assert call("ledger", "restore", folder_, folder_, "--lost-head", head, "--accept-spent")[0] == 0
    result = federation.run("fifth", secure_aggregation=secure)
    assert result["clients"]["rejected"] == {"budget": 1}, "until the limit is raised on purpose"
    edit(federation.sites[1], epsilon=200.0)
    assert federation.run("sixth", secure_aggregation=secure)["clients"]["rejected"] == {"ledger": 1}
    assert "--epsilon 200 --raise" in budget(federation.sites[1]).words
    assert call("ledger", "budget", folder_, "--epsilon", 200, "--raise")[0] == 0
    assert federation.run("seventh", secure_aggregation=secure)["clients"]["answered"] == 3
    spent = Ledger(folder_).spending()
    assert spent.lost[0].epsilon == 100.0 and spent.delta == 2e-3
    assert len(spent.costs) == 2 and spent.epsilon() > 120


def test_copies_used_in_turn_are_noticed_and_a_run_that_is_taken_up_shows_its_heads(folder: Path) -> None:
    federation = Federation(folder)
    place = federation.sites[2].parent
    federation.run("first")
    shutil.copytree(place, folder / "copy")
    federation.run("second")
    place.rename(folder / "other")
    (folder / "copy").rename(place)
    assert federation.run("third")["clients"]["rejected"] == {"ledger": 1}
    shutil.rmtree(place)
    (folder / "other").rename(place)
    for name in ("result.json", "checkpoint.npz"):  # as if it had died before it kept the sum
        (folder / "third" / name).unlink()
    assert federation.run("third")["clients"]["answered"] == 3, "the newer one goes on; --resume asks it again"
    assert charges(federation.sites[2]) == 3


def test_a_state_folder_and_ledger_thrown_away_are_noticed_by_the_server(folder: Path) -> None:
    federation = Federation(folder)
    federation.run("first")
    for name in ("state", "ledger"):
        shutil.rmtree(federation.sites[0].parent / name)
    assert federation.run("second")["clients"]["rejected"] == {"ledger": 1}


def test_a_server_that_makes_up_heads_can_only_make_a_site_refuse(site: Path) -> None:
    ask(site)
    for sent, reason in (("no", "request"), (json.dumps({}), ""), (json.dumps({"0" * 32: ["f" * 64]}), "")):
        assert ask(site, f"r/{reason}{len(sent)}", heads=sent)[1]["refused"] == reason
    _, metrics = ask(site, "r/9")
    heads = Heads(site.parent / "made-up.json")
    heads.show({**metrics, "head": "f" * 64}, {})
    before = charges(site)
    arrays, metrics = ask(site, "r/10", heads=json.dumps(heads.read()))
    assert (arrays, metrics["refused"], charges(site)) == ([], "ledger", before)
    assert "head" not in metrics, "a refusal shows nothing"


# backups, as an operator makes them


def test_a_backup_put_back_by_the_commands_that_the_site_names(site: Path, call: Any) -> None:
    ask(site)
    ledger, backup = site.parent / "ledger", site.parent / "backup"
    code, out, _ = call("ledger", "backup", ledger, backup)
    assert code == 0 and "5 lines, all whole" in out
    assert call("ledger", "backup", ledger, backup)[0] == 2
    ask(site, "r/2")
    assert "nothing was lost" in call("ledger", "restore", backup, ledger, "--accept-spent")[2]
    shutil.rmtree(ledger)
    command = budget(site).words.partition("put a backup back: ")[2].partition(";")[0]
    assert command.startswith("fedballot ledger restore BACKUP")
    words = shlex.split(command.replace("BACKUP", shlex.quote(str(backup))))[1:]
    assert call(*words)[0] == 2 and not ledger.exists()
    code, out, err = call(*words, "--accept-spent")
    assert code == 0 and "6 lines, all whole" in out, err
    assert budget(site).good and "epsilon 100 of 100 spent at delta 0.002" in budget(site).words
    assert ask(site, "r/3")[1]["refused"] == "budget"
    assert ask(site, "r/1")[1]["refused"] == "", "what is in the backup is served"
    shown = call("ledger", "show", ledger, "--json")[1]
    assert "restored" in shown and "what a lost ledger may have told: ε = 100" in shown
    assert "all that 1 lost ledger may have told" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("backup", "nowhere", "b"), "there is no ledger here"),
        (("backup", "ledger", "ledger/b"), "lies in the ledger's own folder"),
        (("restore", "ledger", "site.toml", "--accept-spent"), "is a file"),
        (("restore", "nowhere", "b"), "there is no ledger here"),
        (("restore", "ledger", "b", "--lost-head", "xyz"), "expected the 64 digits"),
        (("restore", "ledger", "b", "--limit", "nan"), "epsilon"),
        (("restore", "ledger", "b", "--limit", "-1"), "'--limit'"),
        (("restore", "ledger", "b", "--delta", "2"), "delta"),
    ],
)
def test_wrong_words_change_nothing(site: Path, call: Any, words: tuple[str, ...], message: str) -> None:
    ask(site)
    before = {path: path.read_bytes() for path in site.parent.rglob("*") if path.is_file()}
    paths = [site.parent / word if number in (1, 2) else word for number, word in enumerate(words)]
    code, _, err = call("ledger", *paths)
    assert code == 2 and message in err
    assert before == {path: path.read_bytes() for path in site.parent.rglob("*") if path.is_file()}


# persons


def test_records_of_persons_are_bounded_and_a_method_without_their_cost_is_refused(folder: Path) -> None:
    with np.load(folder / "own1.npz") as own:
        x, y = own["x"], own["y"]
    np.savez(folder / "own1.npz", x=x, y=y, patient_id=np.arange(300) // 5)
    site = make_site(folder)
    text = site.read_text().replace("# id =", "id =").replace("# records_per_person", "records_per_person")
    site.write_text(text)
    own = next(one for one in check_site(site) if one.what == "own data")
    assert own.words.startswith("180 records of 60 persons") and "120 more are beyond 3" in own.words
    assert ask(site)[1]["refused"] == ""
    version = Ledger(site.parent / "ledger").version()
    assert version is not None and (version.records, version.records_per_person) == (180, 3)
    edit(site, records_per_person=4)
    assert ask(site, "r/2")[1]["refused"] == "site", "other records: another version"
    assert "at most 3 of a person, not 4" in budget(site).words


@pytest.fixture
def persons(folder: Path) -> Path:
    """A site that protects persons, with at most 3 of the 5 records that each has."""
    with np.load(folder / "own1.npz") as own:
        x, y = own["x"], own["y"]
    np.savez(folder / "own1.npz", x=x, y=y, patient_id=np.arange(300) // 5)
    site = make_site(folder, unit="person", smallest_epsilon=0.0)
    site.write_text(site.read_text().replace("# id =", "id =").replace("# records_per", "records_per"))
    return site


def costs(site: Path, settings: Any, method: str, *arrays: np.ndarray) -> dict[str, dict[str, Any]]:
    """What each part of an answer costs this site, by unit."""
    place = read_site(site)
    place.state.mkdir(mode=0o700, exist_ok=True)
    client = make_site_client(place, get_method(method), settings, open_ledger(place, {}))
    question = client.question([*arrays], {"request": "r/1", "round": 1})
    composition = client.composition(question)
    return {unit: composition.costs(unit, client.workspace.counted(unit)) for unit in UNITS}


UNITS: tuple[Unit, ...] = ("record", "person")


def test_votes_cost_a_person_what_one_record_may_change(persons: Path) -> None:
    settings = settings_for(persons)
    _, metrics = ask(persons, settings=settings)
    assert metrics["refused"] == "", metrics["detail"]
    ledger = Ledger(persons.parent / "ledger")
    assert (ledger.account.unit, ledger.account.adjacency) == ("person", "replace-one")
    words = dict(view(ledger).summary())["in words"]
    assert "all records of one person, at most 3 at a site" in words
    assert ledger.costs() == [mechanism(settings).cost("person", 3)]
    neighbours = settings_for(persons, KnnSettings, k=5, epsilon=40.0)
    by_unit = costs(persons, neighbours, "private-knn-fl", np.arange(100, dtype=np.int32))
    assert by_unit["person"]["votes"].sensitivity == pytest.approx(3 * by_unit["record"]["votes"].sensitivity)


def test_a_sample_costs_a_person_whatever_it_may_hold_of_them(persons: Path) -> None:
    edit(persons, methods=["fedmd-nfdp"], delta=0.9)
    few = {"k": 20, "min_size": 40, "queries": 50, "pretrain_epochs": 0, "share": "softmax"}
    _, metrics = ask(persons, settings=settings_for(persons, NfdpSettings, **few), method="fedmd-nfdp")
    assert metrics["refused"] == "", metrics["detail"]
    assert Ledger(persons.parent / "ledger").costs() == [NfdpSample(40, 20).cost("person", 3)]


@pytest.mark.parametrize("head", ["class-sums", "logistic"])
def test_heads_and_class_sums_cost_a_person_more_than_a_record(persons: Path, monkeypatch: Any, head: str) -> None:
    monkeypatch.setenv("FEDBALLOT_CACHE", str(persons.parent / "cache"))
    few = {"records": 100, "head": head, "epsilon": 5.0, "score_epsilon": 2.0, "extractor": "pca", "components": 20}
    settings = settings_for(persons, FedauxfdpSettings, **few)
    data = federated_data(settings)
    server = new_strategy(get_method("fedauxfdp"), settings, data, request_id="r")
    by_unit = costs(persons, settings, "fedauxfdp", *server.request(1))
    assert len(by_unit["record"]) == (2 if head == "logistic" else 1)
    for name, cost in by_unit["record"].items():
        assert by_unit["person"][name].sensitivity > 2.5 * cost.sensitivity


def test_a_method_that_knows_no_cost_of_persons_is_refused(persons: Path) -> None:
    edit(persons, methods=["fedkd-dp"])
    settings = settings_for(persons, get_method("fedkd-dp").settings, epsilon=40.0, queries=50)
    _, metrics = ask(persons, settings=settings, method="fedkd-dp")
    assert metrics["refused"] == "policy" and "about persons under replace-one" in metrics["detail"]
