"""What the page says beyond accuracy: a table by class, the confusion matrix, calibration."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from fedballot.core.numbers import count, percent
from fedballot.report.measure_plots import MOST_CLASSES, calibration_figure, confusion_figure
from fedballot.report.svg import inline_svg
from fedballot.report.view import Plot

COLUMNS = (
    ("support", "test records", count),
    ("precision_per_class", "precision", percent),
    ("recall_per_class", "recall", percent),
    ("f1_per_class", "F1", percent),
    ("auc_per_class", "AUC", lambda value: "–" if value is None else f"{value:.3f}"),
)


def class_table(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table by class, its last row the means; empty where nothing was measured."""
    measures, classes = result["metrics"].get("server_measures") or {}, [str(name) for name in result["classes"]]
    columns = [column for column in COLUMNS if len(measures.get(column[0]) or ()) == len(classes)]
    if not columns:
        return [], []
    rows = [[name, *(write(measures[key][place]) for key, _, write in columns)] for place, name in enumerate(classes)]
    means = {"recall_per_class": "balanced_accuracy", "f1_per_class": "macro_f1", "auc_per_class": "auc"}
    last = [write(measures.get(means[key])) if key in means else "" for key, _, write in columns]
    return ["class", *(words for _, words, _ in columns)], [*rows, ["mean", *last]]


def measure_plots(result: Mapping[str, Any]) -> list[Plot]:
    """Draw the confusion matrix and the calibration of the server's model, where they were measured."""
    measures, classes = result["metrics"].get("server_measures") or {}, [str(name) for name in result["classes"]]
    plots = []
    confusion = measures.get("confusion")
    if confusion and len(confusion) == len(classes) <= MOST_CLASSES:
        caption = _worst_mistake(confusion, classes)
        svg = inline_svg(confusion_figure(confusion, classes), "confusion", "Confusion matrix. " + caption)
        plots.append(Plot("What is taken for what", Markup(svg), caption))
    curve = measures.get("calibration")
    if curve and any(curve["records"]):
        caption = (
            f"Expected calibration error {percent(measures.get('calibration_error'))}. Below the diagonal the model is "
            "surer than it may be; larger dots stand for more records."
        )
        figure = calibration_figure(curve["confidence"], curve["right"], curve["records"])
        svg = inline_svg(figure, "calibration", "Calibration curve. " + caption)
        plots.append(Plot("How sure it may be", Markup(svg), caption))
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
