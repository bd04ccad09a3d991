"""Settings for a first run on data that nobody has described: sizes, clients and models by rules of thumb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Source
from fedballot.datasets.multilabel import is_multi_label
from fedballot.settings.parts import CommonSettings
from fedballot.settings.weights import WeightsSettings

FEWEST = 50  # records, below which nothing is left to learn from
PUBLIC, TEST = 0.4, 0.2  # shares of records that serve all three purposes
MOST_PRIVATE, MOST_PUBLIC, MOST_TEST = 50_000, 5_000, 5_000
EACH = 20  # private records of a client; more clients cast more votes against the same noise
FEWEST_CLIENTS, MOST_CLIENTS = 4, 50
FEW_RECORDS = 100  # of a client, below which its networks take more and smaller steps
SMALLEST_IMAGE = 8  # pixels a side that our networks need


@dataclass(frozen=True)
class Sizes:
    """How many records serve what."""

    private: int
    public: int
    test: int


def first_settings(
    private: Source, public: Source | None, kind: type[CommonSettings], *, torch: bool
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

    Raises
    ------
    SettingsError
        Too few records, or records with several labels each.
    """
    if is_multi_label(private.train.y):
        raise SettingsError(f"{private.name}: several labels per record; expected one: run fedkd-dp or fedkd on it")
    sizes = sizes_of(private, public)
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


def sizes_of(private: Source, public: Source | None) -> Sizes:
    """Shares of the records that there are, up to what a first look needs.

    Raises
    ------
    SettingsError
        Too few records.
    """
    total = len(private.train)
    pool = public or private
    apart = public is not None or private.test is not None
    # as `federation.build` takes them: all of another source, the test split of the same one
    records = len(pool.test or ()) + (len(pool.train) if public is not None or pool.test is None else 0)
    few = f"expected at least {FEWEST}: some are public, some test, and {FEWEST_CLIENTS} clients hold the others"
    if total < FEWEST or (apart and records < FEWEST // 2):
        where = pool.name if total >= FEWEST else private.name
        raise SettingsError(f"{where}: {min(total, records)} records are too few for a federation; {few}")
    shares = (PUBLIC / (PUBLIC + TEST), TEST / (PUBLIC + TEST)) if apart else (PUBLIC, TEST)
    public_size = min(round(shares[0] * records), MOST_PUBLIC)
    test_size = min(round(shares[1] * records), MOST_TEST)
    left = total if apart else total - public_size - test_size
    return Sizes(min(left, MOST_PRIVATE), public_size, test_size)
