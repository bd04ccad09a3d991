"""What leaves a client under FedMD, what it keeps between rounds, and what it never reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedballot.clients.fedmd import FedmdClient, consensus_codec, states_folder
from fedballot.clients.fedmd_private import LdpClient, NfdpClient
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import SettingsError
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.datasets.examples import Examples
from fedballot.datasets.own import SITES
from fedballot.privacy import accounting
from fedballot.privacy.ledger.ledger import SAMPLE, Ledger
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.runs.engine import federated_data
from fedballot.settings.fedmd import FedmdSettings, LdpSettings, NfdpSettings
from fedballot.wire.codec import Singles
from fedballot.wire.packing import unpack_labels
from tests.conftest import fitting

DIGITS = {
    "dataset": "digits",
    "clients": 4,
    "private_size": 400,
    "public_size": 200,
    "test_size": 100,
    "client_models": "logistic-regression",
    "queries": 50,
    "rounds": 3,
    "pretrain_epochs": 0,
    "epochs": 2,
}


def client(kind, settings, folder, client_id=0, data=None):
    return kind(
        Workspace(client_id, settings, data or federated_data(settings), ClientFolder(folder / str(client_id)), "cpu")
    )


def state(folder, number, client_id=0):
    return states_folder(ClientFolder(folder / str(client_id)), f"run/{number}") / f"model-{number}"


def ask(one, number, consensus=None, run="run"):
    """The answer to round ``number``; each round has its own 50 public records."""
    settings = one.workspace.settings
    rows = [np.random.default_rng(n).permutation(200)[:50].astype(np.int32) for n in (number, number - 1)]
    arrays = [rows[0]]
    if number > 1:
        shape = (50, len(one.workspace.data.classes))
        known = np.full(shape, 1 / shape[1]) if consensus is None else consensus
        arrays += [rows[1], *consensus_codec(settings, known.shape).pack(known)]
    config = {"request": f"{run}/{number}", "round": number, "fingerprint": one.workspace.data.public_fingerprint}
    return one.fit(arrays, config)


def all_rounds(kind, settings, folder, data=None):
    """The bytes of the answers to all four requests, a new client object for each, as after restarts."""
    found = [ask(client(kind, settings, folder, data=data), n) for n in (1, 2, 3, 4)]
    assert all(not metrics["refused"] for _, _, metrics in found), found[-1][2]
    return [b"".join(array.tobytes() for array in arrays) for arrays, _, _ in found]


@pytest.mark.parametrize("model", ["logistic-regression", "mlp-torch"])
def test_the_same_request_gets_the_same_bytes_and_a_model_is_kept_per_round(model, tmp_path):
    settings = build(FedmdSettings, fitting(FedmdSettings, DIGITS), {"client_models": model, "share": "softmax"})
    first = ask(client(FedmdClient, settings, tmp_path), 1)[0][0]
    assert first.tobytes() == ask(client(FedmdClient, settings, tmp_path), 1)[0][0].tobytes()
    second = ask(client(FedmdClient, settings, tmp_path), 2)[0][0]
    assert second.tobytes() == ask(client(FedmdClient, settings, tmp_path), 2)[0][0].tobytes() != first.tobytes()
    assert [path.name for path in (tmp_path / "0").rglob("model*")] == ["model-2"]
    assert ask(client(FedmdClient, settings, tmp_path), 1)[2]["refused"] == "stale"


@pytest.mark.parametrize("model", ["random-forest", "mlp-torch"])
def test_a_kill_between_training_and_answer_changes_nothing(model, tmp_path, monkeypatch):
    settings = build(FedmdSettings, fitting(FedmdSettings, DIGITS), {"client_models": model, "share": "logits"})
    whole = all_rounds(FedmdClient, settings, tmp_path / "a")
    ask(client(FedmdClient, settings, tmp_path / "b"), 1)
    broken = client(FedmdClient, settings, tmp_path / "b")
    monkeypatch.setattr(broken, "_note", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        ask(broken, 2)
    answers = [ask(client(FedmdClient, settings, tmp_path / "b"), n)[0][0].tobytes() for n in (2, 3, 4)]
    assert answers == whole[1:]
    figures = [client(FedmdClient, settings, tmp_path / name).workspace.folder.figures() for name in ("a", "b")]
    assert figures[0] == figures[1]


@pytest.mark.parametrize("model", ["logistic-regression", "mlp-torch"])
def test_digesting_moves_the_model_towards_the_consensus(model, tmp_path):
    changed = {"client_models": model, "share": "softmax", "digest_epochs": 15, "batch_size": 16, "lr": 5e-3}
    settings = build(FedmdSettings, fitting(FedmdSettings, DIGITS), changed)
    one = client(FedmdClient, settings, tmp_path)
    ask(one, 1)
    rows = np.random.default_rng(1).permutation(200)[:50]
    x, shifted = one.workspace.data.public_x[rows], (one.workspace.data.public_y[rows] + 1) % 10
    ask(one, 2, np.eye(10)[shifted])
    after = one.workspace.own_learner().load(state(tmp_path, 2)).predict_logits(x)
    assert np.mean(after.argmax(axis=1) == shifted) > 0.4  # about 0 before: the model knew the true labels


@pytest.mark.parametrize("loss", ["mae", "l2"])
def test_the_losses_on_logits_bring_the_logits_near(loss, tmp_path):
    changed = {"client_models": "mlp-torch", "share": "logits", "digest_loss": loss, "digest_epochs": 15}
    settings = build(
        FedmdSettings, fitting(FedmdSettings, DIGITS), changed, {"revisit_epochs": 0, "batch_size": 16, "lr": 1e-2}
    )
    one = client(FedmdClient, settings, tmp_path)
    ask(one, 1)
    wanted = np.tile(np.linspace(-3, 3, 10), (50, 1))
    before = one.workspace.own_learner().load(state(tmp_path, 1))
    x = one.workspace.data.public_x[np.random.default_rng(1).permutation(200)[:50]]
    gaps = [float(np.abs(before.predict_logits(x) - wanted).mean())]
    ask(one, 2, wanted)
    after = one.workspace.own_learner().load(state(tmp_path, 2))
    gaps.append(float(np.abs(after.predict_logits(x) - wanted).mean()))
    assert gaps[1] < 0.7 * gaps[0]


def test_a_client_that_missed_rounds_goes_on_with_the_newest_consensus(tmp_path):
    settings = build(FedmdSettings, fitting(FedmdSettings, DIGITS))
    one = client(FedmdClient, settings, tmp_path)
    ask(one, 1)
    assert ask(one, 4)[2]["refused"] == ""
    late = client(FedmdClient, settings, tmp_path, client_id=1)
    assert ask(late, 3)[2]["refused"] == ""
    assert state(tmp_path, 3, client_id=1).exists()


def test_a_further_run_begins_anew_beside_the_first(tmp_path):
    settings = build(FedmdSettings, fitting(FedmdSettings, DIGITS), {"share": "softmax"})
    first = ask(client(FedmdClient, settings, tmp_path), 1)[0][0]
    ask(client(FedmdClient, settings, tmp_path), 2)
    other = ask(client(FedmdClient, settings, tmp_path), 1, run="further")
    assert other[2]["refused"] == "" and np.array_equal(other[0][0], first)
    assert ask(client(FedmdClient, settings, tmp_path), 3)[2]["refused"] == ""


def test_networks_of_a_kind_begin_with_the_same_pretrained_one(tmp_path):
    settings = build(
        FedmdSettings, DIGITS, {"client_models": "mlp-torch", "pretrain_epochs": 15, "epochs": 0, "lr": 1e-2}
    )
    settings = replace(settings, share="logits", batch_size=16)
    answers = [ask(client(FedmdClient, settings, tmp_path, client_id), 1)[0][0] for client_id in (0, 1)]
    assert np.array_equal(*answers)
    assert len(list(tmp_path.glob("pretrained-*"))) == 1
    rows = np.random.default_rng(1).permutation(200)[:50]
    assert np.mean(answers[0].argmax(axis=1) == federated_data(settings).public_y[rows]) > 0.8


def test_figures_of_each_round_stay_in_the_folder(tmp_path):
    one = client(FedmdClient, build(FedmdSettings, fitting(FedmdSettings, DIGITS)), tmp_path)
    ask(one, 1)
    ask(one, 2)
    figures = one.workspace.folder.figures()
    assert set(figures["rounds"]) == {"1", "2"}
    assert figures["rounds"]["2"] == pytest.approx(np.trace(figures["confusion"]) / 100)


@pytest.mark.parametrize(
    ("number", "arrays"),
    [
        (0, [np.arange(50)]),
        (5, [np.arange(50), np.arange(50), np.full((50, 10), 0.1, np.float16)]),
        (1, [np.arange(50), np.arange(50)]),
        (1, [np.arange(49)]),
        (1, [np.arange(50) + 151]),
        (1, [np.arange(50.0)]),
        (2, [np.arange(50), np.arange(50)]),
        (2, [np.arange(50), np.arange(50), np.full((50, 10), 0.1)]),
        (2, [np.arange(50), np.arange(50), np.full((49, 10), 0.1, np.float16)]),
        (2, [np.arange(50), np.arange(50), np.full((50, 10), 0.3, np.float16)]),
        (2, [np.arange(50), np.arange(50), np.full((50, 10), np.nan, np.float16)]),
        (2, [np.arange(50), np.zeros(50, int), np.full((50, 10), 0.1, np.float16)]),
    ],
)
def test_a_wrong_request_is_refused_before_any_training(number, arrays, tmp_path):
    one = client(FedmdClient, build(FedmdSettings, fitting(FedmdSettings, DIGITS), {"share": "softmax"}), tmp_path)
    config = {"request": "r", "round": number, "fingerprint": one.workspace.data.public_fingerprint}
    out, _, metrics = one.fit(arrays, config)
    assert (out, metrics["refused"]) == ([], "request")
    assert not (tmp_path / "0").exists()


def test_what_is_told_is_what_the_settings_say(tmp_path):
    told = {}
    for share in ("logits", "softmax", "argmax"):
        for precision in ("float16", "int8"):
            settings = build(FedmdSettings, fitting(FedmdSettings, DIGITS), {"share": share, "precision": precision})
            told[share, precision] = ask(client(FedmdClient, settings, tmp_path), 1)[0], settings
    labels = unpack_labels(told["argmax", "int8"][0][0], 50, 10)
    for (share, precision), (arrays, settings) in told.items():
        if share != "argmax":
            values = consensus_codec(settings, (50, 10)).read(arrays)
            assert np.mean(values.argmax(axis=1) == labels) > 0.95, (share, precision)
    sizes = {kind: sum(array.nbytes for array in arrays) for kind, (arrays, _) in told.items()}
    assert sizes["logits", "float16"] == sizes["softmax", "float16"] == 50 * 10 * 2
    assert sizes["softmax", "int8"] == 50 * 10
    assert sizes["argmax", "float16"] == 25


def poisoned(data, client_id, keep):
    """The same federation, with noise and a wrong label in every record of the client that is not in ``keep``."""
    x, y = np.array(data.private.x), np.array(data.private.y)
    rest = np.setdiff1d(data.parts[client_id], keep)
    x[rest] = np.random.default_rng(0).integers(0, 256, x[rest].shape)
    y[rest] = (y[rest] + 1) % 10
    return replace(data, private=Examples(x, y)), rest


@pytest.mark.parametrize("model", ["logistic-regression", "mlp-torch"])
@pytest.mark.parametrize("replacement", [True, False])
def test_nfdp_reads_its_sample_and_nothing_else_of_the_partition(model, replacement, tmp_path):
    settings = build(
        NfdpSettings,
        fitting(NfdpSettings, DIGITS),
        {"k": 30, "client_models": model, "share": "logits", "noise_seed": 7},
    )
    settings = replace(settings, replacement=replacement)
    data = federated_data(settings)
    chosen = data.parts[0][client(NfdpClient, settings, tmp_path / "a").sample()]
    other, rest = poisoned(data, 0, chosen)
    assert 70 <= rest.size < 100
    clean = all_rounds(NfdpClient, settings, tmp_path / "a", data)
    assert all_rounds(NfdpClient, settings, tmp_path / "b", other) == clean
    # the same test sees it when the sample itself is touched
    touched, _ = poisoned(data, 0, chosen[:-15])
    assert all_rounds(NfdpClient, settings, tmp_path / "c", touched) != clean


def test_the_sample_is_in_the_ledger_before_training_secret_and_the_same_ever_after(tmp_path, monkeypatch):
    settings = build(NfdpSettings, fitting(NfdpSettings, DIGITS), {"k": 30})
    one = client(NfdpClient, settings, tmp_path)
    monkeypatch.setattr(one, "_begin", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        ask(one, 1)
    ledger = Ledger(tmp_path / "0" / "ledger")
    drawn = ledger.stored(SAMPLE)["sample"]
    for number in (1, 2):
        ask(client(NfdpClient, settings, tmp_path), number)
    assert np.array_equal(client(NfdpClient, settings, tmp_path).sample(), drawn)
    assert [line["kind"] for line in ledger.lines()] == ["open", "charge", "release"]
    # another run on the same ledger, as a site keeps it, uses the same sample
    workspace = Workspace(0, settings, federated_data(settings), ClientFolder(tmp_path / "further"), "cpu", ledger)
    assert np.array_equal(NfdpClient(workspace).sample(), drawn)
    assert not np.array_equal(client(NfdpClient, settings, tmp_path / "x").sample(), drawn)
    assert ledger.costs() == [NfdpSample(100, 30).cost()]
    before = ledger.path.read_bytes()
    for changed in ({"k": 31}, {"replacement": False}):
        out, _, metrics = ask(client(NfdpClient, replace(settings, **changed), tmp_path), 3)
        assert (out, metrics["refused"]) == ([], "settings")
    assert ledger.path.read_bytes() == before


def test_sampling_with_replacement_trains_on_duplicates(tmp_path):
    settings = build(NfdpSettings, fitting(NfdpSettings, DIGITS), {"k": 300, "noise_seed": 1})
    own = client(NfdpClient, settings, tmp_path).own()
    assert len(own) == 300
    assert len(np.unique(own.x.reshape(300, -1), axis=0)) <= 100


def charged(one):
    """The sample that the client is charged for."""
    return one.composition(None).parts["sample"]


def test_a_client_below_the_declared_size_has_empty_seats(tmp_path):
    """That a client is so small decides about no refusal: its sample is drawn and charged as of the size agreed."""
    settings = build(NfdpSettings, fitting(NfdpSettings, DIGITS), {"k": 30, "share": "softmax"})
    data = federated_data(settings)
    one = client(NfdpClient, replace(settings, min_size=400), tmp_path, data=data)
    assert one.workspace.records == 100 and one.sampling == charged(one) == NfdpSample(400, 30)
    arrays, _, metrics = ask(one, 1)
    assert metrics["refused"] == "" and len(arrays) == 1
    drawn = one.sample()
    assert len(drawn) == 30 and drawn.max() >= 100  # 30 seats all among the first quarter: 1e-18
    assert len(one.own()) == (drawn < 100).sum() < 30
    assert Ledger(tmp_path / "0" / "ledger").costs() == [NfdpSample(400, 30).cost()]
    rows = data.parts[0][drawn[drawn < 100]]
    assert np.array_equal(one.own().y, data.private.y[rows])


def test_a_client_above_the_declared_size_is_charged_for_what_it_draws(tmp_path):
    settings = build(NfdpSettings, fitting(NfdpSettings, DIGITS), {"k": 30, "min_size": 50})
    one = client(NfdpClient, settings, tmp_path)
    assert one.sampling == charged(one) == NfdpSample(100, 30)
    at_site = NfdpClient(replace(one.workspace, settings=replace(settings, dataset=SITES)))
    # there the number of records is the site's own affair: the charge is what the fewest agreed on would cost
    assert at_site.sampling == NfdpSample(100, 30) and charged(at_site) == NfdpSample(50, 30)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("share", ["logits", "softmax", "argmax"])
def test_ldp_noise_is_as_large_as_the_mechanism_says_and_all_rounds_fit_the_budget(noise, share, tmp_path):
    settings = build(LdpSettings, fitting(LdpSettings, DIGITS), {"epsilon": 200, "noise": noise, "share": share})
    noisy = settings.noisy_predictions(10)
    assert 199.9 < noisy.epsilon(1e-3) <= 200
    assert noisy.epsilon(1e-3) == accounting.epsilon([noisy.cost()] * 4, 1e-3, noisy.accountant)
    one = client(LdpClient, settings, tmp_path)
    release = Singles((50, 10)).read(ask(one, 1)[0])
    learner = one.workspace.own_learner().load(state(tmp_path, 1))
    rows = np.random.default_rng(1).permutation(200)[:50]
    plain = noisy.bounded(learner.predict_logits(one.workspace.data.public_x[rows]))
    spread = noisy.noisy.sigma if noise == "gaussian" else np.sqrt(2) * noisy.noisy.scale
    assert np.std(release - plain) == pytest.approx(spread, rel=0.3)
    for number in (2, 3, 4):
        assert ask(one, number, plain if share == "logits" else None)[2]["refused"] == ""
    ledger = Ledger(tmp_path / "0" / "ledger")
    assert [line["kind"] for line in ledger.lines()].count("charge") == 4
    assert ledger.spent() == pytest.approx(200, rel=1e-3)
    same = plain if share == "logits" else None
    assert ask(client(LdpClient, settings, tmp_path), 4, same)[2]["refused"] == ""  # asked again: nothing is charged
    other = ask(client(LdpClient, settings, tmp_path), 4, np.roll(np.eye(10), 1, axis=1)[np.arange(50) % 10])
    assert (other[0], other[2]["refused"]) == ([], "request")  # another consensus is another question
    assert [line["kind"] for line in ledger.lines()].count("charge") == 4
    # a further run on the same records finds the budget spent
    further = Workspace(0, settings, one.workspace.data, ClientFolder(tmp_path / "further"), "cpu", ledger)
    _, _, metrics = ask(LdpClient(further), 1, run="further")
    assert metrics["refused"] == "budget"
    assert [line["kind"] for line in ledger.lines()].count("charge") == 4
    assert not (tmp_path / "further" / "errors.txt").exists()


def test_ldp_answers_once_with_fresh_secret_noise(tmp_path):
    settings = build(LdpSettings, fitting(LdpSettings, DIGITS), {"epsilon": 50})
    first = ask(client(LdpClient, settings, tmp_path / "a"), 1)[0][0]
    assert np.array_equal(ask(client(LdpClient, settings, tmp_path / "a"), 1)[0][0], first)
    assert not np.array_equal(ask(client(LdpClient, settings, tmp_path / "b"), 1)[0][0], first)


def test_ldp_rounds_that_fail_are_told_blank_and_a_client_is_never_past_its_round_for_reasons_of_its_own(
    tmp_path, monkeypatch
):
    """Whether its training worked must not show in what it refuses: a charged method refuses no round as stale."""
    settings = build(LdpSettings, fitting(LdpSettings, DIGITS), {"epsilon": 50})
    sound, broken = (client(LdpClient, settings, tmp_path / name) for name in ("sound", "broken"))
    monkeypatch.setattr(broken, "_go_on", lambda *_: (_ for _ in ()).throw(ValueError("patient 17")))
    told = {}
    for one in (sound, broken):
        told[one] = [ask(one, number)[2] for number in (1, 3)]
        told[one] += [ask(one, 1)[2], ask(one, 2)[2]]  # asked again, and asked late
    words = [[(m["refused"], m["detail"]) for m in found] for found in told.values()]
    assert words[0] == words[1] == [("", "")] * 4
    charges = [Ledger(tmp_path / name / "0" / "ledger").costs() for name in ("sound", "broken")]
    assert charges[0] == charges[1] and len(charges[0]) == 3
    assert "patient 17" in (tmp_path / "broken" / "0" / "errors.txt").read_text() and broken.failed


def test_ldp_needs_more_noise_for_more_rounds_and_more_queries(tmp_path):
    settings = build(LdpSettings, fitting(LdpSettings, DIGITS), {"epsilon": 1})
    sigma = settings.noisy_predictions(10).noisy.sigma
    longer = replace(settings, rounds=15).noisy_predictions(10).noisy.sigma
    wider = replace(settings, queries=200).noisy_predictions(10).noisy.sigma
    assert longer == pytest.approx(2 * sigma, rel=0.01)  # 16 releases for 4
    assert wider == pytest.approx(2 * sigma, rel=0.01)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"digest_loss": "mae"}, "share=logits"),
        ({"weights": "confidence"}, "argmax"),
    ],
)
def test_combinations_that_cannot_work_are_refused(change, words):
    with pytest.raises(SettingsError, match=words):
        build(FedmdSettings, fitting(FedmdSettings, DIGITS), change)
