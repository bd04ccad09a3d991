"""Faults of a site, for tests: Python imports this first in every process that has the folder on its path.

The file that $FEDBALLOT_FAULT names says what goes wrong: `hold` (until the file is gone), `raise`, `huge BYTES`.
Only a site's app process is touched. A line in the file with `.began` added to its name tells that training has begun.

$FEDBALLOT_HEARTBEAT_S is after how many seconds without a sign of life a server takes a site for gone (unset: 60);
$FEDBALLOT_START_S, after how many an app that has not begun is started again (unset: 30).
"""

import os
import sys
import time
from pathlib import Path

SITE_APP = "fedballot.deploy.clientapp" in sys.orig_argv
FLOWER = SITE_APP or any(Path(word).name.startswith(("flower-", "flwr-")) for word in sys.orig_argv[:2])

if FLOWER and os.environ.get("FEDBALLOT_HEARTBEAT_S"):
    from flwr.common import constant
    from flwr.supercore import heartbeat

    heartbeat.HEARTBEAT_DEFAULT_INTERVAL = float(os.environ["FEDBALLOT_HEARTBEAT_S"]) / constant.HEARTBEAT_PATIENCE
    if any(Path(word).name == "flower-supernode" for word in sys.orig_argv[:2]):
        from flwr.client.grpc_rere_client import connection

        connection.HEARTBEAT_DEFAULT_INTERVAL = heartbeat.HEARTBEAT_DEFAULT_INTERVAL

if FLOWER and os.environ.get("FEDBALLOT_START_S"):
    from flwr.supercore.corestate import sql_corestate

    sql_corestate.HEARTBEAT_DEFAULT_INTERVAL = float(os.environ["FEDBALLOT_START_S"])

if SITE_APP and os.environ.get("FEDBALLOT_FAULT"):
    import numpy as np

    from fedballot.clients.pate import PateClient

    path = Path(os.environ["FEDBALLOT_FAULT"])
    teacher, answer = PateClient.teacher, PateClient.answer

    def fault():
        return path.read_text().split() if path.exists() else [""]

    def faulty_teacher(self):
        with path.with_name(path.name + ".began").open("a") as stream:
            stream.write(f"{time.time()}\n")
        kind = fault()[0]
        for _ in range(1200):
            if kind == "hold" and path.exists():
                time.sleep(0.1)
        if kind == "raise":
            raise ValueError("record 17 belongs to Mrs Smith")
        return teacher(self)

    def faulty_answer(self, arrays, config):
        out = answer(self, arrays, config)
        kind, *rest = fault()
        return [np.zeros(int(rest[0]), np.int8)] if kind == "huge" else out

    PateClient.teacher, PateClient.answer = faulty_teacher, faulty_answer
