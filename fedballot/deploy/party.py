"""A site's side of a request: its own data, model, ledger and rules, whatever the server asks for."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient
from flwr.common import Scalar

from fedballot.clients.base import Arrays, Party, PartyClient, Refusal
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import OwnRecords, load_own
from fedballot.datasets.sources import load
from fedballot.deploy.rules import SiteLedger, check_request
from fedballot.deploy.site_file import Site, check_modes, read_site
from fedballot.engine import federated_data, needs_torch, prepare_worker, resolve_device, torch_extractors
from fedballot.errors import FedballotError
from fedballot.methods import Method
from fedballot.runfolder import AgentFolder
from fedballot.settings import CommonSettings

logger = logging.getLogger("flwr")  # what the SuperNode writes to

REASON_STAYS = "`fedballot site check` says why"  # at the site: the text may name its files or values


def own_settings(site: Site, settings: CommonSettings) -> CommonSettings:
    """The run's settings with what the site decides itself: its model, and where its copy of the public source is."""
    return dataclasses.replace(settings, client_models=(site.model,), public_dataset=str(site.data.public))


def own_view(site: Site, settings: CommonSettings, own: OwnRecords) -> FederatedData:
    """The federation's data as the site sees them: all public ones, and its own records as its part."""
    rows = np.arange(len(own.examples.y), dtype=np.int64)
    shared = federated_data(settings)
    parts = tuple(rows if index == site.number else part for index, part in enumerate(shared.parts))
    return dataclasses.replace(shared, private=own.examples, parts=parts)


def run_state(site: Site, method: Method, settings: CommonSettings, own: OwnRecords) -> AgentFolder:
    """Where the site keeps its model for these settings and records: another run must never find it by chance."""
    named = json.dumps([method.name, settings.to_dict(), own.fingerprint], sort_keys=True)
    return AgentFolder(site.state / "runs" / hashlib.sha256(named.encode()).hexdigest()[:16])


def make_party(site: Site, method: Method, asked: CommonSettings) -> tuple[PartyClient[Any], SiteLedger]:
    """The method's client on the site's own records, and the ledger that it must charge.

    Raises
    ------
    Refusal
        If the site's file does not allow the request.
    FedballotError
        If the site's files cannot be used.
    """
    check_request(site, method, asked)
    check_modes(site)
    settings = own_settings(site, asked)
    models = (site.model, *torch_extractors(settings))
    prepare_worker(needs_torch(models))
    site.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = load_own(site.data.private, load(str(site.data.public)))
    ledger = SiteLedger(site, own.fingerprint)
    party = Party(
        agent=site.number,
        settings=settings,
        data=own_view(site, settings, own),
        folder=run_state(site, method, settings, own),
        device=resolve_device(settings, models),
        ledger=ledger,
    )
    return method.client(party), ledger


class SiteClient(NumPyClient):
    """Answers a request, or refuses it: a word for the server and one in the site's log, never data in either."""

    def __init__(self, site_file: Path, method: Method, settings: CommonSettings) -> None:
        self.site_file, self.method, self.settings = site_file, method, settings

    def fit(self, parameters: Arrays, config: dict[str, Scalar]) -> tuple[Arrays, int, dict[str, Scalar]]:
        """See :meth:`fedballot.clients.base.PartyClient.fit`."""
        site: Site | None = None
        try:
            site = read_site(self.site_file)
            client, ledger = make_party(site, self.method, self.settings)
            arrays, one, metrics = client.fit(parameters, config)
            for private in ("began", "compute_s"):  # how long training takes tells of the number of records
                metrics.pop(private, None)
            if not metrics["refused"]:
                if not client.tells_of_data(config):
                    logger.info("fedballot: answered %s, exchange of %s", config["request"], config["stage"])
                    return arrays, one, metrics
                ledger.require_use()
                logger.info(
                    "fedballot: answered %s; epsilon spent so far: %.4g of %g",
                    config["request"],
                    ledger.spent(),
                    site.budget.epsilon,
                )
                return arrays, one, metrics
            reason, detail = str(metrics["refused"]), str(metrics["detail"])
        except Refusal as refusal:
            reason, detail = refusal.reason, str(refusal)
        except FedballotError as error:
            reason, detail = "site", f"{type(error).__name__}: {REASON_STAYS}"
        except OSError as error:
            reason, detail = "site", f"{type(error).__name__} ({error.strerror})"
        logger.warning("fedballot: refused %s: %s: %s", config.get("request", "a request"), reason, detail)
        return [], 1, {"agent": site.number if site else -1, "refused": reason, "detail": detail}
