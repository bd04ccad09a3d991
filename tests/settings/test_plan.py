"""What a first run takes of data that nobody has described."""

from __future__ import annotations

import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.datasets.examples import Examples, Source
from fedballot.methods.registry import get_method
from fedballot.settings.plan import MOST_CLIENTS, MOST_PRIVATE, MOST_PUBLIC, MOST_TEST, Sizes, first_settings, sizes_of
from fedballot.settings.voting import PateSettings


def records(count: int, shape: tuple[int, ...] = (4,)) -> Examples:
    dtype = np.float32 if len(shape) == 1 else np.uint8
    return Examples(np.broadcast_to(np.zeros((1, *shape), dtype), (count, *shape)), np.arange(count) % 2)


def source(count: int, test: int = 0, shape: tuple[int, ...] = (4,), groups: tuple[str, ...] = ()) -> Source:
    return Source("own", ("no", "yes"), records(count, shape), records(test, shape) if test else None, groups)


@pytest.mark.parametrize(
    ("private", "public", "sizes"),
    [
        (source(569), None, Sizes(227, 228, 114)),
        (source(300, test=60), None, Sizes(300, 40, 20)),
        (source(300, test=60), source(90, test=60), Sizes(300, 100, 50)),
        (source(1_000_000), None, Sizes(MOST_PRIVATE, MOST_PUBLIC, MOST_TEST)),
    ],
)
def test_sizes_are_shares_of_what_there_is(private, public, sizes):
    assert sizes_of(private, public) == sizes


@pytest.mark.parametrize(("count", "clients"), [(50, 4), (569, 11), (1_000_000, MOST_CLIENTS)])
def test_more_records_make_more_clients(count, clients):
    assert first_settings(source(count), None, PateSettings, torch=True)["clients"] == clients


def test_groups_are_clients():
    values = first_settings(source(200, groups=("a", "b", "c")), None, PateSettings, torch=False)
    assert (values["clients"], values["partition"]) == (3, "by-group")


@pytest.mark.parametrize(
    ("shape", "torch", "model"),
    [
        ((28, 28), True, "cnn"),
        ((28, 28), False, "random-forest"),
        ((4, 28), True, "random-forest"),
        ((9,), True, "random-forest"),
    ],
)
def test_networks_learn_images_where_there_is_torch(shape, torch, model):
    assert first_settings(source(100, shape=shape), None, PateSettings, torch=torch)["server_model"] == model


@pytest.mark.parametrize(("shape", "model"), [((9,), "mlp-torch"), ((28, 28), "cnn-small")])
def test_weights_are_averaged_over_one_kind_of_network(shape, model):
    values = first_settings(source(100, shape=shape), None, get_method("dp-fedavg").settings, torch=True)
    assert values["client_models"] == [model]


@pytest.mark.parametrize(
    ("private", "public"), [(source(49), None), (source(100, test=9), None), (source(90), source(9))]
)
def test_too_few_records_are_refused(private, public):
    with pytest.raises(SettingsError, match=r"records are too few for a federation; expected at least 50"):
        first_settings(private, public, PateSettings, torch=False)


def test_several_labels_are_refused():
    private = source(100)
    labels = Source("own", ("a", "b"), Examples(private.train.x, np.zeros((100, 2), np.int8)))
    with pytest.raises(SettingsError, match="several labels per record"):
        first_settings(labels, None, PateSettings, torch=False)
