"""Run folders to read, as a real run leaves them."""

from tests.run_folders import release, result, write_run

__all__ = ["release", "result", "write_run"]
