"""``fedballot predict`` and ``fedballot export``: what a run's model says of new records, and the model as a file."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedballot.core.errors import SettingsError

Force = Annotated[bool, typer.Option(help="Replace what is there.")]


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or a file of `fedballot export`.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Records like the run's own: a file, or a folder of images.")
    ],
    out: Annotated[Path | None, typer.Option(help="CSV file to write; default: stdout.")] = None,
    force: Force = False,
) -> None:
    """Class words and probabilities for new records, as CSV: one line for each record, in their order.

    Of a folder of images, each line begins with the image's place in it.
    """
    if out is not None and out.exists() and not force:
        raise SettingsError(f"--out {out}: is there already; name another file, or add --force")
    from fedballot.core.files import check_folder, write_atomic
    from fedballot.model import load

    if out is not None:
        check_folder(out)
    model = load(run)
    places = model.read.names(file)
    said = model.predict_proba(model.read(file))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*["file"][: len(places)], *([] if model.multi_label else ["predicted"]), *model.classes])
    for number, row in enumerate(said):
        word = [] if model.multi_label else [model.classes[int(row.argmax())]]
        lines.writerow([*places[number : number + 1], *word, *(f"{value:.6g}" for value in row)])
    if out is None:
        sys.stdout.write(text.getvalue())
    else:
        write_atomic(out, lambda stream: stream.write(text.getvalue().encode()))


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    out: Annotated[Path, typer.Option(help="File to write; the model's card goes beside it, as OUT.md.")],
    format: Annotated[str, typer.Option(help="skops (scikit-learn), torch (safetensors) or onnx.")] = "skops",
    force: Force = False,
) -> None:
    """A run's model as one file, with its class words and a card."""
    from fedballot.model import export as exporting

    if format not in exporting.FORMATS:
        raise SettingsError(f"--format {format}: allowed are {', '.join(exporting.FORMATS)}")
    beside = exporting.export(run, format, out, force=force)
    print(out)
    print(beside)
