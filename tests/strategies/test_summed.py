"""Secure aggregation through Flower's own server loop, with real clients and no network: who counts, what is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.client_proxy import ClientProxy

from fedballot.clients.pate import PateClient
from fedballot.clients.private_knn import KnnClient
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import RunError
from fedballot.core.files import read_arrays
from fedballot.core.folders import ClientFolder
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.runs.engine import federated_data
from fedballot.runs.legacy_api import BallotServer
from fedballot.settings.voting import KnnSettings, PateSettings, mechanism
from fedballot.strategies.voting import VotingStrategy
from fedballot.wire import secagg
from tests.conftest import small_settings


class Node(ClientProxy):
    """A connected client that answers in this process; ``world`` says what goes wrong with it."""

    def __init__(self, world: World, client_id: int) -> None:
        super().__init__(f"{world.names}-{client_id}")
        self.world, self.client_id = world, client_id

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        return self.world.reply(self.client_id, ins)

    get_properties = get_parameters = evaluate = reconnect = None


Node.__abstractmethods__ = frozenset()


@dataclass
class World:
    """Clients on disk, and what the server has received."""

    settings: PateSettings
    folder: Path
    gone: dict[tuple[str, int], str] = field(default_factory=dict)
    replies: list[tuple[int, FitIns, FitRes]] = field(default_factory=list)
    server: BallotServer | None = None
    client: type[PateClient] | type[KnnClient] = PateClient
    names: str = "node"  # of nodes, in the network

    def reply(self, client_id: int, ins: FitIns) -> FitRes:
        fault = self.gone.get((str(ins.config.get("stage")), client_id), "")
        if fault == "raises":
            raise RuntimeError("node is gone")
        if fault == "leaves":
            self.server.client_manager().unregister(Node(self, client_id))
        workspace = Workspace(
            client_id,
            self.settings,
            federated_data(self.settings),
            ClientFolder(self.folder / "clients" / str(client_id)),
            "cpu",
        )
        arrays, one, metrics = self.client(workspace).fit(parameters_to_ndarrays(ins.parameters), dict(ins.config))
        if fault == "damaged":
            arrays = [array[:-1] for array in arrays]
        if fault == "poses":
            metrics["client_id"] = (client_id + 1) % self.settings.clients
        res = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), one, metrics)
        self.replies.append((client_id, ins, res))
        return res

    def strategy(self) -> VotingStrategy:
        data = federated_data(self.settings)
        made = VotingStrategy(
            self.settings,
            data=data,
            device="cpu",
            nodes=self.settings.clients,
            fingerprint=data.public_fingerprint,
            request_id="run",
            progress=Silent(),
        )
        made.take_up(self.folder / "checkpoint.npz")
        return made

    def run(self, strategy: VotingStrategy | None = None) -> VotingStrategy:
        strategy = strategy or self.strategy()
        self.server = BallotServer(strategy, lambda error: None if error else strategy.outcome())
        for client_id in range(self.settings.clients):
            self.server.client_manager().register(Node(self, client_id))
        self.server.fit(strategy.rounds - strategy.rounds_done, 60)
        return strategy

    def releases(self, clients: Any) -> np.ndarray:
        """What the clients' ledgers say that they have released, (clients, Q, C)."""
        found = [next((self.folder / "clients" / str(a) / "ledger" / "releases").glob("*.npz")) for a in clients]
        return np.stack([read_arrays(path)["votes"] for path in found])

    def charged(self) -> list[int]:
        return [client_id for client_id in range(self.settings.clients) if self._lines(client_id)]

    def _lines(self, client_id: int) -> int:
        path = self.folder / "clients" / str(client_id) / "ledger" / "ledger.jsonl"
        return path.read_text().count('"kind": "charge"') if path.exists() else 0


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Six clients, of whom four must be in the sum."""
    changes = {
        "clients": 6,
        "min_clients": 4,
        "private_size": 300,
        "public_size": 60,
        "server_epochs": 1,
        "epsilon": 40,
    }
    return World(small_settings(PateSettings, changes, {"secure_aggregation": True}), tmp_path)


def told(done: VotingStrategy) -> list[dict[str, Any]]:
    return [one.worded() for one in done.guarantees()]


def test_the_tally_is_the_plain_sum_and_the_trust_is_stated(world: World) -> None:
    done = world.run()
    assert np.array_equal(done.state()["total"], world.releases(range(6)).sum(axis=0))
    first = told(done)[0]
    assert (first["trust"], first["view"]) == ("secure aggregation (min_clients=4, colluders=0)", "server's view")
    # the noise of six came, that of four was agreed and charged
    noisy = mechanism(world.settings)
    assert first["epsilon"] < noisy.epsilon(1e-3, "client") <= 40
    assert "with the noise of 6 clients" in first["composition"]
    assert not [g for g in told(done) if g["trust"] == "self"]
    assert done.aggregation["secure"] and done.round_records[0]["answered"] == 6


def test_neighbours_are_counted_under_masks_too(world: World) -> None:
    given = {key: value for key, value in world.settings.to_dict().items() if key in KnnSettings.__dataclass_fields__}
    world.settings, world.client = build(KnnSettings, given, {"k": 3, "unit": "record", "epsilon": 40}), KnnClient
    done = world.run()
    assert np.array_equal(done.state()["total"], world.releases(range(6)).sum(axis=0))
    assert told(done)[0]["trust"] == "secure aggregation (min_clients=4, colluders=0)"


def test_in_the_clear_the_trust_is_another(world: World) -> None:
    world.settings = build(PateSettings, world.settings.to_dict(), {"secure_aggregation": False})
    done = world.run()
    trusts = [(g["trust"], g["view"]) for g in told(done)]
    assert trusts[0] == ("trusted aggregator", "output only") and ("self", "server's view") in trusts
    assert done.aggregation == {"secure": False, "words": "The server saw every ballot and added them up itself."}


def test_nothing_private_travels_beside_the_masks(world: World) -> None:
    world.run()
    assert len(world.replies) == 30
    for _, _, res in world.replies:
        assert res.num_examples == 1
        assert set(res.metrics) == {"client_id", "began", "compute_s", "refused", "detail"}
        assert (res.metrics["refused"], res.metrics["detail"]) == ("", "")
    sent = [res.parameters.tensors for _, ins, res in world.replies if ins.config["stage"] == secagg.MASKED]
    assert len({tensors[0] for tensors in sent}) == 6


def test_every_lost_client_is_counted_once_and_the_sum_is_of_the_others(world: World) -> None:
    world.gone = {(secagg.SHARES, 1): "raises", (secagg.MASKED, 4): "damaged"}
    done = world.run()
    assert np.array_equal(done.state()["total"], world.releases([0, 2, 3, 5]).sum(axis=0))
    counts = done.counts
    assert (counts.asked, counts.answered, dict(counts.rejected)) == (6, 4, {"no answer": 1, "shape": 1})
    assert told(done)[0]["epsilon"] == pytest.approx(mechanism(world.settings).epsilon(1e-3, "client"))


def test_a_client_that_leaves_after_its_ballot_is_in_the_sum(world: World) -> None:
    world.gone = {(secagg.MASKED, 1): "leaves", (secagg.UNMASK, 2): "raises"}
    done = world.run()
    assert np.array_equal(done.state()["total"], world.releases(range(6)).sum(axis=0))
    assert (done.counts.answered, dict(done.counts.rejected)) == (6, {})


def test_a_client_that_leaves_between_exchanges_is_counted_and_left_out(world: World) -> None:
    world.gone = {(secagg.KEYS, 1): "leaves", (secagg.SHARES, 3): "poses"}
    done = world.run()
    assert np.array_equal(done.state()["total"], world.releases([0, 2, 4, 5]).sum(axis=0))
    assert dict(done.counts.rejected) == {"no answer": 1, "client_id": 1}


@pytest.mark.parametrize("stage", [secagg.KEYS, secagg.SHARES, secagg.MASKED])
def test_too_many_dropouts_are_a_clear_error(world: World, stage: str) -> None:
    world.gone = {(stage, client_id): "raises" for client_id in (0, 2, 5)}
    with pytest.raises(RunError) as caught:
        world.run()
    for words in (
        f"exchange of {stage}: 3 clients are left, min_clients asks for 4",
        "no answer: 3",
        "Nothing was open",
    ):
        assert words in str(caught.value)
    # whose ballot never left has paid nothing
    assert world.charged() == ([1, 3, 4] if stage == secagg.MASKED else [])


def test_after_an_abort_the_run_goes_on_with_the_same_ballots_and_charges(world: World) -> None:
    world.gone = {(secagg.MASKED, client_id): "raises" for client_id in (0, 2, 5)}
    with pytest.raises(RunError):
        world.run()
    before = world.releases([1, 3, 4])
    world.gone = {}
    done = world.run()
    assert np.array_equal(world.releases([1, 3, 4]), before)
    assert np.array_equal(done.state()["total"], world.releases(range(6)).sum(axis=0))
    assert [world._lines(client_id) for client_id in range(6)] == [1] * 6


@pytest.mark.parametrize("stage", [secagg.CONFIRM, secagg.UNMASK])
def test_after_an_abort_in_the_last_two_exchanges_the_same_sum_is_opened(world: World, stage: str) -> None:
    world.gone = {(secagg.MASKED, 5): "raises", **{(stage, client_id): "raises" for client_id in (0, 1, 2)}}
    with pytest.raises(RunError, match=f"exchange of {stage}"):
        world.run()
    asked = len(world.replies)
    assert (world.folder / "exchange.npz").stat().st_mode & 0o077 == 0
    # a server started anew knows its clients by other names, and one of them stays away
    world.gone, world.names = {(secagg.UNMASK, 3): "raises"}, "again"
    done = world.run()
    assert {ins.config["stage"] for _, ins, _ in world.replies[asked:]} <= {secagg.CONFIRM, secagg.UNMASK}
    assert np.array_equal(done.state()["total"], world.releases(range(5)).sum(axis=0))
    assert (done.counts.asked, done.counts.answered, dict(done.counts.rejected)) == (6, 5, {"no answer": 1})
    assert [world._lines(client_id) for client_id in range(6)] == [1] * 5 + [0]
    assert not (world.folder / "exchange.npz").exists()


def test_in_an_exchange_that_is_taken_up_whoever_poses_as_another_spoils_no_sum(world: World) -> None:
    world.gone = {(secagg.CONFIRM, client_id): "raises" for client_id in range(6)}
    with pytest.raises(RunError, match="exchange of confirm"):
        world.run()
    world.gone, world.names = {(secagg.CONFIRM, 3): "poses"}, "again"
    done = world.run()
    assert np.array_equal(done.state()["total"], world.releases(range(6)).sum(axis=0))


def test_an_opened_sum_survives_a_server_that_breaks_while_it_learns(world: World, monkeypatch) -> None:
    def breaks(*args: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(VotingStrategy, "learn_from_sum", breaks)
        with pytest.raises(RunError, match="MemoryError"):
            world.run()
    asked = len(world.replies)
    done = world.run()
    assert len(world.replies) == asked
    assert np.array_equal(done.state()["total"], world.releases(range(6)).sum(axis=0))
    assert (done.counts.asked, done.counts.answered, len(done.round_records)) == (6, 6, 1)
    # and without what the server has kept, nobody opens it again
    (world.folder / "checkpoint.npz").unlink()
    with pytest.raises(RunError, match="opened: 6"):
        world.run()


def test_too_few_helpers_are_a_clear_error(world: World) -> None:
    world.gone = {(secagg.UNMASK, client_id): "raises" for client_id in (0, 1, 2)}
    with pytest.raises(RunError, match=r"exchange of unmask: 3 clients sent .* 4 are needed.* no answer: 3"):
        world.run()


# what a client does


def ask(world: World, client_id: int = 0, **config: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    known = {"request": "run/1", "fingerprint": federated_data(world.settings).public_fingerprint, **config}
    res = world.reply(client_id, FitIns(ndarrays_to_parameters([np.arange(60, dtype=np.int32)]), known))
    return parameters_to_ndarrays(res.parameters), res.metrics


def test_no_ballot_leaves_without_masks_however_it_is_asked_for(world: World) -> None:
    for config, refused in (
        ({}, "stage"),
        ({"stage": "plain"}, "stage"),
        ({"stage": secagg.MASKED, "session": "s"}, "request"),  # about which there was no first exchange
    ):
        arrays, metrics = ask(world, **config)
        assert (arrays, metrics["refused"]) == ([], refused)
    assert world.charged() == []
    world.settings = build(PateSettings, world.settings.to_dict(), {"secure_aggregation": False})
    assert ask(world, stage=secagg.KEYS, session="s")[1]["refused"] == "stage"


def test_no_client_looks_at_its_records_before_the_third_exchange_charges_them(world: World, monkeypatch) -> None:
    looked: list[tuple[int, int]] = []
    teacher = PateClient.teacher

    def looks(one: PateClient) -> Any:
        looked.append((one.workspace.client_id, world._lines(one.workspace.client_id)))
        return teacher(one)

    monkeypatch.setattr(PateClient, "teacher", looks)
    world.gone = {(secagg.MASKED, client_id): "raises" for client_id in range(6)}
    with pytest.raises(RunError):
        world.run()
    assert looked == [] and world.charged() == []
    assert not any((world.folder / "clients" / str(client_id) / "model").exists() for client_id in range(6))
    world.gone = {}
    world.run()
    assert sorted(looked) == [(client_id, 1) for client_id in range(6)]


def test_a_client_whose_own_work_fails_is_in_the_sum_with_its_noise(world: World, monkeypatch) -> None:
    votes = PateClient.votes

    def breaks(one: PateClient, queries: np.ndarray) -> np.ndarray:
        if one.workspace.client_id == 2:
            raise ValueError("patient 17")
        return votes(one, queries)

    monkeypatch.setattr(PateClient, "votes", breaks)
    done = world.run()
    assert (done.counts.answered, dict(done.counts.rejected)) == (6, {})
    assert np.array_equal(done.state()["total"], world.releases(range(6)).sum(axis=0))
    assert world.releases([2]).any() and world.charged() == list(range(6))
    assert "patient 17" in (world.folder / "clients" / "2" / "errors.txt").read_text()


def test_a_budget_that_is_spent_is_a_refusal_at_the_first_exchange(world: World) -> None:
    ask(
        World(build(PateSettings, world.settings.to_dict(), {"secure_aggregation": False}), world.folder), request="old"
    )
    assert world.charged() == [0]
    done = world.run()
    assert dict(done.counts.rejected) == {"budget": 1}
    stages = [ins.config["stage"] for client_id, ins, _ in world.replies if client_id == 0]
    assert stages == [secagg.KEYS] and world._lines(0) == 1
    assert np.array_equal(done.state()["total"], world.releases(range(1, 6)).sum(axis=0))


def test_an_exchange_goes_on_about_what_was_asked_first(world: World) -> None:
    """Keys made for one question are of no use for another under the same name, and nothing is charged for trying."""
    assert ask(world, stage=secagg.KEYS, session="s")[1]["refused"] == ""
    kept = world.settings
    for changes in ({"server_epochs": 31}, {"epsilon": 30.0}, {"colluders": 1}, {"min_clients": 5}):
        world.settings = build(PateSettings, kept.to_dict(), changes)
        for stage in secagg.STAGES:
            arrays, metrics = ask(world, stage=stage, session="s")
            assert (arrays, metrics["refused"] in ("request", "settings")) == ([], True), (changes, stage)
    world.settings = kept
    rows = ndarrays_to_parameters([np.arange(60, dtype=np.int32)[::-1].copy()])
    known = {"request": "run/1", "fingerprint": federated_data(kept).public_fingerprint}
    res = world.reply(0, FitIns(rows, {**known, "stage": secagg.KEYS, "session": "t"}))
    assert res.metrics["refused"] == "request"
    assert world.charged() == []


def test_votes_without_noise_take_the_fewest_bits(world: World) -> None:
    world.settings = build(PateSettings, world.settings.to_dict(), {"epsilon": "inf"})
    done = world.run()
    assert done.aggregation["bits"] == 4
    total = done.state()["total"]
    assert (total >= 0).all() and (total.sum(axis=1) <= 6).all() and total.sum() > 60
    assert told(done)[0]["status"] == "none"
