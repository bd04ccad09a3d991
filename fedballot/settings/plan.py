"""Settings for a first run on data that nobody has described: sizes, clients and models by rules of thumb."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from fedballot.core.errors import DataError, SettingsError
from fedballot.datasets.examples import Source
from fedballot.datasets.multilabel import is_multi_label
from fedballot.datasets.public import lacks_labels, private_source, public_source
from fedballot.datasets.spec import FederationSpec
from fedballot.settings.parts import CommonSettings
from fedballot.settings.weights import WeightsSettings

FEWEST = 50  # records, below which nothing is left to learn from
PUBLIC, TEST = 0.4, 0.2  # shares of records that serve all three purposes
FEW = f"expected at least {FEWEST}: some are public, some test, and some are held by clients"
MOST_PRIVATE, MOST_PUBLIC, MOST_TEST = 50_000, 5_000, 5_000
EACH = 20  # private records of a client; more clients cast more votes against the same noise
FEWEST_CLIENTS, MOST_CLIENTS = 4, 50
FEW_RECORDS = 100  # of a client, below which its networks take more and smaller steps
UNLABELLED: dict[str, Any] = {"public_labels": "ignored", "test_source": "private"}
SMALLEST_IMAGE = 8  # pixels a side that our networks need


@dataclass(frozen=True)
class Sizes:
    """How many records serve what."""

    private: int
    public: int
    test: int


def own_sources(spec: FederationSpec) -> tuple[Source, Source | None, dict[str, Any]]:
    """The private and the public source, and what is to be set besides: public records without labels test nothing.

    Raises
    ------
    DataError
        Data that cannot be used.
    """
    more: dict[str, Any] = {}
    try:
        public = public_source(spec)
    except DataError:
        if not (spec.public_dataset and lacks_labels(spec)):
            raise
        public = public_source(dataclasses.replace(spec, **UNLABELLED))
    if spec.public_dataset and not public.labelled and spec.public_labels == "known":
        more = dict(UNLABELLED)
    private = private_source(dataclasses.replace(spec, **more), public)
    return private, public if spec.public_dataset else None, more


def first_settings(
    private: Source, public: Source | None, kind: type[CommonSettings], *, torch: bool, private_tests: bool = False
) -> dict[str, Any]:
    """Values of settings that suit the data; a method takes those that it has.

    Parameters
    ----------
    private
        Whose records the clients share out; also public and test records where there is no other source.
    public
        A source of public and test records alone.
    kind
        The method's settings: one that averages weights needs one kind of network.
    torch
        Whether networks can be trained here.
    private_tests
        Whether test records are some of the private source's, whatever the public ones are.

    Raises
    ------
    SettingsError
        Too few records, or records with several labels each.
    """
    if is_multi_label(private.train.y):
        raise SettingsError(f"{private.name}: several labels per record; expected one: run fedkd-dp or fedkd on it")
    sizes = sizes_of(private, public, private_tests)
    groups = private.group_names
    clients = len(groups) or min(max(sizes.private // EACH, FEWEST_CLIENTS), MOST_CLIENTS)
    image = private.train.x.ndim > 2
    networks = torch and image and min(private.train.x.shape[1:3]) >= SMALLEST_IMAGE
    one_network = torch and issubclass(kind, WeightsSettings)
    clients_train = ["cnn-small"] if networks else ["random-forest", "logistic-regression"]
    values = {
        "private_size": sizes.private,
        "public_size": sizes.public,
        "test_size": sizes.test,
        "clients": clients,
        "partition": "by-group" if groups else "iid",
        "client_models": ["mlp-torch"] if one_network and not networks else clients_train,
        "server_model": "cnn" if networks else "random-forest",
        # private and public records are alike, so that there is nothing to abstain from
        "abstain": False,
        "vote_fraction": 1.0,
    }
    if (networks or one_network) and sizes.private < FEW_RECORDS * clients:
        values |= {"epochs": 30, "batch_size": 10, "lr": 3e-3, "server_epochs": 40, "server_lr": 3e-3}
    return values


def sizes_of(private: Source, public: Source | None, private_tests: bool = False) -> Sizes:
    """Shares of the records that there are, up to what a first look needs.

    Raises
    ------
    SettingsError
        Too few records.
    """
    total = len(private.train)
    if public is not None and private_tests:
        return _without_public_tests(private, public)
    pool = public or private
    apart = public is not None or private.test is not None
    # as `federation.build` takes them: all of another source, the test split of the same one
    records = len(pool.test or ()) + (len(pool.train) if public is not None or pool.test is None else 0)
    if total < FEWEST or (apart and records < FEWEST // 2):
        where = pool.name if total >= FEWEST else private.name
        raise SettingsError(f"{where}: {min(total, records)} records are too few for a federation; {FEW}")
    shares = (PUBLIC / (PUBLIC + TEST), TEST / (PUBLIC + TEST)) if apart else (PUBLIC, TEST)
    public_size = min(round(shares[0] * records), MOST_PUBLIC)
    test_size = min(round(shares[1] * records), MOST_TEST)
    left = total if apart else total - public_size - test_size
    return Sizes(min(left, MOST_PRIVATE), public_size, test_size)


def _without_public_tests(private: Source, public: Source) -> Sizes:
    """The whole public source is the pool, and a share of the private one tests."""
    pool, total = len(public.train) + len(public.test or ()), len(private.train)
    tests = total if private.test is None else len(private.test)
    if total < FEWEST or pool < FEWEST // 2:
        where = private.name if total < FEWEST else public.name
        raise SettingsError(f"{where}: {min(total, pool)} records are too few for a federation; {FEW}")
    test = min(round(TEST * tests) if private.test is None else tests, MOST_TEST)
    return Sizes(min(total - test if private.test is None else total, MOST_PRIVATE), min(pool, MOST_PUBLIC), test)
