"""The FedAvg row in two other frameworks, on the same clients' records and from the same network:

    .venv-benchmark/bin/python -m torch.distributed.run --nproc-per-node 2 benchmarks/peers.py pfl INPUTS
    .venv-benchmark/bin/python benchmarks/peers.py flower INPUTS

pfl-research as its tutorials have it, and Flower's quickstart: a DataLoader made in `fit`, on the Ray-backed engine,
one core a client. Both with plain SGD. INPUTS is a folder from `performance.py`. Prints JSON: accuracy,
seconds of work.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}

import numpy as np
import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, ROUNDS, LR = 2, 64, 3, 0.05


def network() -> nn.Sequential:
    """`cnn-small` for MNIST."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


class Inputs:
    """What `performance.py` has laid out: x (clients, n, h, w) and y (clients, n), and test records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.x, self.y, self.test_x, self.test_y = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x", "y", "test_x", "test_y")
        )


def arrays(net: nn.Module) -> list[Any]:
    """The weights of a network."""
    return [value.numpy().copy() for value in net.state_dict().values()]


def put(net: nn.Module, parameters: list[Any]) -> nn.Module:
    """The network with these weights."""
    net.load_state_dict(dict(zip(net.state_dict(), map(torch.from_numpy, parameters), strict=True)))
    return net


def floats(images: Any) -> Tensor:
    """Images (n, h, w), uint8, as a network takes them."""
    return torch.from_numpy(np.array(images)).float().div_(255).unsqueeze(1)


def accuracy(net: nn.Module, inputs: Inputs) -> float:
    """Of the network on the test records."""
    with torch.inference_mode():
        return float((net(floats(inputs.test_x)).argmax(1).numpy() == inputs.test_y).mean())


def run_pfl(inputs: Inputs) -> dict[str, float] | None:
    """pfl-research; one process of those that torchrun starts. The first tells the outcome."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.internal.ops.selector import get_default_framework_module
    from pfl.model.pytorch import PyTorchModel

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
            self.train(not eval)
            return nn.functional.cross_entropy(self.net(x), y)

        def metrics(self, x: Tensor, y: Tensor, eval: bool = True) -> dict[str, Any]:
            return {}  # pfl asks before and after a client's first training; the other rows measure nothing there

    torch.set_num_threads(1)
    np.random.seed(0)  # noqa: NPY002 - pfl draws its cohorts from this one, the same in all processes
    users = {
        client: Dataset([floats(x), torch.from_numpy(np.array(y))], user_id=str(client))
        for client, (x, y) in enumerate(zip(inputs.x, inputs.y, strict=True))
    }
    began = time.perf_counter()
    net = Net()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    sampler = get_user_sampler("minimize_reuse", list(users))
    data = FederatedDataset(users.__getitem__, sampler)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=ROUNDS,
            evaluation_frequency=ROUNDS + 1,
            train_cohort_size=len(users),
            val_cohort_size=0,
        ),
        SimulatedBackend(data, data),
        model,
        NNTrainHyperParams(local_num_epochs=EPOCHS, local_learning_rate=LR, local_batch_size=BATCH),
        send_metrics_to_platform=False,
    )
    if get_default_framework_module().distributed.global_rank:
        return None
    return {"accuracy": accuracy(net.net.eval(), inputs), "work_s": time.perf_counter() - began}


class FlowerClient(NumPyClient):
    """The client of Flower's quickstart."""

    def __init__(self, folder: str, number: int) -> None:
        self.folder, self.number = folder, number

    def fit(self, parameters: Any, config: Any) -> Any:
        """Train from the server's weights."""
        inputs = Inputs(Path(self.folder))
        own = TensorDataset(floats(inputs.x[self.number]), torch.from_numpy(np.array(inputs.y[self.number])))
        net = put(network(), parameters)
        optimiser = torch.optim.SGD(net.parameters(), lr=LR)
        for _ in range(EPOCHS):
            for x, y in DataLoader(own, batch_size=BATCH, shuffle=True):
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(x), y).backward()
                optimiser.step()
        return arrays(net), len(own), {}


def run_flower(inputs: Inputs, cores: int) -> dict[str, float]:
    """Flower's quickstart on its virtual client engine."""
    folder, net = str(inputs.folder), network()
    clients = len(inputs.x)
    began = time.perf_counter()

    class Keeping(FedAvg):
        def aggregate_fit(self, *args: Any) -> Any:
            averaged, metrics = super().aggregate_fit(*args)
            put(net, parameters_to_ndarrays(averaged))
            return averaged, metrics

    def server(context: Context) -> ServerAppComponents:
        strategy = Keeping(
            fraction_evaluate=0.0,
            min_fit_clients=clients,
            min_available_clients=clients,
            initial_parameters=ndarrays_to_parameters(arrays(net)),
        )
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=ROUNDS))

    run_simulation(
        server_app=ServerApp(server_fn=server),
        client_app=ClientApp(
            lambda context: FlowerClient(folder, int(context.node_config["partition-id"])).to_client()
        ),
        num_supernodes=clients,
        backend_config={"init_args": {"num_cpus": cores}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    return {"accuracy": accuracy(net.eval(), inputs), "work_s": time.perf_counter() - began}


def main() -> None:
    """Run one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["pfl", "flower"])
    parser.add_argument("inputs", type=Path)
    parser.add_argument("--cores", type=int, default=2)
    asked = parser.parse_args()
    inputs = Inputs(asked.inputs)
    outcome = run_pfl(inputs) if asked.framework == "pfl" else run_flower(inputs, asked.cores)
    if outcome is not None:
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
