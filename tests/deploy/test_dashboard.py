"""Pages of a site and a server: what they show, to whom."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from fedballot.core.errors import RunError, SettingsError
from fedballot.deploy import approval, running
from fedballot.deploy.addresses import free_port
from fedballot.deploy.dashboard import Place, checked_place, server_app, site_app
from fedballot.deploy.members import MemberStatus, statuses
from fedballot.deploy.server import ServerFolder, init_server
from fedballot.deploy.status import Stage, stage_of
from tests.deploy.harness import edit, write_data
from tests.deploy.test_ledger_site import ask, make_site, settings_for

LOCAL = Place("127.0.0.1:8091")


def browser(app: FastAPI, host: str = "127.0.0.1:8091") -> TestClient:
    return TestClient(app, base_url=f"http://{host}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site that was charged once, and at which a second run waits, whose purpose is no page's friend."""
    monkeypatch.setattr(approval, "LOOK_S", 0.05)
    (tmp_path / "fingerprint").write_text(write_data(tmp_path))
    site = make_site(tmp_path)
    ask(site)
    edit(site, approve="by-hand")
    ask(site, "q/1", settings_for(site, round_timeout_s=1))
    return site


def test_a_site_s_page_shows_budget_charges_and_what_waits(site: Path) -> None:
    client = browser(site_app(site, LOCAL))
    page = client.get("/")
    assert page.status_code == 200 and page.headers["Cache-Control"] == "no-store"
    for words in ("1 run waits", "fedballot site approve", "of 100", "pate-fl", "<svg", "charged"):
        assert words in page.text
    assert client.get("/health").text == "ok"
    told = client.get("/status.json").json()
    assert told["limit"] == 100 and 0 < told["spent"] < 40 and len(told["entries"]) == 4
    lines = client.get("/metrics").text.splitlines()
    assert 'fedballot_charges{unit="client"} 1.0' in lines
    assert any(line.startswith('fedballot_epsilon_spent{unit="client"} ') for line in lines)


def test_words_of_the_server_cannot_become_part_of_the_page(site: Path) -> None:
    (record,) = (path for path in (site.parent / "state" / "asked").glob("*.json") if '"q"' in path.read_text())
    values = json.loads(record.read_text())
    record.write_text(json.dumps({**values, "purpose": "<script>alert(1)</script>"}))
    page = browser(site_app(site, LOCAL)).get("/").text
    assert "&lt;script&gt;" in page and "<script" not in page


def test_a_site_whose_ledger_is_gone_says_so(site: Path) -> None:
    shutil.rmtree(site.parent / "ledger")
    client = browser(site_app(site, LOCAL))
    assert client.get("/health").status_code == 503 and "no ledger is here" in client.get("/health").text
    assert "The ledger cannot be used" in client.get("/").text
    assert "fedballot_ledger_usable 0.0" in client.get("/metrics").text


def test_a_password_is_asked_for_everywhere_but_of_probes(site: Path) -> None:
    client, right = browser(site_app(site, Place("127.0.0.1:1", "correct horse battery"))), "correct horse battery"
    for path in ("/", "/metrics", "/status.json"):
        assert client.get(path).status_code == 401
        assert client.get(path, auth=("", "wrong")).status_code == 401
        assert client.get(path, auth=("anybody", right)).status_code == 200
    assert client.get("/health").status_code == 200
    shutil.rmtree(site.parent / "ledger")
    client = browser(site_app(site, Place("127.0.0.1:1", right)))
    for auth in (None, ("", "wrong")):
        told = client.get("/health", auth=auth)
        assert (told.status_code, told.text) == (503, "not well")
    assert "no ledger is here" in client.get("/health", auth=("", right)).text


def test_another_name_in_the_request_is_refused(site: Path) -> None:
    """A page elsewhere whose name leads here (DNS rebinding) must not read this one."""
    for path in ("/", "/status.json", "/metrics"):
        assert browser(site_app(site, LOCAL), "evil.example").get(path).status_code == 400
        assert browser(site_app(site, LOCAL), "localhost:8091").get(path).status_code == 200


def test_a_server_that_is_down_is_shown_as_down(tmp_path: Path) -> None:
    server = init_server(tmp_path / "server", ("localhost",), control=f"127.0.0.1:{free_port()}")
    running.note(server, "17", "pate-fl", tmp_path / "run", 1.0)
    client = browser(server_app(server, LOCAL))
    page = client.get("/")
    assert page.status_code == 200 and "The server does not answer" in page.text and "server.crt" in page.text
    assert client.get("/health").status_code == 503
    assert "fedballot_server_up 0.0" in client.get("/metrics").text
    with pytest.raises(SettingsError, match="no server's folder"):
        browser(server_app(ServerFolder(tmp_path / "none"), LOCAL)).get("/")


def test_what_others_could_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("correct horse battery\n")
    secret.chmod(0o600)
    port = free_port()
    assert checked_place(f"127.0.0.1:{port}", None, None, None).password is None
    with pytest.raises(SettingsError, match="others could read it"):
        checked_place(f"0.0.0.0:{port}", None, None, None)
    with pytest.raises(SettingsError, match="others could read it"):
        checked_place(f"0.0.0.0:{port}", secret, None, None)
    with pytest.raises(SettingsError, match="go together"):
        checked_place(f"0.0.0.0:{port}", secret, secret, None)
    assert checked_place(f"0.0.0.0:{port}", secret, secret, secret).password == "correct horse battery"
    secret.write_text("short")
    with pytest.raises(SettingsError, match="holds 5 characters; at least 12"):
        checked_place(f"127.0.0.1:{port}", secret, None, None)
    secret.chmod(0o644)
    with pytest.raises(SettingsError, match="mode 644"):
        checked_place(f"127.0.0.1:{port}", secret, None, None)
    with pytest.raises(RunError, match="cannot listen there"):
        checked_place("192.0.2.1:80", None, None, None)


def test_a_run_s_stage_is_read_from_its_progress(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    assert stage_of(path) == Stage("", 0, 0, None)
    lines = ['{"label": "round 1: clients", "total": 4, "at": 100.0}', '{"steps": 1}', '{"steps": 1}', '{"ste']
    path.write_text("\n".join(lines))
    assert stage_of(path, now=130.0) == Stage("round 1: clients", 2, 4, 30.0)
    path.write_text('{"label": "training", "total": 9, "at": 100.0}\n')
    assert stage_of(path, now=130.0) == Stage("training", 0, 9, None)


def test_nodes_that_are_gone_or_unknown_have_words_of_their_own() -> None:
    node = {"node-id": "5", "status": "online", "online-at": "2026-01-01", "offline-at": "N/A"}
    gone = {**node, "node-id": "6", "status": "unregistered"}
    assert statuses({}, [node, gone]) == [MemberStatus("?", "5", "", "online", "2026-01-01")]
