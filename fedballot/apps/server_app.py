"""The ServerApp for `flwr run` and deployments."""

from flwr.common import Context
from flwr.server import ServerApp, ServerAppComponents

from fedballot.core.folders import RunFolder
from fedballot.privacy.ledger.heads import Heads
from fedballot.runs.engine import make_server
from fedballot.runs.follow import PROGRESS_FILE, FileProgress
from fedballot.runs.run_config import from_run_config, heads_file
from fedballot.strategies.base import BallotStrategy


def server_fn(context: Context) -> ServerAppComponents:
    """The server of a run; the result goes to the run-config's ``out``."""
    method, settings, out = from_run_config(context.run_config)
    folder = RunFolder.open(out, method.name, settings, resume=True)
    progress = FileProgress(folder.path / PROGRESS_FILE)
    components, _ = make_server(method, settings, folder, workers=method.nodes(settings), progress=progress)
    if components.server is not None and isinstance(components.server.strategy, BallotStrategy):
        components.server.strategy.ledger_heads = Heads(heads_file(context, out))
    return components


app = ServerApp(server_fn=server_fn)
