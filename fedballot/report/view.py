"""What the page of a run says: from result.json and the release to words, large figures and plots."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedballot.core.numbers import NBSP, count, delta, epsilon, percent, scalar, seconds, size
from fedballot.privacy.words import holds, subject, tone
from fedballot.report.plot import Plot, drawn
from fedballot.report.rounds_plot import rounds_figure
from fedballot.report.run_plots import lead_figure, per_class_figure, per_client_figure
from fedballot.runs.results import Release


@dataclass(frozen=True)
class Headline:
    """One large figure with a name above and a remark below; `tone` is "", "good", "warn" or "bad"."""

    name: str
    value: str
    remark: str
    tone: str = ""


def client_count(result: Mapping[str, Any]) -> int | None:
    """Count the clients of a run."""
    if sizes := result["data"].get("client_sizes"):
        return len(sizes)
    asked: list[int] = [one["asked"] for one in result.get("rounds", ()) if one.get("asked") is not None]
    return max(asked, default=result["clients"].get("asked"))


def answers(result: Mapping[str, Any]) -> str:
    """How many of the answers that were asked for were good, each client's in each exchange."""
    counts, exchanges, clients = result["clients"], len(result.get("rounds", ())), client_count(result)
    words = f"{count(counts['answered'])} of {count(counts['asked'])} good"
    return words + (f" ({count(clients)} client{'s' * (clients != 1)}, {exchanges} exchanges)" if exchanges > 1 else "")


def summary(result: Mapping[str, Any], release: Release) -> str:
    """Say in one plain sentence what was run."""
    data = result["data"]
    if not data:
        return ""
    polled = "poll" in result["metrics"]  # about the whole pool, and nothing is tested
    n_clients, queries = client_count(result), None if polled else release.query_indices
    who = "One client" if n_clients == 1 else f"{count(n_clients)} clients" if n_clients else "The clients"
    known = data.get("n_private") is not None  # a real federation's sites tell nobody how many they hold
    held = f"{count(data['n_private'])} private records" if known else "their own private records"
    text = f"{who} held {held} of {data.get('dataset', 'unnamed data')}" if known else f"{who} held {held}"
    public = data.get("public_dataset") or data.get("dataset")
    apart = "" if public == data.get("dataset") else f" of {public}"
    if data.get("n_public"):
        pool = f"{count(data['n_public'])} public records{apart}"
        if queries is None:
            text += f" beside {pool}"
        elif len(queries) < data["n_public"]:
            text += f" and answered for {count(len(queries))} of {pool}"
        else:
            text += f" and answered for {pool}"
    if data.get("n_test") and not polled:
        text += f"; accuracy is measured on {count(data['n_test'])} other records{apart}"
    aggregation = result.get("aggregation") or {}
    return " ".join([text + ".", *([aggregation["words"]] if "words" in aggregation else [])])


def key_settings(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of the settings that tell this run from another."""
    settings = dict(result["settings"])
    if settings.get("queries") and settings.get("public_size"):  # a round asks about no more than there are
        settings["queries"] = min(settings["queries"], settings["public_size"])
    names = [name for name in result.get("key_settings", ()) if name in settings]
    return [(name.replace("_", " "), scalar(settings[name])) for name in names]


def headlines(result: Mapping[str, Any]) -> list[Headline]:
    """Choose the large figures: accuracy, labels, ε, bytes. What was not measured is left out."""
    metrics = result["metrics"]
    found = []
    server, client = metrics.get("server_accuracy"), metrics.get("client_accuracy")
    alone = "" if not client else f"clients alone {_spread(client)}"
    if server is not None:
        tested = result["data"].get("n_test")
        remark = alone or (f"on {count(tested)} test records" if tested else "")
        found.append(Headline("Server accuracy", percent(server), remark))
    elif client:
        found.append(Headline("Clients’ accuracy", percent(client["mean"]), f"± {percent(client['std'])} over clients"))
    if metrics.get("server_auc") is not None:
        found.append(Headline("Mean AUC of the labels", f"{metrics['server_auc']:.3f}", "0.5 is chance"))
    labels = metrics.get("label_accuracy")
    if labels is not None:
        winners = metrics.get("noisy_label_accuracy")
        remark = "" if winners is None else f"the noisy winners alone {percent(winners)}"
        found.append(Headline("Released labels right", percent(labels), remark))
    found.extend(_privacy(result))
    up = result["communication"].get("bytes_up")
    if up is not None:
        n_clients = client_count(result)
        remark = f"{size(up / n_clients)} from each client" if n_clients and up else ""
        found.append(Headline("Sent by the clients", size(up), remark))
    return found


def is_seeded(result: Mapping[str, Any]) -> bool:
    """Whether any noise of the run came from a known seed, so that it protects nobody."""
    return any(str(guarantee["status"]).startswith("seeded") for guarantee in result["guarantees"])


def sentence(guarantee: Mapping[str, Any]) -> str:
    """Quote the guarantee's own sentence, or build one from its parts."""
    if guarantee.get("sentence"):
        return str(guarantee["sentence"])
    if guarantee["epsilon"] is None:
        return f"{guarantee['mechanism']}: no finite privacy guarantee ({guarantee['status']})."
    return (
        f"{guarantee['mechanism']} is (ε = {epsilon(guarantee['epsilon'])}, δ = {delta(guarantee['delta'])})-"
        f"differentially private for one {guarantee['unit']} ({guarantee['adjacency']}) towards whoever sees "
        f"{guarantee['view']}; trust: {guarantee['trust']}; status: {guarantee['status']}."
    )


def guarantee_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Complete every guarantee with its sentence, tone and the parts that it may leave out."""
    optional = {"composition": None, "accountant": None, "n": None}
    return [
        optional
        | entry
        | {
            "sentence": sentence(entry),
            "subject": subject(entry),
            "tone": tone(entry),
            "holds": holds(entry),
            "warnings": entry.get("warnings") or [],
        }
        for entry in result["guarantees"]
    ]


def accuracy_plots(result: Mapping[str, Any], *, pdf: bool = False) -> list[Plot]:
    """Draw accuracy by class and by client, where it was measured; ``pdf`` as for `drawn`."""
    metrics, classes = result["metrics"], [str(name) for name in result["classes"]]
    server, plots = metrics.get("server_accuracy"), []
    by_class = metrics.get("server_accuracy_per_class")
    if by_class and len(by_class) == len(classes) and any(value is not None for value in by_class):
        worst, name = min((value, name) for value, name in zip(by_class, classes, strict=True) if value is not None)
        caption = f"Weakest class: {name}, {percent(worst)}. The line is the accuracy over all classes."
        figure = per_class_figure(by_class, classes, server)
        plots.append(drawn("By class", figure, "class", "Server accuracy by class. " + caption, caption, pdf=pdf))
    by_client = [value for value in metrics.get("accuracy_per_client") or [] if value is not None]
    if by_client:
        median = percent(float(np.median(by_client)))
        caption = f"From {percent(min(by_client))} to {percent(max(by_client))}, median {median}."
        if server is not None:
            better = sum(value < server for value in by_client)
            caption += f" The server does better than {count(better)} of {count(len(by_client))} clients."
        figure, alt = per_client_figure(by_client, server), "Accuracy of each client's own model. " + caption
        plots.append(drawn("By client", figure, "client", alt, caption, pdf=pdf))
    history = [entry["metrics"].get("accuracy_per_client") for entry in result["rounds"]]
    if len(history) > 1 and all(values and any(value is not None for value in values) for values in history):
        means = [float(np.mean([value for value in values if value is not None])) for values in history]
        caption = f"Mean {percent(means[0])} after the first round, {percent(means[-1])} after the last."
        alt = "Accuracy of the clients' models by round. " + caption
        plots.append(drawn("By round", rounds_figure(history), "rounds", alt, caption, pdf=pdf))
    steps = [entry["metrics"].get("server_accuracy") for entry in result["rounds"]]
    if len(steps) > 1 and None not in steps:
        caption = f"{percent(steps[0])} after the first round, {percent(steps[-1])} after the last."
        figure = rounds_figure([[step] for step in steps], "server")
        alt = "Accuracy of the server's model by round. " + caption
        plots.append(drawn("The server by round", figure, "server-rounds", alt, caption, pdf=pdf))
    return plots


def lead_plot(result: Mapping[str, Any], release: Release, *, pdf: bool = False) -> Plot | None:
    """Draw by how much each released label led in the noisy votes."""
    leads, labels, truth = release.leads, release.labels, release.true_labels
    if leads is None or labels is None or not len(leads):
        return None
    known = np.zeros(len(leads), bool) if truth is None else truth >= 0
    correct = None
    caption = f"{count(len(leads))} queries, median lead {float(np.median(leads)):.3g} votes."
    if truth is not None and known.all():
        correct = labels == truth
        caption += f" Of the labels, {count(int((~correct).sum()))} are wrong."
    lost = int((leads < 0).sum())
    if lost:
        caption += f" Left of zero: {count(lost)} labels that the server chose against the noisy votes."
    sigma = result["metrics"].get("released_noise_sigma")
    figure, alt = lead_figure(leads, correct, sigma), "Histogram of vote margins. " + caption
    return drawn("How clear the votes were", figure, "lead", alt, caption, pdf=pdf)


def time_parts(result: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    """Split the wall time: (name, written, share of the whole)."""
    timing = result["timing"]
    wall = timing.get("wall_s")
    if not wall:
        return []
    rounds = sum(entry.get("wall_s") or 0.0 for entry in result["rounds"])
    parts = [("start", timing.get("startup_s")), ("rounds", rounds), ("the server’s training", timing.get("distill_s"))]
    known = [(name, float(value)) for name, value in parts if value]
    rest = wall - sum(value for _, value in known)
    if rest > 0.005 * wall:
        known.append(("the rest", rest))
    whole = max(wall, sum(value for _, value in known))
    return [(name, seconds(value), value / whole) for name, value in known]


def _privacy(result: Mapping[str, Any]) -> list[Headline]:
    guarantees = result["guarantees"]
    if not guarantees:
        return [Headline("Privacy", "none", "no mechanism was applied", "bad")] if result["status"] == "done" else []
    first = guarantees[0]
    if first["epsilon"] is None:
        claim = "" if first["status"] == "none" else f" ({first['status']})"
        return [Headline("Privacy", "none", f"no finite ε{claim}", "bad")]
    if is_seeded(result):
        remark = f"the noise was seeded; with secret noise ε{NBSP}={NBSP}{epsilon(first['epsilon'])}"
        return [Headline("Privacy", "none", remark, "bad")]
    rest = f"for one {first['unit']} ({first['adjacency']}), seen: {first['view']}, trust: {first['trust']}; "
    rest += first["status"]
    if first.get("sampled") and first["epsilon"] == 0:
        remark = f"δ, the probability that a record was drawn; ε{NBSP}={NBSP}0; {rest}"
        return [Headline("Used without protection", delta(first["delta"]), remark, tone(first))]
    remark = f"δ{NBSP}={NBSP}{delta(first['delta'])}, {rest}"
    return [Headline("Privacy loss ε", epsilon(first["epsilon"]), remark, tone(first))]


def _spread(value: Mapping[str, float]) -> str:
    return f"{percent(value['mean'])} ± {100 * value['std']:.1f}"
