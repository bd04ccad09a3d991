"""Chest x-rays as the NIH (CXR14) and CheXpert publish them: a table of findings beside folders of images.

Both get the 14 findings of FedKD ("Preserving privacy in federated learning with ensemble cross-domain knowledge
distillation"): 12 that the NIH annotates, 8 that CheXpert does, 6 of them the same. A finding that a table does not
annotate is unknown (-1), and so is one that CheXpert calls uncertain.
"""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Array

SIZE = 128  # pixels of a side
NIH = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Emphysema", "Fibrosis"),
    *("Hernia", "Infiltration", "Mass", "Nodule", "Pneumonia", "Pneumothorax"),
)
CHEXPERT = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pneumonia", "Pneumothorax"),
    *("Fracture", "Lung Lesion"),
)
FINDINGS = tuple(dict.fromkeys((*NIH, *CHEXPERT)))


def read_nih(path: Path) -> dict[str, Array]:
    """NIH CXR14 from `Data_Entry_2017.csv` and the PNG files anywhere below its folder.

    The table has a column `Image Index` and one `Finding Labels`, such as `Mass|Edema` or `No Finding`.

    Raises
    ------
    DataError
        A column, an image or a row that is missing or damaged: names the file and line.
    """
    images = {image.name: image for image in path.parent.rglob("*.png")}

    def labels(row: dict[str, str]) -> list[int]:
        findings = row["Finding Labels"].split("|")
        return [int(name in findings) if name in NIH else -1 for name in FINDINGS]

    return _read(path, "Image Index", ("Finding Labels",), lambda name: images.get(name, path.parent / name), labels)


def read_chexpert(path: Path) -> dict[str, Array]:
    """CheXpert from `train.csv` and the images that its column `Path` names.

    A finding is 1.0, 0.0, -1.0 (uncertain) or blank (not mentioned), which counts as negative, as in
    CheXpert's own baselines.

    Raises
    ------
    DataError
        As `read_nih`.
    """

    def image(name: str) -> Path:
        # paths begin with the name of the set's own folder, CheXpert-v1.0-small/train/...
        return path.parent.joinpath(*Path(name).parts[1:])

    def labels(row: dict[str, str]) -> list[int]:
        return [int(float(row[name].strip() or 0)) if name in CHEXPERT else -1 for name in FINDINGS]

    return _read(path, "Path", CHEXPERT, image, labels)


def _read(
    path: Path,
    key: str,
    columns: tuple[str, ...],
    image: Callable[[str], Path],
    labels: Callable[[dict[str, str]], list[int]],
) -> dict[str, Array]:
    pictures, y = [], []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = sorted({key, *columns} - set(reader.fieldnames or ()))
            if missing:
                raise DataError(f"{path}: no column {missing[0]!r} in the header; expected it")
            for row in reader:
                where = f"{path}: line {reader.line_num}"
                try:
                    y.append(labels(row))
                except (ValueError, AttributeError) as error:
                    raise DataError(f"{where}: {error}; expected findings") from error
                if not set(y[-1]) <= {-1, 0, 1}:
                    raise DataError(f"{where}: a finding that is not 1, 0, -1 or blank")
                pictures.append(_picture(image(row[key]), where))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error})") from error
    if not y:
        raise DataError(f"{path}: a header but no rows; expected at least one")
    return {"x_train": np.stack(pictures), "y_train": np.array(y, dtype=np.int8)}


def _picture(path: Path, where: str) -> NDArray[np.uint8]:
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("L").resize((SIZE, SIZE)), dtype=np.uint8)
    except (OSError, ValueError) as error:
        raise DataError(f"{where}: image {path} cannot be read ({error})") from error
