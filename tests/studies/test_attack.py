"""`fedballot attack`: it finds what was planted, nothing in noise, and never more than is proved."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from fedballot.api.attacking import Attack, attack, load_attack, write
from fedballot.api.experiment import resolve
from fedballot.cli import main as cli
from fedballot.clients.fedkd import FedkdClient
from fedballot.core.errors import RunError, SettingsError
from fedballot.core.folders import held
from fedballot.core.progress import Silent
from fedballot.methods.api import Method
from fedballot.methods.registry import get_method
from fedballot.privacy.guarantee import SELF, Guarantee
from fedballot.report.attack_page import attack_page
from fedballot.runs.engine import federated_data
from fedballot.studies.attacks import asking, measure, playing, scores
from fedballot.studies.attacks.asking import Table
from fedballot.studies.attacks.membership import Asked, Leak, attack_members
from fedballot.studies.attacks.playing import claimed
from fedballot.studies.attacks.shares import attack_shares
from fedballot.studies.attacks.steps import matched
from fedballot.studies.attacks.world import make_world

SMALL = {
    "dataset": "digits",
    "clients": 3,
    "private_size": 180,
    "public_size": 200,
    "test_size": 200,
    "client_models": "logistic-regression",
}


def settings_of(name: str, **more: object):
    known = {field.name for field in dataclasses.fields(get_method(name).settings)}
    return resolve(name, {key: value for key, value in {**SMALL, **more}.items() if key in known})


def world_of(name: str = "fedkd", records: int = 0, **more: object):
    settings = settings_of(name, **more)
    return settings, make_world(federated_data(settings), 0, records, settings.seed)


# worlds


def test_a_seat_holds_one_of_two_records_of_a_class() -> None:
    _, world = world_of()
    first, second = world.coins(0, 0), world.coins(1, 0)
    assert world.size == 60 and 0.2 < first.mean() < 0.8 and (first != second).any()
    labels = world.data.private.y[world.seats]
    assert (labels[:, 0] == labels[:, 1]).all()
    held = world.of(first).parts[0]
    assert (np.sort(held) == held).all() and len(held) == 60
    others = np.concatenate(world.data.parts[1:])
    assert len(np.unique(world.seats)) == 120 and not np.isin(world.seats, others).any()
    asked = np.concatenate([world.seats[:, 0], world.seats[:, 1]])
    assert set(held) == set(asked[world.members(first)])
    public = {row.tobytes() for row in np.asarray(world.data.public_x)}
    assert not any(row.tobytes() in public for row in world.x[:120])  # digits has no split of its own


def test_others_give_records_where_nobody_has_any() -> None:
    settings, world = world_of(private_size=0, clients=2, records=500)
    assert world.size == 500 and sum(part.size for part in world.data.parts) < 1397
    assert not np.isin(world.seats, world.data.parts[1]).any()
    with pytest.raises(SettingsError, match="set a smaller records"):
        world_of(private_size=0, clients=2, records=1300)
    with pytest.raises(SettingsError, match="client=7"):
        make_world(federated_data(settings), 7, 0, 0)


def test_planted_records_stand_in_the_pool() -> None:
    _, world = world_of(records=20)
    rows = np.arange(100, 200)
    planted = world.planted(rows)
    assert (planted.data.public_x[rows[:40]] == world.x[:40]).all()
    assert planted.data.public_fingerprint != world.data.public_fingerprint
    with pytest.raises(SettingsError, match="40 records would be planted among 10"):
        world.planted(rows[:10])


def test_planted_records_are_asked_about_in_every_round(tmp_path) -> None:
    settings, world = world_of("fedmd", records=20, queries=50, rounds=2, pretrain_epochs=0)
    method = get_method("fedmd")
    plain = Table(method, settings, world, "server", tmp_path).strategy(world.data)
    assert not np.array_equal(plain.queries(1), plain.queries(2))
    planted = Table(method, settings, world.planted(plain.queries(1)), "server", tmp_path, planted=True)
    signals = planted.play(world.coins(0, 0))
    asked = [planted.strategy(world.data).queries(number) for number in (1, 2, 3)]
    assert len(signals) == 3 and all(np.array_equal(rows, plain.queries(1)) for rows in asked)


# statistics


def made_up(effect: float, runs: int = 40, seats: int = 50, spread: float = 3.0, seed: int = 1):
    """Scores of records that differ much from each other, and by ``effect`` where they are members."""
    rng = np.random.default_rng(seed)
    coins = rng.random((runs, seats)) < 0.5
    member = np.concatenate([coins, ~coins], axis=1)
    hard = spread * rng.normal(size=2 * seats + 60)
    x = hard + rng.normal(size=(runs, 2 * seats + 60))
    x[:, : 2 * seats] += effect * member
    return np.stack([x, rng.normal(size=x.shape)], axis=-1), member


def judged(name: str, x: np.ndarray, member: np.ndarray) -> measure.Score:
    half = len(x) // 2
    out = scores.attack(name, x[:half], member[:half], x[half:], x[half:, :, 0] > 0, 0)
    many = 500_000  # the error of 95 % confidence divided by so many: 1e-7
    return measure.measure(name, out, member[half:], delta=0.0, proving=np.ones(half, bool), attacks=many)


@pytest.mark.parametrize("name", scores.ATTACKS)
def test_noise_tells_nothing(name) -> None:
    found = judged(name, *made_up(0.0))
    assert abs(found.auc - 0.5) < 5 * max(found.auc_error, 1e-3)
    assert found.epsilon == 0


def test_likelihood_ratios_beat_a_threshold_where_records_differ() -> None:
    x, member = made_up(2.0, runs=80)
    found = {name: judged(name, x, member) for name in scores.ATTACKS}
    assert found["lira"].auc > 0.85 > 0.8 > found["threshold"].auc
    for name in ("lira", "lira-offline", "learned"):
        assert found[name].rates[1].value > 3 * found["threshold"].rates[1].value
    assert found["rmia"].auc > found["threshold"].auc
    assert 0 < found["threshold"].epsilon < found["lira"].epsilon
    assert 0 < found["lira"].sure_epsilon < found["lira"].epsilon


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_epsilon_of_randomised_response_is_met_from_below(epsilon) -> None:
    rng = np.random.default_rng(3)
    coins = rng.random((100, 50)) < 0.5
    told = np.where(rng.random(coins.shape) < 1 / (1 + math.exp(-epsilon)), coins, ~coins)
    found = measure.proved(
        np.concatenate([told, ~told], axis=1) * 1.0, np.concatenate([coins, ~coins], 1), 0.0, 0.999999
    )
    assert 0.7 * epsilon < found <= epsilon


def test_rates_have_exact_intervals() -> None:
    assert measure.clopper_pearson(0, 100)[1] == pytest.approx(1 - 0.025**0.01)
    member = np.tile([True, False], (10, 100))
    perfect = measure.measure("x", member * 1.0, member, delta=0.0, proving=np.ones(10, bool), attacks=1)
    assert perfect.auc == 1 and perfect.rates[0].value == 1 and perfect.rates[0].low > 0.99
    assert measure.score_of(json.loads(json.dumps(perfect.to_dict()))) == perfect


def guarantee(**more: object) -> Guarantee:
    base = {"mechanism": "m", "unit": "record", "adjacency": "replace-one", "epsilon": 1.0, "delta": 1e-5}
    return Guarantee(
        **{**base, "view": "server's view", "trust": SELF, "status": "proved", "accountant": "exact", **more}
    )


def test_what_is_proved_of_a_replaced_record() -> None:
    plain, twice = guarantee(), guarantee(adjacency="add-remove", epsilon=0.2)
    assert measure.promise([plain], "server's view").epsilon == 1
    assert measure.promise([plain], "network") is None
    two = measure.promise([plain, twice], "output only")
    assert two.epsilon == 0.4 and two.delta == pytest.approx((1 + math.exp(0.2)) * 1e-5)
    assert measure.promise([guarantee(status="paper's claim"), guarantee(epsilon=math.inf)], "output only") is None


def test_a_matched_filter_finds_gradients_in_a_sum() -> None:
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(60, 60)) * np.geomspace(1, 0.05, 60)  # a few directions are much longer than others
    each, others = ((rng.normal(size=(count, 60)) @ mixing.T).astype(np.float32) for count in (40, 400))
    member = rng.random((60, 40)) < 0.5
    steps = -(member @ each)
    found = np.array([matched(each, step, others) for step in steps])
    plain = -(steps @ each.T) / np.linalg.norm(each, axis=1)
    assert _auc(member.ravel(), found.ravel()) > _auc(member.ravel(), plain.ravel()) + 0.1


def _auc(member: np.ndarray, values: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(member, values))


# whole attacks, on real clients


def found_by(name: str, settings, asked: Asked, folder: Path, runs: int = 8, *, quick: bool = False) -> Leak:
    return attack_members(get_method(name), settings, asked, folder, Silent(), runs=runs, quick=quick)


class Telltale(FedkdClient):
    """A client that answers with the labels of the records that it has, and with nothing else."""

    def logits(self, rows):
        own = self.workspace.private()
        known = {record.tobytes(): label for record, label in zip(own.x, own.y, strict=True)}
        out = np.zeros((len(rows), len(self.workspace.data.classes)))
        for place, record in enumerate(np.asarray(self.workspace.data.public_x[rows])):
            if (label := known.get(record.tobytes())) is not None:
                out[place, label] = 5.0
        return out


def test_a_planted_leak_is_found(tmp_path) -> None:
    method: Method = dataclasses.replace(get_method("fedkd"), name="telltale", client=Telltale)
    asked = Asked("active-server", "server", 20)
    leak = attack_members(method, settings_of("fedkd"), asked, tmp_path, Silent(), runs=16, quick=False)
    assert leak.promise is None and not leak.contradicted
    assert min(one.auc for one in leak.scores if one.attack != "label-only") > 0.99
    assert leak.epsilon > 2 and leak.best.rates[0].value > 0.99


def test_predictions_of_an_overfitted_model_tell_members(tmp_path) -> None:
    asked = Asked("active-server", "server", 40)
    leak = found_by("fedkd", settings_of("fedkd"), asked, tmp_path, 16)
    found = {one.attack: one for one in leak.scores}
    assert found["lira"].auc > 0.7 and found["lira"].auc > found["threshold"].auc > 0.5
    assert found["lira"].rates[1].value > found["threshold"].rates[1].value  # Carlini et al. 2022, table I
    more = found_by("fedkd", settings_of("fedkd"), asked, tmp_path, 18)
    assert more.runs == 18 and len(list((tmp_path / "runs").glob("*.npz"))) == 18 and not (tmp_path / "work").exists()
    with pytest.raises(SettingsError, match="of other settings"):
        found_by("fedkd", settings_of("fedkd", levels=10), asked, tmp_path, 18)


PRIVATE = {
    "pate-fl": {"epsilon": 1.0},
    "private-knn-fl": {"epsilon": 1.0, "k": 5},
    "fedkd-dp": {"queries": 50},
    "fedauxfdp": {},
    "fedauxfdp-sum": {},
    "fedavg-p": {},
    "fedd-p": {},
    "fedmd-ldp": {"rounds": 1, "queries": 50},
}


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("seen", ["server", "output"])
def test_what_is_proved_stands(name, seen, tmp_path) -> None:
    settings = settings_of(name, **PRIVATE[name])
    leak = attack_members(
        get_method(name), settings, Asked("membership", seen, 20), tmp_path, Silent(), runs=8, quick=False
    )
    assert not leak.contradicted
    assert (leak.promise is not None) or seen == "server"
    assert max(one.auc for one in leak.scores if one.attack != "learned") < 0.9


def test_a_client_that_allows_less_is_judged_by_its_own_target(tmp_path) -> None:
    settings = settings_of("pate-fl", epsilon=2.0, client_epsilons=(0.5, 2.0))
    told = []
    for client in (0, 1):
        asked = Asked("membership", "output", 20, client)
        told.append(found_by("pate-fl", settings, asked, tmp_path / str(client)).promise)
    less, more = (one.epsilon for one in told)
    assert less < 0.5 * more and told[0].words != told[1].words


@pytest.mark.parametrize("name", ["fedmd", "fedmd-nfdp", "fedaux-f"])
def test_what_promises_nothing_is_attacked_too(name, tmp_path) -> None:
    settings = settings_of(name, rounds=2, queries=100, k=5)
    leak = found_by(name, settings, Asked(records=20), tmp_path, quick=True)
    assert leak.rounds == (3 if name.startswith("fedmd") else 1) and leak.runs == 8
    assert (leak.promise is None) == (name != "fedmd-nfdp")


WEIGHTS = ["fedavg", "dp-fedavg"]
WEIGHTS += [pytest.param(name, marks=pytest.mark.slow) for name in ("fedprox", "fedavgm", "feddf", "fedgen", "fedaux")]
WEIGHTS += [pytest.param("dp-fedsgd", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_attacked(name, tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch")
    model = "mlp-torch" if name in ("fedaux", "fedgen") else "linear-torch"
    monkeypatch.setattr(asking, "READ", 2)
    little = {"generator_steps": 2, "server_epochs": 1, "rate": 0.5}  # the attack reads the weights, however good
    settings = settings_of(name, client_models=model, rounds=3, participation=1.0, epochs=1, **little)
    seen = "output" if name == "dp-fedavg" else "server"
    leak = attack_members(
        get_method(name), settings, Asked(seen=seen, records=10), tmp_path, Silent(), runs=8, quick=False
    )
    assert leak.rounds == 2 and not leak.contradicted


def test_shares_of_classes_are_told_by_predictions_and_not_by_noise(tmp_path) -> None:
    known = {"asked": Asked("property", records=60), "progress": Silent(), "runs": 32, "quick": False}
    told = attack_shares(get_method("fedkd"), settings_of("fedkd"), folder=tmp_path / "kd", **known)
    assert told.explained > 5 * told.explained_error and told.error < told.error_by_chance
    assert told.largest.low > 0.1 and told.largest.value > told.largest.at
    settings = settings_of("fedavg-p")
    nothing = attack_shares(get_method("fedavg-p"), settings, folder=tmp_path / "noise", **known)
    assert nothing.explained < 0.5 * told.explained
    page = Attack(tmp_path, shares=(told,))
    write(page, "fedballot attack fedkd")
    assert "Most frequent class named" in (tmp_path / "attack.html").read_text()
    assert load_attack(tmp_path).shares == (told,) and len(page.to_frame()) == 1


def test_shares_of_noise_are_drawn_anew_where_only_the_sum_is_seen(tmp_path) -> None:
    settings, world = world_of("pate-fl", records=20, epsilon=1.0)
    table = Table(get_method("pate-fl"), settings, world, "output", tmp_path)
    assert table.answers_anew
    coins = world.coins(0, 0)
    single = Table(get_method("pate-fl"), settings, world, "server", tmp_path / "single")
    shared, own = (np.std([one.play(coins)[0].scores for _ in range(8)], axis=0).mean() for one in (table, single))
    assert shared > 1.3 * own  # 1.7 with the noise of three clients; over 8 plays both move by 3 %
    masked = settings_of("pate-fl", epsilon=1.0, secure_aggregation=True)
    assert Table(get_method("pate-fl"), masked, world, "server", tmp_path).seen == "output"


# from Python and the command line


def test_attack_writes_its_page_and_can_be_read_again(tmp_path, capsys, monkeypatch) -> None:
    sets = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    words = ["attack", "fedkd", *sets, "--records", "10,20", "--runs", "8", "--out", str(tmp_path), "--json"]
    monkeypatch.setattr(sys, "argv", ["fedballot", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr()
    assert not stop.value.code, printed.err
    assert [leak["size"] for leak in json.loads(printed.out)["leaks"]] == [10, 20]
    page = (tmp_path / "attack.html").read_text()
    assert "nothing is proved" in page and "Against records" in page and "fedballot attack fedkd" in page
    assert (tmp_path / "roc.png").read_bytes()[:4] == b"\x89PNG"
    found = load_attack(tmp_path)
    assert found.leaks[0].size == 10 and len(found.to_frame()) == 12 and "svg" in found._repr_html_().lower()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "standalone"}, "nothing to attack"),
        ({"method": "centralized"}, "nothing to attack"),
        ({"method": "fedkd", "runs": 7}, "an even number"),
        ({"method": "fedkd", "adversary": "passer-by"}, "membership, active-server, property"),
        ({"method": "fedkd", "view": "network"}, "server, output"),
        ({"method": "fedkd", "records": []}, "numbers of records"),
        ({"method": "fedkd", "records": "5"}, "numbers of records"),
        ({"method": "fedkd", "records": [5, 2.5]}, "numbers of records"),
        ({"method": "fedkd", "runs": "8"}, "runs='8': give a whole number"),
        ({"method": "fedkd", "client": None}, "client=None: give a whole number"),
        ({"method": "fedkd-dp", "noise_seed": 1}, "noise that is known"),
        ({"method": "poll", "runs": 8}, "nobody has said how"),
    ],
)
def test_attack_refuses(given, words, tmp_path) -> None:
    method = given.pop("method")
    known = {field.name for field in dataclasses.fields(get_method(method).settings)}
    small = {key: value for key, value in SMALL.items() if key in known}
    with pytest.raises(SettingsError, match=words):
        attack(method, out=tmp_path / "out", progress=False, **given, **small)


def test_folders_are_named_for_method_and_time(monkeypatch, tmp_path) -> None:
    from fedballot.api.attacking import new_folder

    assert new_folder("my.package:METHOD").parent == Path("attacks")
    assert new_folder("my.package:METHOD").name.startswith("my.package-METHOD-")


def test_no_epsilon_stands_without_its_unit_and_chance_is_named() -> None:
    coins = np.tile([True, False], (10, 50))
    member = np.concatenate([coins, ~coins], axis=1)
    score = measure.measure("lira", member * 1.0, member, delta=0.0, proving=np.ones(10, bool), attacks=1)
    told = measure.Promise((score.epsilon + score.sure_epsilon) / 2, 0.0, "ε for each record")
    leak = Leak("m", Asked(), "server", 100, 1, 10, told, 0.0, (score,), {}, 1.0)
    assert leak.doubted and not leak.contradicted
    page = attack_page([leak])
    assert all("one record, replace-one" in headline.remark for headline in page.headlines[:2])
    assert not page.stamp and any("ask for more runs" in words for words in page.warnings)
    sure = dataclasses.replace(leak, promise=dataclasses.replace(told, epsilon=0.1))
    assert sure.contradicted and not sure.doubted and attack_page([sure]).stamp


# folders


def test_a_folder_is_claimed_by_whole_runs_alone(tmp_path) -> None:
    settings, out = settings_of("fedkd"), tmp_path / "played"
    for wrong in (Asked(records=2000), Asked(client=9)):
        with pytest.raises(SettingsError):
            found_by("fedkd", settings, wrong, out)
        assert not out.exists()
    (out / "work").mkdir(parents=True)
    (out / "work/of-an-attack-that-was-stopped").touch()
    (out / "asked.json").write_text("{}")
    assert found_by("fedkd", settings, Asked(records=10), out).runs == 8
    with held(out, "attack"), pytest.raises(RunError, match="another process works on this attack"):
        found_by("fedkd", settings, Asked(records=10), out)


def test_a_folder_of_something_else_is_left_alone(tmp_path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(SettingsError, match="exists and holds no attack"):
        attack("fedkd", out=tmp_path, progress=False, runs=8, **SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_runs_on_other_records_are_refused(tmp_path) -> None:
    table, method = tmp_path / "table.csv", get_method("fedkd")
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(800, 2)), np.arange(800) % 2])
    settings = settings_of("fedkd", dataset=str(table))
    for changed in (0.0, 1.0):
        rows[:, 0] += changed
        np.savetxt(table, rows, delimiter=",", header="a,b,y", comments="", fmt="%g")
        data = federated_data(settings)
        if not changed:
            with claimed(tmp_path / "out", method, settings, Asked(), data):
                (tmp_path / "out/runs").mkdir()
                (tmp_path / "out/runs/00000.npz").touch()
            with claimed(tmp_path / "out", method, settings, Asked(), data):
                pass
    with (
        pytest.raises(SettingsError, match="other records"),
        claimed(tmp_path / "out", method, settings, Asked(), data),
    ):
        pass


class Told(Silent):
    """Keeps the totals of all stages."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []

    def start(self, label: str, total: int) -> None:
        self.stages.append((label, total))


def test_quick_tells_how_many_runs_there_will_be(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(playing, "QUICK_S", 0.0)
    told = Told()
    asked = Asked(records=10)
    leak = attack_members(get_method("fedkd"), settings_of("fedkd"), asked, tmp_path, told, runs=128, quick=True)
    assert leak.runs == 8 and ("runs", 8) in told.stages and ("runs", 128) not in told.stages
