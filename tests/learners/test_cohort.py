"""Networks that are trained together: the weights of each are those of training alone, whoever is beside it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from fedballot.core import meeting
from fedballot.learners import augment, cohort, nets, plans, training
from fedballot.learners.registry import make_learner
from fedballot.learners.tensors import floats, take

CPU = torch.device("cpu")
SIZES = (23, 64, 1, 9, 40)  # a last row that is doubled, full batches only, one record, one batch, two
SHAPE = (12, 12)


@pytest.fixture
def double() -> Iterator[None]:
    """Draws and grids in float64, too."""
    torch.set_default_dtype(torch.float64)
    augment._basis.cache_clear()
    yield
    torch.set_default_dtype(torch.float32)
    augment._basis.cache_clear()


def members(
    name: str,
    sizes: tuple[int, ...] = SIZES,
    *,
    size: int = 8,
    kind: augment.Augmentation | None = None,
    pool: int = 0,
    optimizer: str = "adamw",
) -> list[cohort.Member]:
    """Members with records, targets and a seed of their own, in the dtype that is torch's default."""
    out = []
    for number, n in enumerate(sizes):
        random = torch.Generator().manual_seed(100 + number)
        with training.seeded(number, CPU):
            net, state = nets.builder(name, SHAPE)(4), cohort.random_state(CPU)
        data = torch.rand(n + pool, 1, *SHAPE, generator=random)
        targets = torch.rand(n + pool, 4, generator=random)
        mixture = plans.Mixture(targets, n, ((n, pool),) if pool else ())
        schedule = plans.Schedule(3, size, 0.01 * (1 + number), 1.5, optimizer=optimizer)
        augmenter = augment.Augmenter(kind, *SHAPE, CPU) if kind else None
        out.append(cohort.Member(net, state, data, mixture, augmenter, schedule))
    return out


def alone(member: cohort.Member) -> nn.Module:
    """What a learner does without others."""
    with training.seeded(0, CPU):
        torch.default_generator.set_state(member.random)

        def inputs(rows: torch.Tensor) -> torch.Tensor:
            x = floats(take(member.data, rows))
            return member.augmenter(x) if member.augmenter else x

        net = copy.deepcopy(member.net)
        return training.train(net, inputs, member.mixture.epoch, member.schedule, average=False)


def weights(net: nn.Module) -> np.ndarray:
    return nn.utils.parameters_to_vector(net.parameters()).detach().numpy().copy()


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("kind", [None, augment.GREY, augment.COLOUR])
@pytest.mark.parametrize("size", [1, 8, 100])
@pytest.mark.parametrize("pool", [0, 30])
@pytest.mark.parametrize("name", ["cnn-small", "mlp-torch", "linear-torch"])
def test_each_ends_with_the_weights_of_training_alone(
    name: str, size: int, kind: augment.Augmentation | None, pool: int
) -> None:
    sizes = SIZES if size > 1 else (4, 8, 1, 3, 6)  # one record a step is slow, and no batch is ever cut
    every = members(name, sizes, size=size, kind=kind, pool=pool if size > 1 else min(pool, 5))
    before = [weights(member.net) for member in every]
    expected = [weights(alone(member)) for member in every]
    trained = cohort.train(every)
    for member, net, start, end in zip(every, trained, before, expected, strict=True):
        assert net is member.net and not net.training
        assert np.abs(end - start).max() > 1e-3
        assert end.dtype == np.float64 and np.abs(weights(net) - end).max() < 1e-10


@pytest.mark.usefixtures("double")
def test_plain_descent_is_that_of_training_alone_and_not_mixed_with_others() -> None:
    plain, adaptive = members("mlp-torch", optimizer="sgd"), members("mlp-torch")
    expected = [weights(alone(member)) for member in (*plain, *adaptive)]
    for net, end in zip(cohort.train([*plain, *adaptive]), expected, strict=True):
        assert net is not None and np.abs(weights(net) - end).max() < 1e-10
    assert np.abs(expected[0] - expected[len(plain)]).max() > 1e-3


def test_in_float32_it_is_the_same_but_for_rounding() -> None:
    every = members("cnn-small", kind=augment.GREY)
    expected = [weights(alone(member)) for member in every]
    for net, end in zip(cohort.train(every), expected, strict=True):
        assert net is not None and np.abs(weights(net) - end).max() < 1e-3


@pytest.mark.parametrize("name", ["cnn-small", "mlp-torch"])
def test_not_a_bit_of_a_members_weights_tells_of_anothers_records(name: str) -> None:
    """The guarantee of each is about its own answer: others' may not move it, by their values, number or end."""
    plain = members(name, kind=augment.GREY)
    other = members(name, (23, 5, 1, 77, 40), kind=augment.GREY)
    wild = replace(other[3], data=other[3].data * torch.nan)
    cohort.train(plain)
    cohort.train([*other[:3], wild, other[4]])
    for place in (0, 2, 4):
        assert np.array_equal(weights(plain[place].net), weights(other[place].net))
    assert not np.isfinite(weights(wild.net)).all()
    assert not np.array_equal(weights(plain[1].net), weights(other[1].net))


def test_what_cannot_be_stacked_trains_alone() -> None:
    assert not any(cohort.stackable(nets.builder(name, (16, 16))(4)) for name in ("cnn", "resnet8", "cnn-gn"))
    hooked, frozen = nets.mlp(4, SHAPE), nets.mlp(4, SHAPE)
    hooked[2].register_forward_hook(lambda *_: None)
    frozen[2].bias.requires_grad_(False)
    assert not cohort.stackable(hooked) and not cohort.stackable(frozen) and not cohort.stackable(nn.Flatten())
    one, two, three = *members("mlp-torch", (8, 8)), members("linear-torch", (8,))[0]
    assert [net is None for net in cohort.train([one, three, two])] == [False, True, False]


def fitted(number: int, n: int) -> np.ndarray:
    learner = make_learner(
        "mlp-torch" if number == 3 else "cnn-small",
        n_classes=3, input_shape=SHAPE, seed=number, device="cpu", epochs=2, batch_size=16, lr=1e-3,
    )  # fmt: skip
    random = np.random.default_rng(number)
    x, y = random.integers(0, 256, (n, *SHAPE), dtype=np.uint8), random.integers(0, 3, n)
    learner.fit(x, y)
    learner.fit(x, y)  # goes on from there
    return np.concatenate([one.ravel() for one in learner.get_weights()])


def test_learners_meet_and_leave_torchs_generator_alone() -> None:
    sizes = (30, 17, 5, 30, 64)
    expected = [fitted(number, n) for number, n in enumerate(sizes)]
    torch.manual_seed(9)
    before = torch.default_generator.get_state()
    found = meeting.together([partial(fitted, number, n) for number, n in enumerate(sizes)])
    assert torch.equal(torch.default_generator.get_state(), before)
    assert all(np.abs(one - other).max() < 1e-4 for one, other in zip(found, expected, strict=True))
    assert np.array_equal(found[3], expected[3])  # nobody trains the same network
    assert not all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
