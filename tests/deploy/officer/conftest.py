"""Run folders, as tests of reports have them."""

from tests.run_folders import release, result, write_run

__all__ = ["release", "result", "write_run"]
