import copy
import math
import platform
import resource

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fedballot.learners import plans, training  # noqa: E402
from fedballot.learners.augment import COLOUR, GREY, Augmentation, Augmenter  # noqa: E402
from fedballot.learners.registry import make_learner  # noqa: E402
from fedballot.learners.training import pseudo_labels  # noqa: E402

CPU = torch.device("cpu")


def small_net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimiser", "reference"),
    [
        (lambda net: training.AdamW(net, decay=0.1), lambda weights: torch.optim.AdamW(weights, weight_decay=0.1)),
        (training.SGD, lambda weights: torch.optim.SGD(weights)),
    ],
)
def test_an_optimizer_takes_the_steps_of_torch(optimiser, reference):
    ours, theirs = small_net(), small_net()
    x, y = torch.randn(20, 5), torch.randint(0, 3, (20,))
    optimiser, reference = optimiser(ours), reference(theirs.parameters())
    for step in range(30):
        lr = 0.01 * (1 + math.cos(step))
        torch.nn.functional.cross_entropy(ours(x), y).backward()
        optimiser.step(lr)
        for group in reference.param_groups:
            group["lr"] = lr
        reference.zero_grad()
        torch.nn.functional.cross_entropy(theirs(x), y).backward()
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_average_tends_to_the_network_and_counts_its_batches():
    net = small_net()
    average = training.Average(net)
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(2.0)
    net[1].num_batches_tracked.fill_(5)
    average.update(net)
    assert all((p != 2).any() for p in average.net.parameters())
    for _ in range(2000):
        average.update(net)
    for p in average.net.parameters():
        torch.testing.assert_close(p, torch.full_like(p, 2.0))
    assert average.net[1].num_batches_tracked == 5


def test_training_leaves_the_global_generator_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with training.seeded(1, CPU):
        inside = torch.rand(3)
    assert torch.equal(torch.rand(3), expected)
    with training.seeded(1, CPU):
        assert torch.equal(torch.rand(3), inside)


def test_plan_is_asked_each_epoch_and_a_lone_last_row_is_trained_on():
    net, x = small_net(), torch.randn(9, 5)
    asked, seen, done = [], [], []

    def plan(epoch, best):
        asked.append((epoch, best is net))
        return plans.Epoch(torch.arange(9), torch.eye(3)[torch.arange(9) % 3])

    def inputs(rows):
        seen.append(len(rows))
        return x[rows]

    before = copy.deepcopy(net.state_dict())
    result = training.train(
        net, inputs, plan, plans.Schedule(2, 4, 0.1), average=False, progress=lambda *step: done.append(step)
    )
    assert result is net and asked == [(0, True), (1, True)]
    assert seen == [4, 4, 2] * 2
    assert done == [(1, 2), (2, 2)]
    assert any((before[key] != value).any() for key, value in net.state_dict().items())


def test_no_change_is_the_identity():
    x = torch.rand(3, 1, 9, 12)
    torch.testing.assert_close(Augmenter(Augmentation(), 9, 12, CPU)(x), x, rtol=0, atol=1e-5)


def test_flip_mirrors_about_half_of_the_images():
    x = torch.rand(64, 3, 8, 8)
    out = Augmenter(Augmentation(flip=True), 8, 8, CPU)(x)
    same = torch.isclose(out, x, atol=1e-5).flatten(1).all(1)
    mirrored = torch.isclose(out, x.flip(3), atol=1e-5).flatten(1).all(1)
    assert (same ^ mirrored).all()
    assert 16 < int(same.sum()) < 48


@pytest.mark.parametrize("kind", [GREY, COLOUR, Augmentation(elastic=0.03)])
def test_augmented_images_stay_near_and_in_range(kind):
    x = torch.zeros(200, 1, 28, 28)
    x[:, :, 10:18, 10:18] = 1
    out = Augmenter(kind, 28, 28, CPU)(x)
    assert out.min() >= 0 and out.max() <= 1 + 1e-5
    assert (out != x).flatten(1).any(1).float().mean() > 0.9
    mass = out.flatten(1).sum(1) / x.flatten(1).sum(1)
    assert abs(float(mass.mean()) - 1) < 0.1
    column = (out.sum(2).squeeze(1) * torch.arange(28.0)).sum(1) / out.flatten(1).sum(1)
    assert abs(float(column.mean()) - 13.5) < 0.5 and float(column.std()) > 0.1


def test_pseudo_labels_are_aligned_and_thresholded():
    # class 0 is favoured everywhere: alignment takes the favour off, and rows without an opinion get no label
    logits = torch.tensor([[5.0, 1, 0], [3, 6, 0], [4, 0, 7], [3, 0.9, 0.8]])
    kept = pseudo_labels(logits)
    assert kept[:3].argmax(1).tolist() == [0, 1, 2]
    assert kept[:3].sum(1).tolist() == [1, 1, 1]
    assert kept[3].sum() == 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_the_memory_of_a_step_is_not_given_back():
    """Or each step takes its activations anew from the kernel: thousands of page faults in this fit."""
    x = np.random.default_rng(0).integers(0, 256, (600, 28, 28), dtype=np.uint8)
    asked = {"n_classes": 10, "input_shape": (28, 28), "seed": 0, "epochs": 2, "batch_size": 64, "lr": 1e-3}
    net = make_learner("cnn-small", **asked)
    labels = np.arange(600) % 10
    net.fit(x, labels)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    net.fit(x, labels)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 2000


def test_pseudo_labels_are_aligned_to_the_prior_where_there_is_one():
    logits = torch.tensor([[3.0, 0], [3.0, 0], [3.0, 0], [3.0, 0], [3.0, 0], [3.0, 0], [3.0, 0], [2.0, 0]])
    assert pseudo_labels(logits).sum() == 0  # evened out, no record is clear
    kept = pseudo_labels(logits, torch.tensor([0.95, 0.05]))
    assert kept[:, 0].tolist() == [1] * 8 and kept[:, 1].sum() == 0


def test_records_are_mixed_in_pairs_with_their_targets():
    torch.manual_seed(0)
    x = torch.eye(12)
    same, targets = training.mixed(x, x, 0.0)
    assert same is x and targets is x
    for _ in range(20):
        one, other = training.mixed(x, x, 0.5)
        assert torch.equal(one, other)
        assert torch.allclose(one.sum(1), torch.ones(12)) and (one >= 0).all()
        assert ((one > 0).sum(1) <= 2).all()
        assert len({round(float(value), 6) for value in one.diagonal()} - {1.0}) <= 1  # one share for a batch
