"""The server's checks, on answers as they come: each kind of bad answer is counted, too few good ones are an error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy

from fedballot.core.errors import DataError, RunError
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.privacy.ledger.heads import HEAD_KEY, TAG_KEY, Heads
from fedballot.runs.engine import federated_data
from fedballot.settings.voting import PateSettings
from fedballot.strategies.voting import VotingStrategy
from fedballot.wire.messages import Reply, serialise


class Proxy(ClientProxy):
    """A connected client that the test answers for."""

    fit = get_properties = get_parameters = evaluate = reconnect = None


Proxy.__abstractmethods__ = frozenset()


def strategy(settings: PateSettings) -> VotingStrategy:
    data = federated_data(settings)
    return VotingStrategy(
        settings,
        data=data,
        device="cpu",
        nodes=settings.clients,
        fingerprint=data.public_fingerprint,
        request_id="r",
        progress=Silent(),
    )


def answer(client_id: int, *arrays: np.ndarray, **metrics: object) -> Reply:
    known = {"client_id": client_id, "began": 1.0, "compute_s": 0.5, "refused": "", "detail": "", **metrics}
    return Reply(str(client_id), serialise(list(arrays)), known)


def take(one: VotingStrategy, replies: list[Reply], failures: list[str]) -> None:
    """One round of a run in which this comes."""
    one.ask(1, [str(client_id) for client_id in range(one.nodes)])
    for reply in replies:
        one.receive(reply)
    for failure in failures:
        one.miss(failure)
    one.conclude(1)


def ballot(dtype: type = np.int8) -> np.ndarray:
    votes = np.zeros((300, 10), dtype=dtype)
    votes[:, 3] = 1
    return votes


def test_every_kind_of_bad_answer_is_counted_and_the_rest_is_used(small):
    one = strategy(build(PateSettings, small.to_dict(), {"clients": 20, "min_clients": 3, "server_epochs": 0}))
    results = [
        answer(0, ballot()),
        answer(1, ballot(np.int16)),
        answer(2, ballot(np.int32)),
        answer(3, ballot(np.float64) * np.nan),
        answer(4, ballot(np.float64)),
        answer(5, ballot()[:-1]),
        answer(6, ballot(), ballot()),
        answer(7),
        answer(2, ballot()),
        answer(99, ballot()),
        answer(8, refused="fingerprint", detail="another public set"),
        answer(9, refused="raised", detail="ValueError"),
    ]
    take(one, results, ["node is gone"])
    assert one.counts.answered == 3
    assert dict(one.counts.rejected) == {
        "non-finite": 1,
        "dtype": 1,
        "shape": 1,
        "count": 2,
        "duplicate": 1,
        "client_id": 1,
        "fingerprint": 1,
        "raised": 1,
        "no answer": 1,
    }
    assert np.array_equal(one.state()["total"], 3 * ballot(np.int64))
    assert one.outcome()["metrics"]["released_noise_sigma"] > 0
    assert one.round_records[0]["answered"] == 3


def test_damaged_bytes_are_unreadable_not_a_crash(small):
    one = strategy(build(PateSettings, small.to_dict(), {"min_clients": 8}))
    reply = answer(0, ballot())
    reply.tensors[0] = reply.tensors[0][:50]
    with pytest.raises(RunError, match="unreadable: 1"):
        take(one, [reply], [])


def test_pickled_objects_are_not_opened(small):
    one = strategy(build(PateSettings, small.to_dict(), {"min_clients": 8}))
    reply = answer(0, ballot())
    import io

    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    reply.tensors[0] = stream.getvalue()
    with pytest.raises(RunError, match="unreadable: 1"):
        take(one, [reply], [])


def test_too_few_good_answers_are_an_error_that_says_why(small):
    one = strategy(small)
    with pytest.raises(RunError) as error:
        take(one, [answer(0, ballot()), answer(1, refused="empty", detail="no records")], [])
    assert "only 1 of 2 clients" in str(error.value)
    assert "min_clients asks for 8" in str(error.value)
    assert "empty: 1 (first: no records)" in str(error.value)


def test_the_wrong_number_of_clients_is_an_error(small, monkeypatch):
    monkeypatch.setattr("fedballot.strategies.rounds.JOIN_TIMEOUT_S", 1)
    manager = SimpleClientManager()
    for client_id in range(3):
        manager.register(Proxy(str(client_id)))
    with pytest.raises(RunError, match="3 clients are connected, but clients=8"):
        strategy(small).configure_fit(1, ndarrays_to_parameters([]), manager)


def test_every_client_is_asked_the_same_and_bytes_are_counted(small):
    one, manager = strategy(small), SimpleClientManager()
    for client_id in range(8):
        manager.register(Proxy(str(client_id)))
    asked = one.configure_fit(1, ndarrays_to_parameters([]), manager)
    assert len(asked) == 8
    instructions = [ins for _, ins in asked]
    assert all(isinstance(ins, FitIns) and ins is not None for ins in instructions)
    assert {ins.config["fingerprint"] for ins in instructions} == {one.fingerprint}
    assert one.counts.bytes_down == 8 * sum(len(t) for t in instructions[0].parameters.tensors) > 8 * 300 * 4


class Answering(Proxy):
    """A connected client with an answer, or an error."""

    def __init__(self, client_id: int, status: Code | None, votes: np.ndarray) -> None:
        super().__init__(str(client_id))
        self.status, self.votes = status, votes

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        if self.status is None:
            raise RuntimeError("node is gone")
        metrics = {"client_id": int(self.cid), "refused": "", "detail": "", HEAD_KEY: 64 * "0", TAG_KEY: self.cid}
        return FitRes(Status(self.status, "not now"), ndarrays_to_parameters([self.votes]), 1, metrics)


def asked(
    one: VotingStrategy, statuses: list[Code | None], before: Callable[[], object] = lambda: None
) -> tuple[list, list]:
    """What Flower hands to ``aggregate_fit``, of clients that answer so; ``before`` they do, something happens."""
    manager = SimpleClientManager()
    for client_id, status in enumerate(statuses):
        manager.register(Answering(client_id, status, ballot()))
    results: list = []
    failures: list = []
    requests = one.configure_fit(1, ndarrays_to_parameters([]), manager)
    before()
    for proxy, ins in requests:
        try:
            came = proxy.fit(ins, None, None)
        except RuntimeError as error:
            failures.append(error)
        else:
            (results if came.status.code == Code.OK else failures).append((proxy, came))
    return results, failures


def test_an_answer_is_added_up_when_it_comes_and_flower_keeps_none_of_its_arrays(small):
    one = strategy(build(PateSettings, small.to_dict(), {"min_clients": 3}))
    results, failures = asked(one, [Code.OK] * 6 + [None, Code.FIT_NOT_IMPLEMENTED])
    assert (len(results), len(failures)) == (6, 2)
    assert all(not came.parameters.tensors and not came.metrics for _, came in results)
    one.aggregate_fit(1, results, failures)
    assert np.array_equal(one.state()["total"], 6 * ballot(np.int64))
    assert (one.counts.answered, dict(one.counts.rejected)) == (6, {"no answer": 2})
    assert one.counts.first_details["no answer"] == "node is gone"


def test_an_error_of_the_server_ends_the_run_and_is_no_clients(small, tmp_path):
    one = strategy(build(PateSettings, small.to_dict(), {"min_clients": 3}))
    one.ledger_heads = Heads(tmp_path / "heads.json")
    results, failures = asked(one, [Code.OK] * 8, lambda: one.ledger_heads.path.write_text("damaged"))
    assert (len(results), failures) == (8, [])
    with pytest.raises(DataError, match=r"heads\.json: not valid JSON"):
        one.aggregate_fit(1, results, failures)
