"""The torch networks by name. Inputs are float32 in [0, 1], (n, channels, h, w), or features (n, d)."""

import math
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedballot.core.errors import SettingsError

Builder = Callable[[int], nn.Module]


def builder(name: str, input_shape: tuple[int, ...]) -> Builder:
    """The function (number of outputs) -> network with fresh weights from torch's global generator.

    Raises
    ------
    SettingsError
        If the input is too small for the network.
    """
    smallest = 8 if name.startswith(("cnn", "resnet")) else 16
    if name not in ("mlp-torch", "linear-torch") and min(input_shape[:2]) < smallest:
        raise SettingsError(
            f"learner {name!r} needs images of at least {smallest}x{smallest}, but they are "
            f"{input_shape[0]}x{input_shape[1]}; use mlp-torch or a scikit-learn learner"
        )
    return lambda n_outputs: BUILDERS[name](n_outputs, input_shape)


def cnn_small(n_outputs: int, input_shape: tuple[int, ...]) -> nn.Module:
    """Two strided convolutions of 16 and 32 channels and a hidden layer of 64."""
    h, w = _after_strides(input_shape, 2)
    return nn.Sequential(
        nn.Conv2d(_channels(input_shape), 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * h * w, 64),
        nn.ReLU(),
        nn.Linear(64, n_outputs),
    )


def cnn(n_outputs: int, input_shape: tuple[int, ...]) -> nn.Module:
    """Three convolutions with batch norm, dropout of .3 and a hidden layer of 128."""
    h, w = _after_strides(input_shape, 2)
    return nn.Sequential(
        nn.Conv2d(_channels(input_shape), 32, 5, stride=2, padding=2, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64 * h * w, 128),
        nn.ReLU(),
        nn.Linear(128, n_outputs),
    )


class _Residual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Conv2d(channels, out, 1, stride=stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet8(n_outputs: int, input_shape: tuple[int, ...]) -> nn.Module:
    """ResNet-8 (He et al. 2016, the CIFAR family with n = 1): 16, 32 and 64 channels."""
    return nn.Sequential(
        nn.Conv2d(_channels(input_shape), 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        _Residual(16, 16, 1),
        _Residual(16, 32, 2),
        _Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, n_outputs),
    )


def shufflenet_v2(n_outputs: int, input_shape: tuple[int, ...]) -> nn.Module:
    """torchvision's ShuffleNet-V2 x0.5 without the stem's stride and pooling."""
    from torchvision.models import shufflenet_v2_x0_5

    net = shufflenet_v2_x0_5(num_classes=n_outputs)
    net.conv1[0] = nn.Conv2d(_channels(input_shape), 24, 3, padding=1, bias=False)
    net.maxpool = nn.Identity()
    return cast(nn.Module, net)


def mobilenet_v2(n_outputs: int, input_shape: tuple[int, ...]) -> nn.Module:
    """torchvision's MobileNet-V2 with stride 1 in the stem."""
    from torchvision.models import mobilenet_v2 as torchvision_mobilenet_v2

    net = torchvision_mobilenet_v2(num_classes=n_outputs)
    net.features[0][0] = nn.Conv2d(_channels(input_shape), 32, 3, padding=1, bias=False)
    return cast(nn.Module, net)


def mlp(n_outputs: int, input_shape: tuple[int, ...]) -> nn.Module:
    """A hidden layer of 128 behind a normalisation of each example by itself."""
    size = math.prod(input_shape)
    return nn.Sequential(nn.Flatten(), nn.LayerNorm(size), nn.Linear(size, 128), nn.ReLU(), nn.Linear(128, n_outputs))


def linear(n_outputs: int, input_shape: tuple[int, ...]) -> nn.Module:
    """One linear layer behind a normalisation of each example by itself, which has no weights."""
    size = math.prod(input_shape)
    return nn.Sequential(nn.Flatten(), nn.LayerNorm(size, elementwise_affine=False), nn.Linear(size, n_outputs))


def with_group_norm(net: nn.Module) -> nn.Module:
    """The same network with group norm (Wu and He 2018), 8 channels a group, in place of batch norm."""
    for name, child in net.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(net, name, nn.GroupNorm(child.num_features // 8, child.num_features))
        else:
            with_group_norm(child)
    return net


BUILDERS: dict[str, Callable[[int, tuple[int, ...]], nn.Module]] = {
    "cnn-small": cnn_small,
    "cnn": cnn,
    "resnet8": resnet8,
    "cnn-gn": lambda n_outputs, input_shape: with_group_norm(cnn(n_outputs, input_shape)),
    "resnet8-gn": lambda n_outputs, input_shape: with_group_norm(resnet8(n_outputs, input_shape)),
    "shufflenet-v2": shufflenet_v2,
    "mobilenet-v2": mobilenet_v2,
    "mlp-torch": mlp,
    "linear-torch": linear,
}


class GreyAsColour(nn.Module):
    """A network of colour images, shown grey ones with three equal channels."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.net(x.expand(-1, 3, -1, -1)))


def foreign(name: str, factory: Callable[..., object], input_shape: tuple[int, ...]) -> Builder:
    """As :func:`builder`, for a network that ``factory(n_classes=)`` returns.

    Raises
    ------
    SettingsError
        When called, if the factory fails or returns no torch module.
    """
    colour: list[bool] = []  # whether it takes colour images alone; found out once, as trying draws random numbers

    def build(n_outputs: int) -> nn.Module:
        net = factory(n_classes=n_outputs)
        if not isinstance(net, nn.Module):
            raise SettingsError(
                f"learner {name!r} returned a {type(net).__name__}, but must return a torch.nn.Module, or an object "
                "with fit, and predict_proba or decision_function"
            )
        if not colour:
            grey = len(input_shape) == 2
            colour.append(grey and not _takes(net, 1, input_shape) and _takes(net, 3, input_shape))
        return GreyAsColour(net) if colour[0] else net

    return build


def _takes(net: nn.Module, channels: int, input_shape: tuple[int, ...]) -> bool:
    try:
        with torch.inference_mode():
            net.eval()(torch.zeros(2, channels, *input_shape[:2]))
    except Exception:  # foreign code; what is wrong with it, check_answers says
        return False
    finally:
        net.train()
    return True


def check_answers(name: str, net: nn.Module, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """A user's module, refused if it does not give (n, n_classes) for a batch of the data's shape."""
    shape = input_shape if len(input_shape) == 1 else (_channels(input_shape), *input_shape[:2])
    inputs = torch.zeros(2, *shape)
    try:
        with torch.inference_mode():
            logits = net.eval()(inputs)
    except Exception as error:  # foreign code, as above
        raise SettingsError(
            f"learner {name!r} fails on inputs of shape {tuple(inputs.shape)}: {type(error).__name__}: {error}"
        ) from error
    outputs = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if outputs != (2, n_classes):
        raise SettingsError(f"learner {name!r} gives {outputs} for 2 inputs; expected logits of shape (2, {n_classes})")
    return net


def _channels(input_shape: tuple[int, ...]) -> int:
    return input_shape[2] if len(input_shape) == 3 else 1


def _after_strides(input_shape: tuple[int, ...], strides: int) -> tuple[int, int]:
    h, w = input_shape[:2]
    for _ in range(strides):
        h, w = (h + 1) // 2, (w + 1) // 2
    return h, w
