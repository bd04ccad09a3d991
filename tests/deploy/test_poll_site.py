"""A poll at real sites: refused unless their files allow it, and answered under masks, each on its own ledger."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedballot.deploy.client import SiteClient
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger import Ledger
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.settings.poll import PollSettings, poll_form
from fedballot.wire import secagg
from tests.deploy.harness import edit, three_sites
from tests.deploy.test_secure_site import charges, settings_for

POLL = get_method("poll")


@pytest.fixture
def sites(tmp_path: Path) -> list[Path]:
    """Three sites, as `fedballot site init` makes them, whose ledgers are about records."""
    return three_sites(tmp_path, unit="record", methods=["pate-fl", "poll"])


def ask(site: Path, settings: PollSettings, arrays: list[np.ndarray], **config: object):
    known = {"request": "r/1", "round": 1, "fingerprint": federated_data(settings).public_fingerprint}
    out, _, metrics = SiteClient(site, POLL, settings).fit(arrays, {**known, **config})
    return out, metrics


def test_three_sites_say_how_the_pool_fits_and_nobody_sees_one_of_them(sites: list[Path]) -> None:
    settings = settings_for(sites[0], PollSettings, secure_aggregation=True)
    strategy = new_strategy(POLL, settings, federated_data(settings), request_id="r")
    arrays = strategy.request(1)
    exchange = secagg.Exchange(settings.plan, poll_form(settings, 10), "r/1")
    for stage in secagg.STAGES:
        for number, site in enumerate(sites):
            sent = arrays if stage == secagg.KEYS else exchange.ask(number)
            out, metrics = ask(site, settings, sent, stage=stage, session=exchange.session)
            assert metrics["refused"] == "", metrics["detail"]
            exchange.receive(number, exchange.read(number, out))
        exchange.advance()
    assert [charges(site) for site in sites] == [1, 1, 1]
    ledgers = [Ledger(site.parent / "ledger") for site in sites]
    assert np.array_equal(exchange.total, sum(one.stored("r/1")["counts"].astype(int) for one in ledgers))
    assert all(one.spent() <= 0.51 for one in ledgers)
    found = strategy.learn_from_sum(exchange.total, 3).metrics["poll"]  # real digits of the pool's own kind
    assert found["verdict"] == "fits" and found["weight"]["value"] == pytest.approx(
        900, abs=6 * found["weight"]["error"]
    )


@pytest.mark.parametrize(
    ("edits", "changes", "words"),
    [
        ({"methods": ["pate-fl"]}, {}, "method 'poll' is not allowed here"),
        ({"largest_epsilon": 0.2}, {}, "costs"),
        ({}, {"noise_seed": 1}, "seeded noise protects nobody"),
        ({"extractors": ["hog"]}, {}, "extractor='auto'"),
        ({"queries": 50}, {}, "more than the 50"),
        ({"unit": "client"}, {}, "ledger is about clients"),
        ({}, {"secure_aggregation": False}, "leaves under masks"),
    ],
)
def test_what_a_sites_file_does_not_allow_is_refused_unread(sites, edits, changes, words) -> None:
    edit(sites[0], **edits)
    settings = settings_for(sites[0], PollSettings, **{"secure_aggregation": True, **changes})
    arrays = new_strategy(POLL, settings, federated_data(settings), request_id="r").request(1)
    stage = {"stage": secagg.KEYS, "session": "s"} if settings.secure_aggregation else {}
    out, metrics = ask(sites[0], settings, arrays, **stage)
    assert (out, metrics["refused"]) == ([], "policy"), metrics
    assert words in metrics["detail"] and charges(sites[0]) == 0
