"""The ServerApp for `flwr run` and deployments."""

from contextlib import ExitStack
from dataclasses import replace

from flwr.common import Context

from fedballot.privacy.ledger.heads import Heads
from fedballot.runs.engine import ServerSide, check_learners, make_server, open_run
from fedballot.runs.flower_api import flower_api
from fedballot.runs.follow import PROGRESS_FILE, FileProgress
from fedballot.runs.run_config import from_run_config, heads_file


def server(context: Context) -> ServerSide:
    """The server of a run; the result goes to the run-config's ``out``."""
    method, settings, out = from_run_config(context.run_config)
    preset = str(context.run_config.get("preset", ""))
    folder = open_run(out, method, settings, resume=True, preset=preset)
    alone = ExitStack()
    alone.enter_context(folder.held())
    check_learners(settings, clients=False, taken_up=folder.checkpoint.exists())
    progress = FileProgress(folder.path / PROGRESS_FILE)
    side = make_server(method, settings, folder, workers=method.nodes(settings), progress=progress)
    side.strategy.ledger_heads = Heads(heads_file(context, out))
    side = replace(side, alone=alone)
    try:
        side.strategy.ready()
    except BaseException as error:
        side.finish(error)
        raise
    return side


app = flower_api().server_app(server)
