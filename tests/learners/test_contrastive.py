"""SimCLR: the loss against its definition, views that stay images, weights that travel, features that got better."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from fedballot.core.errors import SettingsError
from fedballot.datasets.sources import load
from fedballot.learners import contrastive
from fedballot.learners.extractors import make_extractor


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))


def test_the_loss_is_equation_1():
    generator = torch.Generator().manual_seed(0)
    one, other = torch.randn(5, 3, generator=generator), torch.randn(5, 3, generator=generator)
    z = torch.nn.functional.normalize(torch.cat([one, other])).numpy().astype(np.float64)
    likeness = np.exp(z @ z.T / 0.5)
    terms = [-np.log(likeness[i, (i + 5) % 10] / (likeness[i].sum() - likeness[i, i])) for i in range(10)]
    assert float(contrastive.contrastive_loss(one, other)) == pytest.approx(np.mean(terms), rel=1e-5)
    near = contrastive.contrastive_loss(10 * torch.eye(5), torch.eye(5))
    assert float(near) == pytest.approx(float(np.log(1 + 8 * np.exp(-2.0))), rel=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_views_are_images_and_differ(channels):
    x = torch.rand(6, channels, 16, 16)
    one, other = contrastive.views(x), contrastive.views(x)
    assert one.shape == x.shape and float(one.min()) >= 0 and float(one.max()) <= 1
    assert float((one - other).abs().mean()) > 0.02


@pytest.mark.parametrize(("architecture", "side", "width"), [("resnet8", 8, 64), ("shufflenet-v2", 16, 1024)])
def test_a_backbone_ends_before_the_head_and_its_weights_travel(architecture, side, width):
    net = contrastive.backbone(architecture, (side, side)).eval()
    x = torch.rand(3, 1, side, side)
    with torch.inference_mode():
        wanted = net(x)
        assert wanted.shape == (3, width)
        vector = contrastive.state_vector(net)
        other = contrastive.load_vector(contrastive.backbone(architecture, (side, side)), vector)
        assert torch.equal(other(x), wanted)
    with pytest.raises(SettingsError, match="finite numbers"):
        contrastive.load_vector(other, vector[:-1])


def test_pretraining_teaches_without_labels_and_a_client_takes_the_network_over():
    source = load("digits")
    x, y = np.asarray(source.train.x), np.asarray(source.train.y)
    name = "simclr-resnet8"
    server = make_extractor(name, input_shape=(8, 8), epochs=12, seed=1).fit(x[:600])
    raw = make_extractor(name, input_shape=(8, 8), epochs=0, seed=1).fit(x[:600])

    def accuracy(extractor) -> float:
        neighbours = KNeighborsClassifier(1).fit(extractor.transform(x[600:700]), y[600:700])
        return float(neighbours.score(extractor.transform(x[700:1400]), y[700:1400]))

    assert accuracy(server) > accuracy(raw) + 0.05
    client = make_extractor(name, input_shape=(8, 8)).fit(x[:600], server.network)
    assert np.array_equal(client.transform(x[700:720]), server.transform(x[700:720]))
    with pytest.raises(SettingsError, match="must come first"):
        make_extractor("hog+simclr-resnet8", input_shape=(8, 8))
    with pytest.raises(SettingsError, match="takes images"):
        make_extractor(name, input_shape=(64,))
    with pytest.raises(SettingsError, match="at least 2"):
        contrastive.pretrain("resnet8", x[:1], epochs=1, seed=0)
    with pytest.raises(SettingsError, match="not been fitted"):
        make_extractor(name, input_shape=(8, 8)).transform(x[:3])
