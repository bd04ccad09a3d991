"""A site's side of a request: its own data, model, ledger and rules, whatever the server asks for."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient

from fedballot.clients.base import Arrays, BallotClient
from fedballot.clients.workspace import Refusal, Workspace
from fedballot.core.errors import DataError, FedballotError, RunError
from fedballot.core.files import read_json, write_json
from fedballot.core.folders import ClientFolder
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import OwnRecords, stamps
from fedballot.deploy.approval import Request
from fedballot.deploy.modes import check_modes
from fedballot.deploy.records import own_examples, own_records
from fedballot.deploy.rules import check_request, check_weights, site_settings
from fedballot.deploy.site_file import Site, first_key, read_site
from fedballot.deploy.site_ledger import LedgerGoneError, SiteLedger, version_of
from fedballot.deploy.time_limit import GRACE_S, time_limit
from fedballot.methods.api import Method
from fedballot.privacy.ledger import Version
from fedballot.privacy.ledger.heads import HEAD_KEY, HEADS_KEY, TAG_KEY, heads_for, ledger_tag
from fedballot.runs.engine import federated_data, needs_torch, prepare_worker, resolve_device
from fedballot.settings.parts import CommonSettings
from fedballot.wire.messages import Config, Scalar

logger = logging.getLogger("flwr")  # what the SuperNode writes to

PATIENCE = 0.9  # of the time that the server waits for an answer: a decision by hand must come within
REASON_STAYS = "`fedballot site check` says why"  # at the site: the text may name its files or values


def own_view(site: Site, settings: CommonSettings, records: int) -> FederatedData:
    """The federation's data as the site sees them: all public ones, and as many records of its own as it has."""
    shared = federated_data(settings)
    parts = tuple(np.arange(records if index == site.number else 0) for index in range(len(shared.parts)))
    return dataclasses.replace(shared, parts=parts)


def run_state(site: Site, method: Method, settings: CommonSettings, version: Version) -> ClientFolder:
    """Where the site keeps its model for these settings and records: another run must never find it by chance."""
    name = json.dumps([method.name, settings.to_dict(), version.fingerprint], sort_keys=True)
    return ClientFolder(site.state / "runs" / hashlib.sha256(name.encode()).hexdigest()[:16])


def own_version(site: Site, ledger: SiteLedger) -> Version:
    """Which version of its data the site answers with, as its ledger has it; registered here if it has none.

    Records that cannot be read count as none: a site answers for them in the same words, and its own log says why.

    Raises
    ------
    Refusal
        If the records are others than those registered, or gone.
    """
    if not site.data.private.exists():
        raise Refusal("site", f"the site's records are not there: {REASON_STAYS}")
    registered, note = ledger.version(), site.state / "version.json"
    files = [site.data.private, site.data.public, *([site.data.schema] if site.data.schema else [])]
    source = [stamps(files), site.data.id, site.data.records_per_person, site.data.image_reader]
    if registered is not None and note.exists():
        fingerprint, digest, *images = read_json(note)
        if (fingerprint, digest) == (registered.fingerprint, _digest(source, images)):
            return registered
    own = _read_own(site)
    version = None if own is None else version_of(site, own)
    if registered is None and version is None:  # not registered: it is no version of anybody's data
        return Version("unreadable", 0, site.data.records_per_person)
    if version is None or registered not in (None, version):
        raise Refusal("site", f"the site's records are not the version that its ledger is about: {REASON_STAYS}")
    if registered is None:
        ledger.register(version, "as first found")
    images = [str(path) for path in own.files] if own else []
    write_json(note, [version.fingerprint, _digest(source, images), *images])
    return version


def _digest(source: Sequence[object], images: Sequence[str]) -> str:
    """Of the files that a site's data are in; those that its tables name change without the tables."""
    parts = [*source, stamps([Path(name) for name in images])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read_own(site: Site) -> OwnRecords | None:
    """The site's records; None where they cannot be used, for reasons that stay at the site."""
    try:
        return own_records(site)
    except DataError:  # whose text may quote a record, so it is for `site check`, not for a log
        logger.warning("fedballot: the site's records cannot be used: %s", REASON_STAYS)
        return None


def own_tag(site: Site) -> str:
    """By which the site's answers name its ledger; it stays when the key is renewed."""
    first = first_key(site)
    return ledger_tag((first if first.exists() else site.key).read_bytes(), site.data.population)


def open_ledger(site: Site, config: Config, request: Request | None = None) -> SiteLedger:
    """The site's ledger, if it holds every head that the server was shown of it; ``request`` is who asks for what.

    Raises
    ------
    LedgerGoneError
        If it does not, or is not the one that the state folder knows.
    Refusal
        If the request's heads cannot be read.
    """
    ledger = SiteLedger(site, request)
    try:
        heads = heads_for(own_tag(site), config.get(HEADS_KEY))
    except DataError as error:
        raise Refusal("request", str(error)) from error
    ledger.require_heads(heads, "the server")
    return ledger


def make_site_client(site: Site, method: Method, requested: CommonSettings, ledger: SiteLedger) -> BallotClient[Any]:
    """The method's client on the site's own records, which it reads behind its charge, if at all.

    Raises
    ------
    Refusal
        If the site's records are not those that its ledger is about.
    FedballotError
        If the site's files cannot be used.
    """
    settings = site_settings(site, requested)
    models = (site.model,)
    prepare_worker(needs_torch(settings, models))
    version = own_version(site, ledger)

    def read() -> OwnRecords:
        own = own_records(site)
        if own.fingerprint != version.fingerprint:
            raise RunError(f"{site.data.private} has changed since the request was charged")
        return own

    workspace = Workspace(
        client_id=site.number,
        settings=settings,
        data=own_view(site, settings, version.records),
        folder=run_state(site, method, settings, version),
        device=resolve_device(settings, models),
        ledger=ledger,
        read=lambda: own_examples(site, read()),
        ranks=lambda: read().ranks,
        version=version.fingerprint,
        records_per_person=site.data.records_per_person,
        masks_only=site.allowed.secure_aggregation,
        limit=lambda: time_limit(site.allowed.longest_training_s, grace_s=GRACE_S),
    )
    return method.client_class(workspace)


class SiteClient(NumPyClient):
    """Answers a request, or refuses it: a word for the server and one in the site's log, never data in either."""

    def __init__(
        self, site_file: Path, method: Method, settings: CommonSettings, *, requester: str = "", purpose: str = ""
    ) -> None:
        self.site_file, self.method, self.settings = site_file, method, settings
        self.requester, self.purpose = requester, purpose

    def _request(self) -> Request:
        patience = PATIENCE * self.settings.round_timeout_s
        return Request(self.method.name, self.settings, self.requester, self.purpose, patience)

    def fit(self, parameters: Arrays, config: Config) -> tuple[Arrays, int, dict[str, Scalar]]:
        """See :meth:`fedballot.clients.base.BallotClient.fit`."""
        site: Site | None = None
        try:
            site = read_site(self.site_file)
            check_request(site, self.method, self.settings)
            check_weights(site, self.settings, parameters)
            check_modes(site)
            site.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            ledger = open_ledger(site, config, self._request())
            client = make_site_client(site, self.method, self.settings, ledger)
            arrays, one, metrics = client.fit(parameters, config)
            if client.failed:
                logger.warning(
                    "fedballot: the site's own work for %s failed, so its answer is blank, and charged; %s says why",
                    config["request"],
                    client.workspace.folder.path / "errors.txt",
                )
            for private in ("began", "compute_s"):  # how long training takes tells of the number of records
                metrics.pop(private, None)
            if not metrics["refused"]:
                metrics |= {HEAD_KEY: ledger.head, TAG_KEY: own_tag(site)}
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
        except LedgerGoneError as error:
            reason, detail = (
                "ledger",
                "this site's ledger is not the one that was used last; its own log says what to do",
            )
            logger.warning("fedballot: %s", error)
        except FedballotError as error:
            reason, detail = "site", f"{type(error).__name__}: {REASON_STAYS}"
        except OSError as error:
            reason, detail = "site", f"{type(error).__name__} ({error.strerror})"
        except Exception as error:  # whose text Flower would send to the server
            reason, detail = "site", f"{type(error).__name__}; the site's own log says more"
            if site is not None:  # nor does the log hold a text that may quote a record
                ClientFolder(site.state).log_error(traceback.format_exc())
                logger.warning("fedballot: this fault is not the request's; %s says more", site.state / "errors.txt")
        logger.warning("fedballot: refused %s: %s: %s", config.get("request", "a request"), reason, detail)
        return [], 1, {"client_id": site.number if site else -1, "refused": reason, "detail": detail}
