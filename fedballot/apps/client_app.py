"""The ClientApp for `flwr run` and deployments."""

from pathlib import Path

from flwr.client import NumPyClient
from flwr.common import Context

from fedballot.runs.engine import make_client
from fedballot.runs.flower_api import flower_api
from fedballot.runs.run_config import client_number, clients_root, from_run_config


def client(context: Context) -> NumPyClient:
    """The site that this node's ``site`` file describes; without one, the client that its partition-id names."""
    site_file = context.node_config.get("site")
    if site_file:
        from fedballot.deploy.client import SiteClient
        from fedballot.deploy.rules import check_import
        from fedballot.deploy.site_file import read_site

        check_import(read_site(Path(str(site_file))), str(context.run_config.get("method", "")))
    method, settings, out = from_run_config(context.run_config)
    if site_file:
        words = {key: str(context.run_config.get(key, "")) for key in ("requester", "purpose")}
        return SiteClient(Path(str(site_file)), method, settings, **words)
    return make_client(method.name, settings, clients_root(context, out), client_number(context))


app = flower_api().client_app(client)
