"""A site with a table of its own: read by name through the agreed schema, which server and site compare."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from fedballot.core.errors import DataError
from fedballot.core.setting import build
from fedballot.datasets.fingerprint import source_fingerprint
from fedballot.datasets.own import SITES
from fedballot.datasets.schema.contract import Schema
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.schema.toml import read_schema, to_toml
from fedballot.datasets.sources import load, load_as
from fedballot.deploy.check import Finding, check_site
from fedballot.deploy.client import SiteClient
from fedballot.deploy.records import own_records
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import init_site
from fedballot.methods.registry import get_method
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.settings.poll import PollSettings
from fedballot.settings.voting import PateSettings
from tests.deploy.harness import edit, fedballot

DATA = load_breast_cancer()
NAMES = ["radius", "texture", "smoothness"]
X = DATA.data[:, [0, 1, 4]]


def write(path: Path, rows: slice, names: list[str] = NAMES, words: tuple[str, str] = ("malignant", "benign")) -> Path:
    cells = [dict(zip(NAMES, map(str, x), strict=True)) | {"label": words[y], "extra": "7"}
             for x, y in zip(X[rows], DATA.target[rows], strict=True)]  # fmt: skip
    lines = [",".join(cell.get(name, "1.5") for name in [*names, "label"]) for cell in cells]
    path.write_text("\n".join([",".join([*names, "label"]), *lines]))
    return path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site's file; the server's public file and schema lie beside its folder."""
    public = write(tmp_path / "public.csv", slice(0, 249))
    (tmp_path / "schema.toml").write_text(to_toml(contract(public)))
    init_site(tmp_path / "site", number=0, sites=2, server="localhost:1")
    path = tmp_path / "site" / "site.toml"
    edit(
        path,
        model="logistic-regression",
        private=str(write(tmp_path / "site" / "own.csv", slice(249, 409), [NAMES[2], "extra", NAMES[0], NAMES[1]])),
        public=str(write(tmp_path / "site" / "public.csv", slice(0, 249))),
        public_fingerprint=source_fingerprint(load(str(public))),
        largest_epsilon=50.0,
        epsilon=100.0,
        secure_aggregation=False,
    )
    return path


def contract(public: Path) -> Schema:
    schema = load(str(public)).schema
    assert schema is not None
    return schema


def ask(site: Path, request: str = "r/1", **changes: Any) -> Any:
    values = {
        "dataset": SITES, "public_dataset": str(site.parents[1] / "public.csv"), "clients": 2, "public_size": 149,
        "test_size": 100, "epsilon": 40, "vote_fraction": 1, "server_model": "logistic-regression", "abstain": False,
        "client_models": "logistic-regression",
    }  # fmt: skip
    settings = build(PateSettings, {**values, **changes})
    config = {"request": request, "round": 1, "fingerprint": federated_data(settings).public_fingerprint}
    queries = np.arange(settings.query_count, dtype=np.int32)
    arrays, _, metrics = SiteClient(site, get_method("pate-fl"), settings).fit([queries], config)
    return arrays, metrics, federated_data(settings)


def findings(site: Path) -> dict[str, Finding]:
    return {one.what: one for one in check_site(site)}


def test_columns_in_another_order_are_right_and_shown(site: Path) -> None:
    seen = findings(site)
    assert seen["own data"].good and seen["other columns"].words == "left out: 'extra'"
    radius = X[249:409, 0]
    assert f"number: {radius.min():.6g} to {radius.max():.6g}, median" in seen["column radius"].words
    _, metrics, data = ask(site)
    assert metrics["refused"] == ""
    own = own_records(read_site(site)).examples
    assert LogisticRegression().fit(own.x, own.y).score(data.public_x, data.public_y) > 0.85


def test_another_unit_is_pointed_out(site: Path) -> None:
    own = site.parent / "own.csv"
    header, *lines = own.read_text().splitlines()
    cells = [line.split(",") for line in lines]
    own.write_text("\n".join([header, *(",".join([a, e, str(float(r) * 4), t, y]) for a, e, r, t, y in cells)]))
    assert "is it the same unit?" in findings(site)["column radius"].words


@pytest.mark.parametrize(
    ("names", "words", "message"),
    [
        ([NAMES[0], NAMES[1], "Smoothness"], ("malignant", "benign"), "no column 'smoothness'; did you mean 'Smooth"),
        (NAMES, ("Malignant", "Benign"), "line 2, column label: 'Benign' is a class that the public source does not"),
        (NAMES, ("1", "0"), "line 2, column label: '0' is a class"),
    ],
)
def test_what_does_not_fit_is_named_to_the_site_alone(
    site: Path, names: list[str], words: tuple[str, str], message: str
) -> None:
    write(site.parent / "own.csv", slice(249, 409), names, words)
    finding = findings(site)["own data"]
    assert finding.good is False and message in finding.words
    _, metrics, _ = ask(site)
    assert "lass" not in str(metrics["detail"]) and "smoothness" not in str(metrics["detail"])


def test_a_copy_with_other_class_words_is_refused(site: Path) -> None:
    """It voted crosswise: the rows were the same, so was the fingerprint."""
    for name in ("own.csv", "public.csv"):
        rows = slice(249, 409) if name == "own.csv" else slice(0, 249)
        write(site.parent / name, rows, words=("benign tumour", "malignant"))
    assert "get the agreed file" in findings(site)["public data"].words
    assert ask(site)[1]["refused"] == "fingerprint"


def test_server_and_site_compare_their_schemas(site: Path) -> None:
    schema = site.parents[1] / "schema.toml"
    assert ask(site, schema=str(schema))[1]["refused"] == ""  # what the site infers is the same
    other = site.parent / "schema.toml"
    other.write_text(schema.read_text().replace('unit = ""', 'unit = "mm"', 1))
    site.write_text(site.read_text().replace("# schema = ", "schema = "))
    assert "get the agreed file" in findings(site)["public data"].words
    assert ask(site, schema=str(schema))[1]["refused"] == "fingerprint"
    agreed = source_fingerprint(load_as(str(site.parents[1] / "public.csv"), Reading(read_schema(other))))
    edit(site, public_fingerprint=agreed)
    assert "number in mm" in findings(site)["column radius"].words
    assert ask(site, "r/2", schema=str(other))[1]["refused"] == ""


def test_a_changed_schema_is_taken_over_as_the_page_says(site: Path) -> None:
    """Another order of columns: a new fingerprint of the public data, and another version of the site's own."""
    schema = site.parents[1] / "schema.toml"
    assert ask(site, schema=str(schema))[1]["refused"] == ""
    head, radius, texture, smoothness = schema.read_text().split("[columns.")
    schema = schema.with_name("june.toml")
    schema.write_text("[columns.".join([head, texture, radius.rstrip() + "\n\n", smoothness]))
    (site.parent / "schema.toml").write_text(schema.read_text())
    site.write_text(site.read_text().replace("# schema = ", "schema = "))
    words = findings(site)["public data"].words
    (command,) = re.findall(r"write the fingerprint that the server's `fedballot (.*)` prints", words)
    assert ask(site, "r/2", schema=str(schema))[1]["refused"] != ""
    told = fedballot(
        *command.replace("public.csv", str(site.parents[1] / "public.csv")).replace("schema.toml", str(schema)).split(),
        "--json",
    )
    edit(site, public_fingerprint=json.loads(told.stdout)["fingerprint"])
    seen = findings(site)
    assert seen["public data"].good and seen["own data"].good
    assert seen["budget"].good is False and "fedballot ledger carry-over" in seen["budget"].words
    done = fedballot("ledger", "carry-over", site, "--note", "columns in another order")
    assert done.returncode == 0, done.stderr
    assert all(one.good for one in check_site(site) if one.what != "authority")
    assert ask(site, "r/3", schema=str(schema))[1]["refused"] == ""


def test_a_model_is_tried_on_prepared_records(site: Path) -> None:
    """scikit-learn's SVC takes no missing value: what fills them was not asked, and the check refused what works."""
    for path in (site.parent / "public.csv", site.parents[1] / "public.csv"):
        header, first, *lines = path.read_text().splitlines()
        path.write_text("\n".join([header, "," + first.partition(",")[2], *lines]))
    edit(site, public_fingerprint=source_fingerprint(load(str(site.parent / "public.csv"))), model="sklearn.svm:SVC")
    assert findings(site)["model"].good, findings(site)["model"].words


def test_a_poll_at_a_site_whose_public_file_has_no_labels(site: Path) -> None:
    """The schema says what the classes are; votes, which are tested on public records, are asked for with labels."""
    schema = site.parents[1] / "schema.toml"
    (site.parent / "schema.toml").write_text(schema.read_text())
    for public in (site.parents[1] / "public.csv", site.parent / "public.csv"):
        public.write_text("\n".join(line.rpartition(",")[0] for line in public.read_text().splitlines()))
    edit(site, methods=["pate-fl", "poll"])
    words = public_words(site)
    assert "no column 'label' in the header" in words
    site.write_text(site.read_text().replace("[data]", '[data]\nschema = "schema.toml"', 1))
    assert "249 records, classes benign, malignant" in public_words(site)
    values = {"dataset": SITES, "public_dataset": str(site.parents[1] / "public.csv"), "schema": str(schema)}
    settings = build(PollSettings, values | {"clients": 2, "public_size": 149, "unit": "client", "epsilon": 20})
    data = federated_data(settings)
    strategy = new_strategy(get_method("poll"), settings, data, request_id="r")
    config = {"request": "r/1", "round": 1, "fingerprint": data.public_fingerprint}
    _, _, metrics = SiteClient(site, get_method("poll"), settings).fit(strategy.request(1), config)
    assert metrics["refused"] == "", metrics["detail"]
    with pytest.raises(DataError, match=r"public_labels=known.*the server tests with them"):
        federated_data(build(PateSettings, values | {"clients": 2, "public_size": 100, "test_size": 40}))


def public_words(site: Path) -> str:
    """What `site check` says of the public source."""
    (words,) = [one.words for one in check_site(site) if "public" in one.what and "column" not in one.what]
    return words
