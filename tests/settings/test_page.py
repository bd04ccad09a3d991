"""docs/settings.md says what can be set today."""

import runpy
from pathlib import Path

WRITER = Path(__file__).parents[2] / "docs" / "write_settings.py"


def test_the_page_of_settings_is_up_to_date():
    writer = runpy.run_path(str(WRITER))
    assert writer["PAGE"].read_text() == writer["page"](), "run: python docs/write_settings.py"
