"""``fedballot try``: a first run on one's own data, beside what clients reach alone and all records pooled."""

from __future__ import annotations

import dataclasses
import importlib.util
import json as json_text
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.cli.options import Assignments, Json
from fedballot.cli.verdict import balanced_accuracy, verdict
from fedballot.core import numbers
from fedballot.core.errors import SettingsError
from fedballot.core.setting import declaration, names_of
from fedballot.settings import layers

if TYPE_CHECKING:
    from fedballot.datasets.examples import Source
    from fedballot.settings.parts import CommonSettings

ALONE, POOLED = "standalone", "centralized"
POLL = "poll"  # is not run; the settings file has it for who asks next whether the public records fit
WHOM = {"client": "each client with all its data", "record": "each record"}


@dataclasses.dataclass(frozen=True)
class First:
    """What is to be run.

    Attributes
    ----------
    settings : of the method, then of both baselines, by name.
    chosen : of each of them, and of the poll, the settings that are not the declared ones.
    private, public : the sources; None: public and test records are some of the private source's.
    """

    settings: Mapping[str, CommonSettings]
    chosen: Mapping[str, Mapping[str, Any]]
    private: Source
    public: Source | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided about the files."""
        return tuple(dict.fromkeys((*self.private.notes, *(self.public.notes if self.public else ()))))


def first(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A table, an .npz file, an image folder, or a folder of them.")
    ],
    public: Annotated[
        str, typer.Option(help="Public and test records; default: a folder's public file, or some of DATA's.")
    ] = "",
    label: Annotated[str, typer.Option(help="Column of the classes; default: `label` or the like.")] = "",
    schema: Annotated[str, typer.Option(metavar="FILE", help="What `fedballot data schema` has made of DATA.")] = "",
    method: Annotated[str, typer.Option(help="A name from `fedballot methods`.")] = "pate-fl",
    set_: Assignments = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs; default: runs/try-TIME.")] = None,
    quiet: Annotated[bool, typer.Option(help="No progress.")] = False,
    json: Json = False,
) -> None:
    """A first run on your own data: sizes, clients and models that suit them, beside clients alone and pooled data."""
    from fedballot.api.experiment import carry_out, new_folder
    from fedballot.report.build import write_report
    from fedballot.runs.engine import federated_data
    from fedballot.runs.workers import Workers

    folder = out or new_folder("try")
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"--out {folder}: is not empty; name another folder")
    given = {"dataset": data, "public_dataset": public, "label": label, "schema": schema}
    plan = plan_first(
        method, {key: value for key, value in given.items() if value}, layers.parse_assignments(set_ or [])
    )
    federated_data(plan.settings[method])  # what cannot be dealt out is refused before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "settings.toml"
    config.write_text(_toml(plan.chosen), encoding="utf-8")
    if not json:
        terminal.print_table(data, ("", ""), [[key, escape(words)] for key, words in _decided(method, plan)])
        for note in plan.notes:
            terminal.out.print(f"[yellow]look:[/] {escape(note)}")
    results: dict[str, Any] = {}
    with Workers(1) as workers:
        for name, settings in plan.settings.items():
            progress = terminal.watcher(quiet=quiet)
            own = folder / name
            try:
                results[name] = carry_out(name, settings, own, resume=False, progress=progress, workers=workers)
            except KeyboardInterrupt:
                again = f"fedballot run {name} --config {shlex.quote(str(config))} --out {shlex.quote(str(own))}"
                terminal.stop(again, own)
    with suppress(SettingsError):  # of a method that reads other public data the page stands alone
        write_report(folder / method, beside=[folder / name for name in plan.settings if name != method])
    if json:
        terminal.print_json({"settings": str(config), "results": results})
    else:
        _conclude(method, results, config, plan.notes)


def plan_first(method: str, where: Mapping[str, Any], values: Mapping[str, Any]) -> First:
    """What to run on data of which nothing is said but where they are, and what is set beside.

    Raises
    ------
    SettingsError
        Data that cannot be used, or settings that cannot work.
    """
    from fedballot.datasets.own import SITES
    from fedballot.datasets.readers.files import images_at
    from fedballot.datasets.readers.folders import fitting_size
    from fedballot.datasets.readers.places import public_in
    from fedballot.methods.registry import get_method, settings_types
    from fedballot.settings.parts import CommonSettings
    from fedballot.settings.plan import first_settings, own_sources

    kinds = settings_types(get_method(method))
    names = list(dict.fromkeys((method, ALONE, POOLED)))
    given = {**where, **values}
    layers.require(given, method, kinds)
    if given["dataset"] == SITES:  # in settings that is a word for what each site holds; here it can only be a folder
        given["dataset"] = f"./{SITES}"
    if not given.get("public_dataset") and (beside := public_in(given["dataset"])):
        given["public_dataset"] = str(beside)
    if not {"schema", "image_size"} & {*given}:
        images = images_at(given["dataset"], str(given.get("label", "")))
        given |= {"image_size": size} if (size := fitting_size(images)) else {}
    reads: dict[str, type[CommonSettings]] = {"data": CommonSettings}
    spec = layers.resolve("data", reads, values=_only(given, names_of(CommonSettings)))
    private, public, more = own_sources(spec)
    torch = importlib.util.find_spec("torch") is not None
    tests = {"test_source": spec.test_source, **more}["test_source"] == "private"
    chosen_values = first_settings(private, public, kinds[method], torch=torch, private_tests=tests)
    wanted = {**chosen_values, **more, **given}
    layers_of = {POLL: _only(wanted, names_of(CommonSettings))}  # its epsilon means something else
    layers_of |= {name: _only(wanted, names_of(kinds[name])) for name in names}
    settings = {name: layers.resolve(name, kinds, values=layer) for name, layer in layers_of.items()}
    plain = {name: settings[name].to_dict() for name in layers_of}
    chosen = {name: {key: plain[name][key] for key in layers_of[name]} for name in dict.fromkeys((*names, POLL))}
    return First({name: settings[name] for name in names}, chosen, private, public)


def _only(layer: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    plain = {key.replace("-", "_"): value for key, value in layer.items()}
    return {name: plain[name] for name in names if name in plain}


def _toml(chosen: Mapping[str, Mapping[str, Any]]) -> str:
    """A settings file in which each method has a table of its own, as `fedballot run --config` reads it."""
    tables = []
    for name, layer in chosen.items():
        lines = [f"{key} = {json_text.dumps(value, ensure_ascii=False)}" for key, value in layer.items()]
        tables.append("\n".join([f"[{json_text.dumps(name)}]", *lines]))
    return "\n\n".join(tables) + "\n"


def _decided(method: str, plan: First) -> list[tuple[str, str]]:
    """What was decided about the data and the run, in a few lines."""
    import numpy as np

    from fedballot.methods.registry import get_method

    private, settings = plan.private, plan.settings[method]
    counts = np.bincount(private.train.y, minlength=len(private.classes))
    classes = [f"{name} ({count:,})" for name, count in zip(private.classes, counts.tolist(), strict=True)]
    column = private.schema.label.name if private.schema else ""
    where = f"column {column!r}: " if column else ""
    shape = private.train.x.shape[1:]
    columns = private.schema.columns if private.schema else ()
    kinds = {kind: sum(column.kind == kind for column in columns) for kind in dict.fromkeys(c.kind for c in columns)}
    holds = ", ".join(f"{count} of kind {kind}" for kind, count in kinds.items()) or "x".join(map(str, shape))
    records = (
        f"{len(private.train):,}: {settings.private_size:,} for {settings.clients} clients, {settings.public_size:,} "
        f"public, {settings.test_size:,} to test on"
    )
    if plan.public is not None and not plan.public.labelled:
        records += ", which are private ones: the public ones have no labels"
    trains, learns = getattr(settings, "client_models", ()), getattr(settings, "server_model", "")
    models = [f"clients {', '.join(trains)} in turn"] * bool(trains) + [f"server {learns}"] * bool(learns)
    rows = [("classes", where + ", ".join(classes[:20])), ("records", records), ("features", holds)]
    rows += [("models", "; ".join(models))] if models else []
    if (epsilon := getattr(settings, "epsilon", None)) is not None:
        whom = WHOM.get(getattr(settings, "unit", ""), get_method(method).protects)
        aim = f"ε = {numbers.epsilon(epsilon)}, δ = {numbers.delta(getattr(settings, 'delta', None))}"
        rows.append(("privacy aimed at", f"{aim}, for {whom}"))
    return rows


def _conclude(method: str, results: Mapping[str, Mapping[str, Any]], config: Path, notes: Sequence[str]) -> None:
    """The server beside clients alone and pooled data, and how to go on."""
    from fedballot.methods.registry import get_method

    own, alone, pooled = (results[name] for name in (method, ALONE, POOLED))
    lonely = alone["metrics"]["client_accuracy"]["mean"]
    rows = [["a client alone, on average", lonely, balanced_accuracy(alone, "client_measures")]]
    for words, result in ((f"server, {method}", own), ("server, all records pooled", pooled)):
        balanced = balanced_accuracy(result, "server_measures")
        rows.append([words, result["metrics"].get("server_accuracy"), balanced])
    shown = [[words, *map(numbers.percent, figures)] for words, *figures in rows]
    terminal.print_table("on test records", ("", "accuracy", "balanced"), shown)
    for words in verdict(own, alone, pooled, config):
        terminal.out.print(f"[yellow]look:[/] {escape(words)}", soft_wrap=True)
    for guarantee in own["guarantees"][:1]:
        terminal.out.print(escape(guarantee["sentence"]))
    for warning in (words for words in own["warnings"] if words not in notes):
        terminal.err.print(f"[yellow]warning:[/yellow] {escape(warning)}", soft_wrap=True)
    folder = config.parent / method
    again = f"fedballot run {method} --config {config} --set"
    hints = [("report", str(folder / "report.html")), ("predict", f"fedballot predict {folder} NEW_RECORDS")]
    epsilon = get_method(method).settings.__dataclass_fields__.get("epsilon")
    if epsilon is not None and declaration(epsilon).infinite:
        hints.append(("without noise, to see what it costs", f"{again} epsilon=inf"))
    for words, command in (*hints, ("with other settings", f"{again} KEY=VALUE")):
        terminal.out.print(f"{words}: {escape(command)}", soft_wrap=True)
