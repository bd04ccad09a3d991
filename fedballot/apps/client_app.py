"""The ClientApp for `flwr run` and deployments."""

from pathlib import Path

from flwr.client import Client, ClientApp
from flwr.common import Context

from fedballot.runs.engine import make_client
from fedballot.runs.run_config import clients_root, from_run_config


def client_fn(context: Context) -> Client:
    """The site that this node's ``site`` file describes; without one, the client that its partition-id names."""
    method, settings, out = from_run_config(context.run_config)
    if site_file := context.node_config.get("site"):
        from fedballot.deploy.client import SiteClient

        return SiteClient(Path(str(site_file)), method, settings).to_client()
    return make_client(method.name, settings, clients_root(context, out), context)


app = ClientApp(client_fn=client_fn)
