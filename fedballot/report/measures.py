"""What the page says beyond accuracy: a table by class, the confusion matrix, calibration."""

from collections.abc import Mapping
from typing import Any

from fedballot.core.numbers import count, percent
from fedballot.report.measure_plots import MOST_CLASSES, calibration_figure, confusion_figure
from fedballot.report.plot import Plot, drawn
from fedballot.report.tables import Table

COLUMNS = (
    ("support", "test records", count),
    ("precision_per_class", "precision", percent),
    ("recall_per_class", "recall", percent),
    ("f1_per_class", "F1", percent),
    ("auc_per_class", "AUC", lambda value: "–" if value is None else f"{value:.3f}"),
)

NOTE = (
    "Precision: of the records given a class, how many are of it. Recall: of the records of a class, how many were "
    "given it; its mean is the balanced accuracy. F1: the harmonic mean of both. AUC: how well the class is told from "
    "the rest, 0.5 is chance. A dash: not defined, such as recall where no test record is of the class."
)


def class_table(result: Mapping[str, Any]) -> Table | None:
    """The table by class, its last row the means; None where nothing was measured."""
    measures, classes = result["metrics"].get("server_measures") or {}, [str(name) for name in result["classes"]]
    columns = [column for column in COLUMNS if len(measures.get(column[0]) or ()) == len(classes)]
    if not columns:
        return None
    rows = [(name, *(write(measures[key][place]) for key, _, write in columns)) for place, name in enumerate(classes)]
    means = {"recall_per_class": "balanced_accuracy", "f1_per_class": "macro_f1", "auc_per_class": "auc"}
    last = [write(measures.get(means[key])) if key in means else "" for key, _, write in columns]
    head = ("class", *(words for _, words, _ in columns))
    return Table("by-class", "The server’s model by class", head, (*rows, ("mean", *last)), note=NOTE)


def measure_plots(result: Mapping[str, Any], *, pdf: bool = False) -> list[Plot]:
    """Draw the confusion matrix and the calibration of the server's model, where they were measured."""
    measures, classes = result["metrics"].get("server_measures") or {}, [str(name) for name in result["classes"]]
    plots = []
    confusion = measures.get("confusion")
    if confusion and len(confusion) == len(classes) <= MOST_CLASSES:
        caption = _worst_mistake(confusion, classes)
        figure, alt = confusion_figure(confusion, classes), "Confusion matrix. " + caption
        plots.append(drawn("What is taken for what", figure, "confusion", alt, caption, pdf=pdf))
    curve = measures.get("calibration")
    if curve and any(curve["records"]):
        caption = (
            f"Expected calibration error {percent(measures.get('calibration_error'))}. Below the diagonal the model is "
            "surer than it may be; larger dots stand for more records."
        )
        figure = calibration_figure(curve["confidence"], curve["right"], curve["records"])
        alt = "Calibration curve. " + caption
        plots.append(drawn("How sure it may be", figure, "calibration", alt, caption, pdf=pdf))
    return plots


def _worst_mistake(confusion: list[list[int]], classes: list[str]) -> str:
    wrong = [
        (number, row, column)
        for row, values in enumerate(confusion)
        for column, number in enumerate(values)
        if row != column and number
    ]
    if not wrong:
        return "Rows: true classes, columns: classes given. Nothing is wrong."
    number, row, column = max(wrong)
    return (
        f"Rows: true classes, columns: classes given. Most often wrong: {classes[row]} taken for {classes[column]}, "
        f"{count(number)} of {count(sum(confusion[row]))}."
    )
