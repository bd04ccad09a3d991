"""A site whose records are images that a table names, and one that reads its images by a function of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedballot.core.setting import build
from fedballot.datasets.fingerprint import source_fingerprint
from fedballot.datasets.own import SITES
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.sources import load_as
from fedballot.deploy.check import Finding, check_site
from fedballot.deploy.client import SiteClient
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import init_site
from fedballot.methods.registry import get_method
from fedballot.runs.engine import federated_data
from fedballot.settings.voting import PateSettings
from tests.deploy.harness import edit
from tests.packages import install

READER = "import numpy as np\ndef read(path):\n    return np.load(path)\n"


def put(folder: Path, first: int, count: int, suffix: str = "png") -> Path:
    (folder / "img").mkdir(parents=True)
    lines = ["file,label"]
    for number in range(first, first + count):
        drawn = np.random.default_rng(number).integers(0, 120, (6, 6)) + 120 * (number % 2)
        path = folder / "img" / f"{number}.{suffix}"
        if suffix == "npy":
            np.save(path, drawn.astype(np.uint8))
        else:
            Image.fromarray(drawn.astype(np.uint8)).save(path)
        lines.append(f"img/{path.name},{('dark', 'bright')[number % 2]}")
    (folder / "table.csv").write_text("\n".join(lines))
    return folder / "table.csv"


def new_site(folder: Path, suffix: str = "png", reader: str = "") -> tuple[Path, dict[str, Any]]:
    """A site's file, and the settings with which a server asks it."""
    public = put(folder / "public", 0, 60, suffix)
    schema = 'channels = 1\n[label]\ncolumn = "label"\nwords = ["bright", "dark"]\n[columns.file]\nkind = "image"\n'
    (folder / "schema.toml").write_text(schema)
    init_site(folder / "site", number=0, sites=2, server="localhost:1")
    path = folder / "site" / "site.toml"
    own = put(folder / "own", 100, 40, suffix)
    settings = {
        "dataset": SITES, "public_dataset": str(public), "clients": 2, "public_size": 30, "test_size": 30,
        "vote_fraction": 1, "epsilon": 40, "abstain": False,
        "server_model": "logistic-regression", "client_models": "logistic-regression",
         "schema": str(folder / "schema.toml"), "image_reader": reader,
    }  # fmt: skip
    text = path.read_text().replace('# schema = "schema.toml"', 'schema = "../schema.toml"')
    path.write_text(
        text.replace('# image_reader = "my_scans:middle_slice"', f'image_reader = "{reader}"') if reader else text
    )
    edit(path, model="logistic-regression", private=str(own), public=str(public), largest_epsilon=50.0, epsilon=100.0,
         secure_aggregation=False)  # fmt: skip
    site = read_site(path)
    reading = build(PateSettings, settings).reading
    assert reading == Reading(reading.schema, image_reader=reader) and site.data.image_reader == reader
    edit(path, public_fingerprint=source_fingerprint(load_as(str(public), reading)))
    return path, settings


def ask(site: Path, values: dict[str, Any], request: str) -> Any:
    settings = build(PateSettings, values)
    config = {"request": request, "round": 1, "fingerprint": federated_data(settings).public_fingerprint}
    queries = np.arange(settings.query_count, dtype=np.int32)
    return SiteClient(site, get_method("pate-fl"), settings).fit([queries], config)[2]


def findings(site: Path) -> dict[str, Finding]:
    return {one.what: one for one in check_site(site)}


@pytest.mark.parametrize("suffix", ["png", "npy"])
def test_tables_of_images_at_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    reader = "own_reader:read" if suffix == "npy" else ""
    install(tmp_path / "package", {"own_reader.py": READER}, patch=monkeypatch)
    site, values = new_site(tmp_path, suffix, reader)
    seen = findings(site)
    assert seen["own data"].good and "40 records (bright: 20, dark: 20)" in seen["own data"].words
    assert seen["public data"].good and seen["model"].good
    assert ask(site, values, "r/1")["refused"] == ""
    # the server's word for the reader counts for nothing at the site
    assert ask(site, values | {"image_reader": reader}, "r/2")["refused"] == ""
    # an image changes, the table does not: that is another version of the data, which the ledger is not about
    image = tmp_path / "own" / "img" / f"101.{suffix}"
    image.write_bytes((tmp_path / "own" / "img" / f"102.{suffix}").read_bytes())
    assert ask(site, values, "r/3")["refused"] == "site"
    assert findings(site)["budget"].good is False
    image.unlink()
    assert "line 3, column file: " in findings(site)["own data"].words
    assert "101" not in str(ask(site, values, "r/4"))
