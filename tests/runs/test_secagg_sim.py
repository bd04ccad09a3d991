"""A run on Flower's own link, every message recorded at the server: the sum is there, and no ballot can be read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from flwr.common import Context
from scipy import stats

from fedballot.core.files import read_arrays
from fedballot.core.folders import RunFolder
from fedballot.core.progress import Silent
from fedballot.methods.registry import get_method
from fedballot.runs import legacy_api
from fedballot.runs.engine import make_client, make_server
from fedballot.runs.run_config import client_number
from fedballot.settings.voting import PateSettings
from fedballot.strategies.base import BallotStrategy
from fedballot.wire import secagg
from fedballot.wire.messages import deserialise
from fedballot.wire.packing import unpack_labels
from tests.conftest import small_settings
from tests.link import Link

pytestmark = pytest.mark.slow


def _client(settings: PateSettings, root: Path, context: Context):
    """A real client; client 2 breaks when it is asked for its ballot."""
    client_id = client_number(context)
    client = make_client("pate-fl", settings, root, client_id)
    good = client.fit

    def fit(parameters, config):
        if client_id == 2 and config["stage"] == secagg.MASKED:
            raise RuntimeError("a client's program broke")
        return good(parameters, config)

    client.fit = fit
    return client


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of six clients, its result, and what the server has sent and received."""
    seen, original = [], BallotStrategy.take_in

    def take_in(self, reply):
        seen.append((self._exchange.stage, reply))
        original(self, reply)

    changes = {
        "clients": 6,
        "min_clients": 5,
        "private_size": 600,
        "epsilon": 40,
        "server_epochs": 1,
        "secure_aggregation": True,
    }
    settings, out = small_settings(PateSettings, changes), tmp_path_factory.mktemp("runs") / "pate"
    folder = RunFolder.open(out, "pate-fl", settings, resume=False)
    side = make_server(get_method("pate-fl"), settings, folder, workers=2, progress=Silent())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BallotStrategy, "take_in", take_in)
        link = Link(legacy_api.client_app(partial(_client, settings, out / "clients")), settings.clients)
        link.run(legacy_api.server_app(lambda context: side))
    return out, settings, side.recorder.result, seen


def ballots(out: Path) -> dict[int, np.ndarray]:
    """What each client's own ledger says that it has released."""
    paths = {int(path.parents[2].name): path for path in (out / "clients").glob("*/ledger/releases/*.npz")}
    return {client_id: read_arrays(path)["votes"] for client_id, path in paths.items()}


def test_the_tally_is_the_plain_sum_of_those_who_are_in_it(run) -> None:
    out, _, result, _ = run
    kept = ballots(out)
    assert sorted(kept) == [0, 1, 3, 4, 5]
    assert np.array_equal(read_arrays(out / "release.npz")["histogram"], sum(b.astype(int) for b in kept.values()))
    assert result["status"] == "done" and result["aggregation"]["secure"]
    clients = result["clients"]
    assert (clients["asked"], clients["answered"], clients["rejected"]) == (6, 5, {"no answer": 1})
    assert result["guarantees"][0]["trust"] == "secure aggregation (min_clients=5, colluders=0)"
    print("FIGURES", result["timing"], result["communication"])


def test_no_ballot_can_be_read_in_what_the_server_saw(run) -> None:
    out, _, result, seen = run
    bits, kept = result["aggregation"]["bits"], ballots(out)
    masked = {
        int(reply.metrics["client_id"]): deserialise(reply.tensors)[0]
        for stage, reply in seen
        if stage == secagg.MASKED
    }
    assert sorted(masked) == sorted(kept)
    for client_id, ballot in kept.items():
        plain = ballot.ravel().astype(np.int64) % 2**bits
        sent = unpack_labels(masked[client_id], plain.size, 2**bits)
        for values, random in ((sent, True), ((sent - plain) % 2**bits, True), (plain, False)):
            cells = np.bincount(values >> (bits - 4), minlength=16)
            assert bool(stats.chisquare(cells).pvalue > 1e-9) is random
        assert abs(np.corrcoef(sent, plain)[0, 1]) < 0.1
    # nor is one hidden in any other message, whole or packed
    for ballot in kept.values():
        forms = [ballot.astype(kind).tobytes()[:200] for kind in (np.int8, np.int16, np.int32, np.int64)]
        for _, reply in seen:
            everything = b"".join(reply.tensors)
            assert not any(form in everything for form in forms)
    for _, reply in seen:
        assert set(reply.metrics) == {"client_id", "began", "compute_s", "refused", "detail"}


def test_no_client_s_disk_keeps_its_keys(run) -> None:
    out, _, _, seen = run
    left = sorted(path.name.split(".", 1)[1] for path in (out / "clients").glob("*/secagg/*.npz"))
    assert left == [*["opened.npz"] * 5, "pending.npz"]  # client 2's, which was not asked again, go later
    assert len(seen) == 6 + 6 + 5 + 5 + 5
