"""What a run folder must hold, and what is said when it does not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.runs.results import load_release, load_result


def test_reads_what_was_written(write_run: Any, result: dict[str, Any]) -> None:
    assert load_result(write_run()) == result


def test_missing_folder_and_foreign_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.*not a folder"):
        load_result(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no result\.json"):
        load_result(tmp_path)


def test_truncated_file_says_where_and_how_to_mend_it(write_run: Any) -> None:
    folder = write_run()
    text = (folder / "result.json").read_text()
    for length in (0, 1, len(text) // 2, len(text) - 1):
        (folder / "result.json").write_text(text[:length])
        with pytest.raises(DataError, match=r"result\.json: not complete JSON.*--resume"):
            load_result(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "expected an object, found list"),
        ("{}", "no key 'schema'"),
        ('{"schema": "9"}', "schema '9'"),
        ('{"schema": 1}', "schema 1"),
        ('{"schema": "1", "x": NaN}', "has NaN"),
        ('{"schema": "1", "x": -Infinity}', "has -Infinity"),
        ("[" * 200_000, "nested too deeply|not complete JSON"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(DataError, match=words):
        load_result(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(DataError, match="cannot be read"):
        load_result(tmp_path)


@pytest.mark.parametrize(
    "key", ["status", "method", "settings", "seed", "metrics", "rounds", "guarantees", "timing", "data"]
)
def test_required_keys(write_run: Any, key: str) -> None:
    folder = write_run()
    document = json.loads((folder / "result.json").read_text())
    del document[key]
    (folder / "result.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=f"required key '{key}' is missing"):
        load_result(folder)


def test_a_running_result_may_lack_what_is_not_known_yet(tmp_path: Path) -> None:
    document = {"schema": "1", "status": "running", "method": "pate-fl", "settings": {}, "seed": 0}
    (tmp_path / "result.json").write_text(json.dumps(document))
    assert load_result(tmp_path) == document


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "finished"}, "status 'finished'; allowed are done, running, stopped, failed"),
        ({"seed": "0"}, "'seed' is str, expected int"),
        ({"seed": True}, "'seed' is bool"),
        ({"metrics": []}, "'metrics' is list, expected dict"),
        ({"metrics": {"server_accuracy": 97.1}}, r"metrics\.server_accuracy holds 97\.1"),
        ({"metrics": {"label_accuracy": "high"}}, r"metrics\.label_accuracy holds 'high'"),
        ({"metrics": {"accuracy_per_client": [0.5, True]}}, "accuracy_per_client holds True"),
        ({"guarantees": [{"epsilon": 1.0}]}, r"guarantees\[0\] lacks mechanism"),
        ({"guarantees": ["private"]}, r"guarantees\[0\] is str"),
    ],
)
def test_wrong_values_are_named(write_run: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        load_result(write_run(**changes))


@pytest.mark.parametrize(("key", "value"), [("epsilon", -0.1), ("epsilon", "4.3"), ("delta", True)])
def test_a_guarantee_holds_numbers(write_run: Any, result: dict[str, Any], key: str, value: Any) -> None:
    bad = result["guarantees"][0] | {key: value}
    with pytest.raises(DataError, match=rf"guarantees\[0\]: {key}"):
        load_result(write_run(guarantees=[bad]))


def test_release_is_optional_and_unknown_arrays_are_left_out(write_run: Any) -> None:
    assert load_release(write_run("none", arrays=None)).labels is None
    folder = write_run("other", arrays={"labels": np.arange(3), "something": np.ones(2)})
    release = load_release(folder)
    assert release.labels is not None and release.labels.tolist() == [0, 1, 2]
    assert release.leads is None


def test_leads_are_votes_for_the_label_less_the_best_other(write_run: Any) -> None:
    arrays = {"histogram": np.array([[5, 2, 1], [5, 2, 1], [3, 3, 0]]), "labels": np.array([0, 1, 0])}
    leads = load_release(write_run(arrays=arrays)).leads
    assert leads is not None and leads.tolist() == [3, -3, 0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": np.zeros(499, np.int64)}, "differ in the number of queries"),
        ({"labels": np.full(500, 10)}, r"labels must lie in 0\.\.9"),
        ({"histogram": np.full((500, 10), np.nan)}, "histogram holds values that are not finite"),
        ({"margins": np.zeros((500, 2))}, "margins has shape"),
        ({"images": np.zeros((48, 28, 28))}, "expected uint8"),
        ({"images": np.zeros((48, 28, 28, 4), np.uint8)}, "expected uint8"),
        ({"image_rows": np.full(48, 500)}, r"0\.\.499"),
        ({"image_rows": np.arange(47)}, "one position for each of the 48 images"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    write_run: Any, release: dict[str, Any], change: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        load_release(write_run(arrays=release | change))


def test_objects_and_damage_are_refused(write_run: Any) -> None:
    folder = write_run(arrays={"labels": np.array([{}], dtype=object)})
    with pytest.raises(DataError, match=r"release\.npz"):
        load_release(folder)
    (folder / "release.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match=r"release\.npz"):
        load_release(folder)
