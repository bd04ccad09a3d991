"""What a server remembers of its sites' ledgers."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from fedballot.core.errors import DataError, RunError
from fedballot.privacy.ledger.heads import HEAD_KEY, TAG_KEY, Heads, heads_for, ledger_tag, place_of

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
TAG_ONE = ledger_tag(b"key", "people")


def shown(head: object, tag: object = TAG_ONE) -> dict[str, object]:
    return {HEAD_KEY: head, TAG_KEY: tag}


def test_the_last_head_takes_the_place_of_those_that_the_request_named(tmp_path: Path) -> None:
    heads = Heads(tmp_path / "made" / "heads.json")
    assert heads.read() == {}
    for head in (A, B):
        heads.show(shown(head), heads.read())
    assert Heads(heads.path).read() == {place_of(TAG_ONE): [B]}


def test_answers_to_two_requests_at_once_are_both_kept_until_a_later_one(tmp_path: Path) -> None:
    heads = Heads(tmp_path / "heads.json")
    heads.show(shown(A), {})
    known = heads.read()
    heads.show(shown(C), known)
    heads.show(shown(B), known)  # it may be older than C: nobody can tell
    assert heads.read() == {place_of(TAG_ONE): [C, B]}
    heads.show(shown(A), heads.read())
    assert heads.read() == {place_of(TAG_ONE): [A]}


def test_populations_and_keys_are_told_apart_and_the_file_tells_no_tag(tmp_path: Path) -> None:
    tags = [TAG_ONE, ledger_tag(b"key", "others"), ledger_tag(b"other key", "people")]
    heads = Heads(tmp_path / "heads.json")
    for tag, head in zip(tags, (A, B, C), strict=True):
        heads.show(shown(head, tag), heads.read())
    sent = json.dumps(heads.read())
    assert [heads_for(tag, sent) for tag in tags] == [[A], [B], [C]]
    assert not any(tag in heads.path.read_text() for tag in tags), "else a site could show a head in another's name"
    assert heads_for(ledger_tag(b"", ""), sent) == heads_for(TAG_ONE, None) == []


@pytest.mark.parametrize("metrics", [{}, shown(None), shown(3), shown("a" * 63), shown(A, None), shown("A" * 64)])
def test_what_is_no_head_is_not_kept(tmp_path: Path, metrics: dict[str, object]) -> None:
    heads = Heads(tmp_path / "heads.json")
    heads.show(metrics, {})
    assert not heads.path.exists()


@pytest.mark.parametrize("sent", ["", "no", "3", "[]", 7, b"\xff", "[" * 100_000, json.dumps({place_of(TAG_ONE): "x"})])
def test_what_a_server_sends_in_place_of_heads_is_refused(sent: object) -> None:
    with pytest.raises(DataError, match="heads"):
        heads_for(TAG_ONE, sent)
    with pytest.raises(DataError, match="heads"):
        heads_for(TAG_ONE, json.dumps({place_of(TAG_ONE): [A, 3]}))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    for content in ("{", "3", '{"a": 1}'):
        (tmp_path / "heads.json").write_text(content)
        with pytest.raises(DataError, match=r"heads\.json"):
            Heads(tmp_path / "heads.json").read()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_named_before_anybody_is_asked(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(RunError, match="cannot be written"):
            Heads(tmp_path / "heads.json").read()
    finally:
        tmp_path.chmod(0o700)


def test_runs_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    def work(number: int) -> None:
        heads = Heads(tmp_path / "heads.json")
        for step in range(10):
            heads.show(shown(f"{step:x}" * 64, ledger_tag(b"key", str(number))), heads.read())

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(Heads(tmp_path / "heads.json").read().values()) == [["9" * 64]] * 4
