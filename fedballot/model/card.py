"""The card that goes with a model: what it learned from, how good it is, what is promised, what it is not for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedballot.core.numbers import count, delta, epsilon, percent
from fedballot.datasets.schema.contract import Column, Schema
from fedballot.privacy.words import subject

FORMS = {
    "skops": "skops (scikit-learn); it holds no code",
    "torch": "safetensors; it holds no code. The network is fedballot's, or the function that its name imports",
    "onnx": "ONNX; any runtime runs it. The classes stand in its metadata",
}


def card(result: Mapping[str, Any], description: Mapping[str, Any], schema: Schema | None, name: str, form: str) -> str:
    """The card in Markdown.

    Parameters
    ----------
    result, description, schema
        ``result.json``, ``model.json`` and ``schema.toml`` of the run.
    name, form
        Of the model's file.
    """
    return (
        "\n\n".join(
            [
                f"# {name}",
                f"A classifier made by federated learning: method {result['method']}, fedballot "
                f"{description.get('fedballot', '')}, run of {result['started'][:10]}, seed {result['seed']}. "
                f"Learner: `{description['learner']}`. File: {FORMS[form]}.",
                _use(description, name, form),
                "## Data",
                _data(result, description, schema),
                "## Measures",
                *_measures(result),
                "## Privacy",
                *_privacy(result["guarantees"]),
                "## What it is not for",
                _limits(result, description),
            ]
        )
        + "\n"
    )


def _use(description: Mapping[str, Any], name: str, form: str) -> str:
    if form == "onnx":
        return (
            f'```python\nimport onnxruntime\n\nsession = onnxruntime.InferenceSession("{name}")\n'
            'classes = session.get_modelmeta().custom_metadata_map["classes"]\n'
            '(probabilities,) = session.run(["probabilities"], {session.get_inputs()[0].name: x})\n```'
        )
    return (
        f'```python\nfrom fedballot.model import load\n\nmodel = load("{name}")\n'
        "model.predict(x)        # class words (n,)\nmodel.predict_proba(x)  # (n, C), columns as model.classes\n```"
    )


def _data(result: Mapping[str, Any], description: Mapping[str, Any], schema: Schema | None) -> str:
    data, shape = result["data"], " × ".join(str(size) for size in description["shape"])
    kind = "pixels (uint8)" if len(description["shape"]) > 1 else "features (float32)"
    clients = len(data["client_sizes"]) if data.get("client_sizes") else result["clients"].get("asked")
    private = "their own records" if data.get("n_private") is None else f"{count(data['n_private'])} private records"
    lines = [
        f"- {count(clients)} clients held {private} of `{data['dataset']}`; none of them left a client.",
        f"- Public records: {count(data['n_public'])} of `{data['public_dataset']}`, fingerprint "
        f"`{str(data['fingerprint'])[:16]}`. Tested on {count(data['n_test'])} others.",
        f"- A record: {shape} {'cells of a table' if description['preparation'] else kind}.",
        *([f"- Features by the frozen encoder `{told['name']}`."] if (told := description.get("encoder")) else []),
        f"- Classes, in this order: {', '.join(map(_code, description['classes']))}.",
    ]
    if schema is not None and schema.tabular:
        lines += ["- Columns, in this order; other ones are left out:", *map(_column, schema.columns)]
    return "\n".join(lines)


def _column(column: Column) -> str:
    words = f"  - {_code(column.name)}: {column.kind}{f' in {_line(column.unit)}' if column.unit else ''}"
    if column.low is not None and column.high is not None:
        words += f", {column.low:g} to {column.high:g}"
    if column.words:
        words += f" of {', '.join(map(_code, column.words))}"
    return words + ("; none may be missing" if column.missing == "refuse" else "")


def _measures(result: Mapping[str, Any]) -> list[str]:
    metrics, classes = result["metrics"], result["classes"]
    measures = metrics.get("server_measures") or {}
    clients = metrics.get("client_accuracy")
    rows = [
        ("accuracy", percent(metrics.get("server_accuracy"))),
        ("balanced accuracy", percent(measures.get("balanced_accuracy"))),
        ("macro F1", percent(measures.get("macro_f1"))),
        ("AUC (each class against the rest, mean)", _three(measures.get("auc"))),
        ("expected calibration error", percent(measures.get("calibration_error"))),
        ("a client alone, mean accuracy", percent(clients["mean"] if clients else None)),
    ]
    out = [_table(("on the test records", ""), rows)]
    if len(measures.get("support") or ()) == len(classes):
        keys = ("support", "precision_per_class", "recall_per_class", "f1_per_class")
        by_class = [
            (_code(name), count(measures[keys[0]][place]), *(percent(measures[key][place]) for key in keys[1:]))
            for place, name in enumerate(classes)
        ]
        out.append(_table(("class", "test records", "precision", "recall", "F1"), by_class))
    if result.get("warnings"):
        out.append("What makes this doubtful:\n" + "\n".join(f"- {_line(words)}" for words in result["warnings"]))
    return out


def _privacy(guarantees: Sequence[Mapping[str, Any]]) -> list[str]:
    if not guarantees:
        return ["No mechanism was applied: this model guarantees nothing about the records that it learned from."]
    rows = [
        (
            _line(entry["mechanism"]),
            f"{subject(entry)} ({entry['adjacency']})",
            epsilon(entry["epsilon"]),
            delta(entry["delta"]),
            _line(entry["view"]),
            _line(entry["trust"]),
            _line(entry["status"]),
        )
        for entry in guarantees
    ]
    head = ("mechanism", "protects", "ε", "δ", "seen", "trust", "status")
    first = guarantees[0]
    warnings = "\n".join(f"- {_line(words)}" for words in first.get("warnings") or ())
    return [_line(first.get("sentence") or ""), _table(head, rows), *([warnings] if warnings else [])]


def _limits(result: Mapping[str, Any], description: Mapping[str, Any]) -> str:
    lines = [
        "- Records unlike the public pool: the model has learned from its labels, and was tested on records like it.",
        "- Decisions about people without a check on records of theirs: nothing here measures how it treats groups.",
        "- Probabilities taken at their word where the calibration error above is large.",
        "- Other columns, units, image sizes or classes than those above: the model cannot know that they differ.",
    ]
    rare = [
        name
        for name, tested in zip(
            description["classes"], (result["metrics"].get("server_measures") or {}).get("support") or [], strict=False
        )
        if tested < 10
    ]
    if rare:
        lines.append(f"- Saying anything about {', '.join(map(_code, rare))}: fewer than 10 test records each.")
    if not result["guarantees"] or result["guarantees"][0]["epsilon"] is None:
        lines.append("- Publication, where the private records must stay private: nothing is guaranteed.")
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _code(name: str) -> str:
    return f"`{_line(name).replace('`', chr(39))}`"


def _line(words: str) -> str:
    return " ".join(str(words).split())


def _three(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
