"""The ClientApp for `flwr run` and deployments."""

from flwr.client import Client, ClientApp
from flwr.common import Context

from fedballot.apps.config import agents_root, from_run_config
from fedballot.engine import make_client


def client_fn(context: Context) -> Client:
    """The party that this node's partition-id names."""
    method, settings, out = from_run_config(context.run_config)
    return make_client(method.name, settings, agents_root(context, out), context)


app = ClientApp(client_fn=client_fn)
