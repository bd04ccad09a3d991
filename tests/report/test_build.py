"""The page of a run: what it says, that it says so for every kind of run, and that it stands alone."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.core.metrics import of_scores
from fedballot.core.numbers import NBSP
from fedballot.privacy.guarantee import SELF, Guarantee
from fedballot.report.build import write_report
from fedballot.report.compare_page import write_compare
from fedballot.report.view import answers
from tests.test_words import FALSE

Write = Callable[..., Path]
SECTIONS = {"result", "guarantee", "accuracy", "votes", "traffic", "time", "details"}


class Page(HTMLParser):
    """Ids, references, alternative texts, and whether every element is closed."""

    VOID = frozenset({"meta", "link", "img", "br", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [values["id"]] if values.get("id") else []  # type: ignore[list-item]
        self.references += [
            value or "" for name, value in attrs if re.fullmatch(r"(xlink:)?href|src(set)?|action|data", name)
        ]
        self.images += [values] if tag == "img" else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


def read(path: Path) -> tuple[str, Page]:
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def words(text: str) -> str:
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", text, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split()).replace(NBSP, " ")


def test_a_finished_run_shows_every_section(write_run: Write, result: dict[str, Any]) -> None:
    folder = write_run("my-run")
    text, page = read(write_report(folder))
    assert set(page.ids) >= SECTIONS
    said = words(text)
    assert "97.1 %" in said and "980 kB" in said and "Privacy loss ε 4.3" in said.replace(" ", " ")
    assert result["guarantees"][0]["sentence"] in said
    assert "Holds for one record of one client" in said
    assert "rejected: not finite" in said and "3 of 5,000 counts are NaN" in said
    assert "answered for 500 of 1,000 public records" in said
    assert "classes_per_client" in said and "flwr" in said and "my-run" in said
    assert not page.open
    assert not list(folder.glob(".report*"))


def test_the_page_stands_alone(write_run: Write) -> None:
    text, page = read(write_report(write_run()))
    assert all(reference.startswith(("data:", "#")) for reference in page.references)
    assert "http:" not in text and "https:" not in text and "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert "script" not in page.tags and not re.search(r"\son\w+=", text)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert len(text) < 500_000


def test_the_page_is_accessible(write_run: Write) -> None:
    text, page = read(write_report(write_run()))
    assert len(page.images) == 48 and all(image["alt"] for image in page.images)
    assert len(page.ids) == len(set(page.ids))
    assert text.count('role="img" aria-label="') == 3
    assert '<html lang="en">' in text and page.tags.count("h1") == 1


def test_wrong_labels_are_marked_with_the_truth(write_run: Write, release: dict[str, Any]) -> None:
    text = write_report(write_run()).read_text()
    shown = release["image_rows"]
    wrong = int((release["labels"][shown] != release["true_labels"][shown]).sum())
    assert wrong > 0 and text.count('<li class="wrong">') == wrong
    first = shown[release["labels"][shown] != release["true_labels"][shown]][0]
    label, truth = release["labels"][first], release["true_labels"][first]
    assert f'alt="Public image of query {first + 1}, released as {label}, in truth {truth}"' in text


def test_unknown_truth_marks_nothing(write_run: Write, release: dict[str, Any]) -> None:
    text = write_report(write_run(arrays=release | {"true_labels": np.full(500, -1)})).read_text()
    assert 'class="wrong"' not in text and "label right" not in text and "in truth" not in text


def test_colour_images_are_shown(write_run: Write, release: dict[str, Any]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (48, 32, 32, 3), dtype=np.uint8)
    _, page = read(write_report(write_run(arrays=release | {"images": images})))
    assert len(page.images) == 48


def test_a_seeded_run_is_stamped_before_anything_else(write_run: Write, result: dict[str, Any]) -> None:
    seeded = result["guarantees"][0] | {"status": "seeded"}
    text = words(write_report(write_run(guarantees=[seeded])).read_text())
    assert text.index("Seeded: not private") < text.index("pate-fl", text.index("seed 0"))
    assert "Privacy none the noise was seeded; with secret noise ε = 4.3" in text
    clean = words(write_report(write_run("clean")).read_text())
    assert "Seeded" not in clean


def test_no_finite_epsilon_is_said_in_the_large_figures(write_run: Write, result: dict[str, Any]) -> None:
    none = result["guarantees"][0] | {"epsilon": None, "status": "none", "sentence": ""}
    text = words(write_report(write_run(guarantees=[none])).read_text())
    assert "Privacy none no finite ε" in text and "no finite privacy guarantee" in text


BARE = Guarantee(
    mechanism="Predictions without noise or sampling",
    unit="record",
    adjacency="replace-one",
    epsilon=float("inf"),
    delta=0.0,
    view="server's view",
    trust=SELF,
    status="none",
    accountant="none",
)
NOISY = replace(
    BARE, mechanism="Noisy votes", unit="client", adjacency="zero-out", epsilon=4.0, delta=1e-3, status="proved", n=100
)


def guarantee_part(page: str) -> str:
    """The section about privacy, tags and all."""
    found = re.search(r'<section id="guarantee">.*?</section>', page, re.S)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("what", [BARE, replace(NOISY, status="seeded")], ids=["none", "seeded"])
def test_a_run_without_a_guarantee_never_says_that_anything_is_protected(write_run: Write, what: Guarantee) -> None:
    part = guarantee_part(write_report(write_run(guarantees=[what.worded()], method="fedmd")).read_text())
    said = words(part)
    assert said.startswith("Nothing is guaranteed") and "None of it protects anybody" in said
    assert re.findall(r'data-label="Protects">(.*?)<', part) == ["nobody"]
    assert "are protected" not in said and "one client" not in said and "one record replace" not in said
    assert "green" not in said.lower() and 'class="badge bad"' in part


@pytest.mark.parametrize(
    ("change", "colour"),
    [({"epsilon": 0.9}, "good"), ({}, "warn"), ({"epsilon": 100.0}, "bad"), ({"epsilon": 0.9, "delta": 0.01}, "warn")],
)
def test_the_colour_of_a_proved_guarantee_follows_its_figures(
    write_run: Write, change: dict[str, float], colour: str
) -> None:
    text = write_report(write_run(guarantees=[replace(NOISY, **change).worded()])).read_text()  # type: ignore[arg-type]
    assert f'<span class="badge {colour}">proved</span>' in text and f'<blockquote class="{colour}">' in text
    assert f'<div class="headline {colour}"><span>Privacy loss ε' in text


def test_the_large_figure_says_all_that_it_depends_on(write_run: Write) -> None:
    said = words(write_report(write_run(guarantees=[NOISY.worded()])).read_text())
    assert "δ = 0.001, for one client (zero-out), seen: server's view, trust: self; proved" in said


def test_a_sample_is_shown_by_its_delta(write_run: Write) -> None:
    drawn = replace(BARE, adjacency="add-remove", epsilon=0.0, delta=0.0583, status="proved", n=300, sampled=True)
    said = words(write_report(write_run(guarantees=[drawn.worded()])).read_text())
    assert "Used without protection 0.0583 δ, the probability that a record was drawn; ε = 0" in said


def test_a_record_above_its_client_is_explained(write_run: Write) -> None:
    record = replace(NOISY, unit="record", adjacency="replace-one", epsilon=6.22, n=3500)
    both = words(write_report(write_run("both", guarantees=[NOISY.worded(), record.worded()])).read_text())
    assert "to replace is to blank one and put in another" in both
    assert "put in another" not in words(write_report(write_run("one", guarantees=[NOISY.worded()])).read_text())


def test_a_number_that_is_not_known_stands_on_the_page(write_run: Write) -> None:
    said = words(write_report(write_run(guarantees=[replace(NOISY, n=None).worded()])).read_text())
    assert "n not known" in said and "How many clients there are is not known here" in said


def test_pages_take_no_delta_for_the_probability_that_epsilon_fails(write_run: Write) -> None:
    every = [
        replace(NOISY, status=status, delta=delta, adjacency=adjacency)
        for status in ("proved", "paper's claim", "seeded", "none")
        for delta in (0.0, 1e-3)
        for adjacency in ("add-remove", "replace-one", "zero-out")
    ]
    page = write_run(guarantees=[one.worded() for one in every])
    side = write_compare([page], page / "compare.html")
    for text in (write_report(page).read_text(), side.read_text()):
        assert FALSE.search(words(text)) is None


def test_a_baseline_without_release_or_server(write_run: Write, result: dict[str, Any]) -> None:
    metrics = {"server_accuracy": None, "label_accuracy": None, "client_accuracy": {"mean": 0.55, "std": 0.03}}
    folder = write_run(arrays=None, method="standalone", guarantees=[], metrics=metrics)
    text, page = read(write_report(folder))
    assert "votes" not in page.ids and "accuracy" not in page.ids
    assert "this run guarantees nothing" in words(text) and "55.0 %" in words(text)


@pytest.mark.parametrize("status", ["running", "failed"])
def test_an_unfinished_run_says_so(tmp_path: Path, status: str) -> None:
    document = {"schema": "1", "status": status, "method": "pate-fl", "settings": {"clients": 100}, "seed": 3}
    document["error"] = "71 of 100 <clients> answered"
    (tmp_path / "result.json").write_text(json.dumps(document))
    text, page = read(write_report(tmp_path))
    said = words(text)
    assert ("This run failed" in said) == (status == "failed")
    assert ("This run is not finished" in said) == (status == "running")
    assert ("71 of 100 <clients> answered" in said) == (status == "failed")
    assert "guarantee" not in page.ids and "clients 100" in said


def test_a_stale_release_beside_an_unfinished_run_is_left_out(write_run: Write) -> None:
    _, page = read(write_report(write_run(status="failed", error="stopped")))
    assert "votes" not in page.ids and not page.images


def test_what_comes_from_files_cannot_become_markup(write_run: Write, result: dict[str, Any]) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x>"
    folder = write_run(
        classes=[evil] * 10,
        method=evil,
        settings={evil: evil, "student": evil},
        clients={"asked": 1, "answered": 0, "rejected": {evil: 1}},
        guarantees=[result["guarantees"][0] | {"sentence": evil, "warnings": [evil], "unit": evil}],
    )
    text, page = read(write_report(folder))
    assert "script" not in page.tags and "<script" not in text
    assert all(reference.startswith(("data:", "#")) for reference in page.references)


def test_a_thousand_clients_and_a_hundred_classes(write_run: Write, result: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    metrics = result["metrics"] | {
        "accuracy_per_client": rng.random(1000).tolist(),
        "server_accuracy_per_class": [None, *rng.random(99).tolist()],
    }
    path = write_report(write_run(arrays=None, classes=[f"class {i}" for i in range(100)], metrics=metrics))
    assert path.stat().st_size < 800_000 and 'aria-label="Server accuracy by class' in path.read_text()


def test_many_rounds_become_a_table(write_run: Write, result: dict[str, Any]) -> None:
    rounds = [result["rounds"][0] | {"round": i, "metrics": {"loss": i / 10}} for i in range(1, 21)]
    said = words(write_report(write_run(rounds=rounds)).read_text())
    assert "20 rounds" in said and "loss 1.7" in said


def test_answers_are_counted_and_not_clients(write_run: Write, result: dict[str, Any]) -> None:
    assert answers(result) == "98 of 100 good"
    rounds = [{**result["rounds"][0], "round": number, "asked": 10, "answered": 10} for number in range(1, 5)]
    several = {**result, "rounds": rounds, "clients": {"asked": 40, "answered": 39, "rejected": {}}}
    several["data"] = {**result["data"], "client_sizes": [7] * 10}
    assert answers(several) == "39 of 40 good (10 clients, 4 exchanges)"
    assert answers({**several, "data": {}}) == "39 of 40 good (10 clients, 4 exchanges)"
    page = write_report(write_run(rounds=rounds)).read_text()
    assert "Answers, over all 4 exchanges" in page and "answered well" not in page


def test_a_damaged_run_is_refused_and_leaves_no_page(write_run: Write) -> None:
    folder = write_run()
    (folder / "result.json").write_text('{"schema": "1", "status"')
    with pytest.raises(DataError):
        write_report(folder)
    assert not (folder / "report.html").exists()


def test_measures_by_class_are_a_table_and_two_figures(write_run: Write, result: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(9, size=400)  # no test record is of the tenth class
    scores = np.eye(10)[truth] * 2 + rng.normal(size=(400, 10))
    scores[:, 9] -= 9
    measures = of_scores(truth, scores)
    text = write_report(write_run(metrics=result["metrics"] | {"server_measures": measures})).read_text()
    page = Page(text)
    assert not page.open and len(page.ids) == len(set(page.ids))
    assert "What is taken for what" in text and "How sure it may be" in text and "Expected calibration error" in text
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', text[text.index("model by class") :])[:11]
    cells = [re.findall(r">([^<]*)</td>", row) for _, row in rows]
    assert cells[9] == ["0", "–", "–", "–", "–"] and rows[10][0] == "mean"
    assert [int(row[0]) for row in cells[:9]] == measures["support"][:9]
    assert cells[10][4] == f"{measures['auc']:.3f}"


def test_what_makes_a_result_doubtful_stands_above_the_guarantee(write_run: Write) -> None:
    text = write_report(write_run(warnings=["the server's <b>model</b> is worse", "Said with a stop."])).read_text()
    assert "The server&#39;s &lt;b&gt;model&lt;/b&gt; is worse.</p>" in text and "Said with a stop.</p>" in text
    assert text.index('id="doubts"') < text.index('id="guarantee"')
    assert 'id="doubts"' not in write_report(write_run("calm", warnings=[])).read_text()


@pytest.mark.parametrize("count", [2, 41, 100])
def test_any_number_of_classes_is_measured(write_run: Write, result: dict[str, Any], count: int) -> None:
    truth = np.arange(300) % count
    measures = of_scores(truth, np.eye(count)[truth])
    changes = {
        "metrics": {"server_accuracy": 1.0, "server_measures": measures},
        "classes": [f"c{n}" for n in range(count)],
    }
    text = write_report(write_run(arrays=None, **changes)).read_text()
    assert ("What is taken for what" in text) == (count <= 40) and "c1" in text
    assert len(text) < 600_000
