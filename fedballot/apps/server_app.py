"""The ServerApp for `flwr run` and deployments."""

from flwr.common import Context

from fedballot.core.folders import RunFolder
from fedballot.privacy.ledger.heads import Heads
from fedballot.runs.engine import ServerSide, make_server
from fedballot.runs.flower_api import flower_api
from fedballot.runs.follow import PROGRESS_FILE, FileProgress
from fedballot.runs.run_config import from_run_config, heads_file


def server(context: Context) -> ServerSide:
    """The server of a run; the result goes to the run-config's ``out``."""
    method, settings, out = from_run_config(context.run_config)
    folder = RunFolder.open(out, method.name, settings, resume=True)
    progress = FileProgress(folder.path / PROGRESS_FILE)
    side = make_server(method, settings, folder, workers=method.nodes(settings), progress=progress)
    side.strategy.ledger_heads = Heads(heads_file(context, out))
    return side


app = flower_api().server_app(server)
