"""The Message API on Flower's own link: what cannot be used is counted with its reason, and the run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict

from fedballot.clients.base import BallotClient
from fedballot.core.errors import RunError, SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.folders import RunFolder
from fedballot.methods.registry import get_method
from fedballot.runs import legacy_api, message_api
from fedballot.runs.engine import ServerSide, make_client, make_server
from fedballot.runs.flower_api import VARIABLE, flower_api
from fedballot.runs.run_config import client_number
from fedballot.wire import secagg
from fedballot.wire.messages import deserialise, serialise
from tests.conftest import small_settings
from tests.inprocess import Counting, run_here
from tests.link import Link

VOTES = {"epsilon": 40, "noise_seed": 5, "server_epochs": 1}
WEIGHTS = {"clients": 4, "min_clients": 1, "client_models": "mlp-torch"}
Change = Callable[[BallotClient[Any], Any, Any], Any]


class World:
    """A run whose clients a test may change, on a link without Ray."""

    def __init__(self, method: str, out: Path, values: dict[str, Any], change: Change | None = None) -> None:
        self.settings = small_settings(get_method(method).settings, values)
        self.method, self.out, self.change, self.progress = method, out, change, Counting()
        self.link = Link(message_api.client_app(self._client), self.settings.clients)

    def run(self, *, resume: bool = False) -> dict[str, Any]:
        """The result of the run; what the server raises is raised."""
        self.link.run(message_api.server_app(partial(self._server, resume)))
        return json.loads((self.out / "result.json").read_text())  # type: ignore[no-any-return]

    def _server(self, resume: bool, context: Context) -> ServerSide:
        folder = RunFolder.open(self.out, self.method, self.settings, resume=resume)
        return make_server(get_method(self.method), self.settings, folder, workers=2, progress=self.progress)

    def _client(self, context: Context) -> BallotClient[Any]:
        client = make_client(self.method, self.settings, self.out / "clients", client_number(context))
        if self.change is not None:
            client.fit = partial(self.change, client, client.fit)  # type: ignore[method-assign]
        return client


def test_what_cannot_be_used_is_counted_with_its_reason(tmp_path: Path) -> None:
    def broken(client: BallotClient[Any], fit: Any, parameters: Any, config: Any) -> Any:
        number = client.workspace.client_id
        if number == 0:
            raise RuntimeError("a client's program broke")
        if number == 1:
            config = {**config, "fingerprint": "sha256:other"}
        arrays, one, metrics = fit(parameters, config)
        if number == 3:
            metrics["compute_s"] = [1.0, 2.0]
        if number == 4:
            metrics["began"] = "yesterday"
        if number == 5:
            arrays = [arrays[0][:10]]
        return arrays, one, metrics

    world = World("pate-fl", tmp_path / "r", {**VOTES, "clients": 9, "min_clients": 2}, broken)
    world.link.late = {2}
    world.link.grid.damaged = {world.link.nodes[6]}
    result = world.run()
    assert (result["clients"]["asked"], result["clients"]["answered"]) == (9, 2)
    assert result["clients"]["rejected"] == {"no answer": 4, "fingerprint": 1, "unreadable": 1, "shape": 1}
    assert "another" not in result["clients"]["first_details"]["fingerprint"]
    assert world.progress.stages[0][1:] == [9, 9]


@pytest.mark.parametrize(
    "content",
    [RecordDict({"arrays": ArrayRecord()}), RecordDict({"scalars": ConfigRecord({"client_id": 0})}), RecordDict()],
    ids=["no scalars", "no arrays", "nothing"],
)
def test_a_reply_of_another_kind_is_no_answer(content: RecordDict, tmp_path: Path) -> None:
    world = World("pate-fl", tmp_path / "r", {**VOTES, "clients": 3, "min_clients": 2})
    app, number = world.link._app, world.link.nodes[1]

    def other(message: Message, context: Context) -> Message:
        return Message(content, reply_to=message) if context.node_id == number else app(message, context)

    world.link._app = other  # type: ignore[assignment]
    result = world.run()
    assert (result["clients"]["answered"], result["clients"]["rejected"]) == (2, {"no answer": 1})
    assert "without the records" in result["clients"]["first_details"]["no answer"]


@pytest.mark.parametrize("secure", [False, True])
def test_both_apis_tell_the_same_words(secure: bool, tmp_path: Path) -> None:
    """Nothing leaves a client but its ballot and five words, whatever carries them."""
    values = {**VOTES, "clients": 4, "min_clients": 4, "secure_aggregation": secure}
    world = World("pate-fl", tmp_path / "r", values)
    result, other = world.run(), run_here("pate-fl", world.settings, tmp_path / "other")
    assert len(world.link.seen) == (20 if secure else 4)
    for request, reply in world.link.seen:
        assert set(reply.content) == {"arrays", "scalars"}
        assert set(reply.content["scalars"]) == {"client_id", "began", "compute_s", "refused", "detail"}
        words = {"round", "request", "fingerprint", *(("stage", "session") if secure else ())}
        assert set(request.content["scalars"]) == words
        assert request.metadata.ttl == world.settings.round_timeout_s
    for name, array in read_arrays(tmp_path / "r" / "release.npz").items():
        assert np.array_equal(array, read_arrays(tmp_path / "other" / "release.npz")[name]), name
    for part in ("metrics", "guarantees", "clients", "aggregation"):
        assert result[part] == other[part], part


def test_a_client_that_leaves_between_two_exchanges_gave_no_answer(tmp_path: Path) -> None:
    def leaves(client: BallotClient[Any], fit: Any, parameters: Any, config: Any) -> Any:
        out = fit(parameters, config)
        if client.workspace.client_id == 3 and config["stage"] == secagg.SHARES:
            world.link.leave(3)
        return out

    values = {**VOTES, "clients": 6, "min_clients": 5, "secure_aggregation": True}
    world = World("pate-fl", tmp_path / "r", values, leaves)
    result = world.run()
    assert (result["clients"]["answered"], result["clients"]["rejected"]) == (5, {"no answer": 1})
    assert [stage[1] == stage[2] for stage in world.progress.stages[:5]] == [True] * 5


def test_a_run_that_broke_off_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    values = {"clients": 3, "private_size": 300, "rounds": 3, "queries": 60, "k": 60, "share": "softmax"}
    values |= {"pretrain_epochs": 1, "epochs": 1, "noise_seed": 3}

    def breaks(client: BallotClient[Any], fit: Any, parameters: Any, config: Any) -> Any:
        if config["round"] == 2:
            raise RuntimeError("power cut")
        return fit(parameters, config)

    with pytest.raises(RunError, match="only 0 of 3 clients"):
        World("fedmd-nfdp", tmp_path / "a", values, breaks).run()
    assert json.loads((tmp_path / "a" / "result.json").read_text())["status"] == "failed"
    resumed = World("fedmd-nfdp", tmp_path / "a", values).run(resume=True)
    whole = World("fedmd-nfdp", tmp_path / "b", values).run()
    assert [record["round"] for record in resumed["rounds"]] == [1, 2, 3, 4]
    assert resumed["metrics"] == whole["metrics"]
    one, other = (read_arrays(tmp_path / name / "checkpoint.npz") for name in ("a", "b"))
    assert all(np.array_equal(one[name], other[name]) for name in one if name != "progress")


def test_an_empty_cohort_is_a_round_like_any_other(tmp_path: Path) -> None:
    values = {"clip": 0.5, "noise_multiplier": 2.0, "noise_seed": 1, "rounds": 3, "participation": 0.1}
    world = World("dp-fedavg", tmp_path / "r", {**WEIGHTS, **values})
    asked = [record["asked"] for record in world.run()["rounds"]]
    assert len(asked) == 3 and 0 in asked
    assert len(world.link.seen) == sum(asked) + world.settings.clients  # each told its number once


def test_too_few_clients_are_a_clear_error(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("fedballot.strategies.rounds.JOIN_TIMEOUT_S", 1)
    world = World("pate-fl", tmp_path / "r", VOTES)
    for client_id in range(6):
        world.link.leave(client_id)
    with pytest.raises(RunError, match="2 clients are connected"):
        world.run()
    assert "2 clients are connected" in json.loads((tmp_path / "r" / "result.json").read_text())["error"]


def test_one_place_chooses_the_api(monkeypatch: Any) -> None:
    for version, api in (("1.39.0", legacy_api), ("1.41.3", legacy_api), ("1.42.0", message_api), ("2.0", message_api)):
        monkeypatch.setattr("fedballot.runs.flower_api.metadata.version", lambda _, version=version: version)
        assert flower_api() is api
    for name, api in (("legacy", legacy_api), ("message", message_api)):
        monkeypatch.setenv(VARIABLE, name)
        assert flower_api() is api
    monkeypatch.setenv(VARIABLE, "grpc")
    with pytest.raises(SettingsError, match="neither legacy nor message"):
        flower_api()


def test_arrays_of_every_kind_survive_a_message() -> None:
    arrays = [
        np.arange(6, dtype=np.int8).reshape(2, 3),
        np.array(2.5),
        np.zeros((0, 4), np.float16),
        np.array([True, False]),
        *(np.arange(12, dtype=">i4") for _ in range(10)),  # more than ten: their order is not that of their names
    ]
    scalars = {"round": 3, "name": "a", "share": 0.5, "blob": b"\x00", "secure": True}
    tensors, words = message_api.unpack(message_api.pack(serialise(arrays), scalars))
    assert words == scalars and [type(value) for value in words.values()] == [int, str, float, bytes, bool]
    for array, other in zip(arrays, deserialise(tensors), strict=True):
        assert array.dtype == other.dtype and array.shape == other.shape and np.array_equal(array, other)
    assert message_api.unpack(message_api.pack([], {})) == ([], {})
