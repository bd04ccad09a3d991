"""docker/kubernetes: objects that Kubernetes takes, with commands, ports and paths that exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import typer
import yaml

from fedballot import __version__
from fedballot.cli.main import app
from fedballot.deploy.server import FLEET_PORT
from fedballot.deploy.site_file import read_site

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "kubernetes"
PAGE = ROOT / "docs" / "kubernetes.md"
VERSIONS = ("1.29", "1.37")  # ReadWriteOncePod is stable from the first on
PORTS = {"server": 8090, "site": 8091}


def render(folder: Path) -> list[dict[str, Any]]:
    """The objects of a kustomization, as its files have them."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    objects = [yaml.safe_load((folder / name).read_text()) for name in kustomization["resources"]]
    for one in kustomization.get("configMapGenerator", []):
        data = {name: (folder / name).read_text() for name in one["files"]}
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": one["name"]}, "data": data})
    return objects


def find(who: str, kind: str) -> dict[str, Any]:
    (found,) = [one for one in render(FOLDER / who) if one["kind"] == kind]
    return found


def pod(who: str) -> dict[str, Any]:
    return dict(find(who, "StatefulSet")["spec"]["template"]["spec"])


def containers(who: str) -> list[dict[str, Any]]:
    return [*pod(who)["initContainers"], *pod(who)["containers"]]


def lines(words: list[str]) -> Iterator[list[str]]:
    """Commands of fedballot in a container's command or its script."""
    if words[0] == "fedballot":
        yield words
    elif words[:2] == ["sh", "-euc"]:
        subprocess.run(["sh", "-n", "-c", words[2]], check=True)
        for line in words[2].splitlines():
            if line.strip().startswith("fedballot "):
                yield shlex.split(line)


def parse(words: list[str]) -> click.Context:
    """The context of a command; click refuses commands, options and arguments that it does not know."""
    command: Any = typer.main.get_command(app)
    context = None
    name, rest = words[0], words[1:]
    while True:
        context = command.make_context(name, rest, parent=context)
        if not isinstance(command, click.Group):
            return context
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("who", PORTS)
def test_the_schemas_of_kubernetes_take_every_object(who: str, version: str) -> None:
    for one in render(FOLDER / who):
        kubernetes_validate.validate(one, version, strict=True)
    if who == "site":
        kubernetes_validate.validate(yaml.safe_load((FOLDER / "load.yaml").read_text()), version, strict=True)


def test_the_schemas_notice_a_wrong_word() -> None:
    broken = find("server", "StatefulSet")
    broken["spec"]["template"]["spec"]["containers"][0]["readOnlyRootFilesystem"] = True  # one level too high
    with pytest.raises(kubernetes_validate.ValidationError, match="readOnlyRootFilesystem"):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl, whose kustomize is the real one")
@pytest.mark.parametrize("who", PORTS)
def test_kustomize_makes_the_same_objects(who: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "kubernetes")
    mine = tmp_path / "kubernetes" / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(f"resources: [../{who}]\ncomponents: [../monitor]\nnamespace: another\n")
    done = subprocess.run(["kubectl", "kustomize", mine], check=True, capture_output=True, text=True, timeout=60)
    objects = list(yaml.safe_load_all(done.stdout))
    assert sorted(one["kind"] for one in objects) == sorted([*(o["kind"] for o in render(FOLDER / who)), "PodMonitor"])
    assert {one["metadata"].get("namespace", one["metadata"]["name"]) for one in objects} == {"another"}
    for one in objects:
        if one["kind"] != "PodMonitor":
            kubernetes_validate.validate(one, VERSIONS[-1], strict=True)
    (stateful,) = [one for one in objects if one["kind"] == "StatefulSet"]
    images = {one["image"] for one in stateful["spec"]["template"]["spec"]["containers"]}
    assert images == {f"registry.example.org/fedballot:{__version__}"}


@pytest.mark.parametrize("who", PORTS)
def test_every_command_and_option_exists_and_every_path_is_mounted(who: str) -> None:
    seen = []
    for container in containers(who):
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        for words in lines(container["command"]):
            context = parse(words)
            seen.append(context.command_path.partition(" ")[2])
            for value in context.params.values():
                if isinstance(value, Path) and value.is_absolute():
                    assert any(value.is_relative_to(mount) for mount in mounts), f"{value} is on no volume"
    assert seen == (["server init"] if who == "server" else []) + [f"{who} start", f"{who} dashboard"]


@pytest.mark.parametrize("words", ["server begin DIR", "site start x.toml --log-form json", "server start"])
def test_what_the_command_line_does_not_know_is_noticed(words: str) -> None:
    with pytest.raises(click.UsageError):
        parse(["fedballot", *words.split()])


@pytest.mark.parametrize("who", PORTS)
def test_ports_are_the_same_wherever_they_stand(who: str) -> None:
    declared = {one["name"]: one["containerPort"] for part in pod(who)["containers"] for one in part.get("ports", [])}
    assert declared == ({"fleet": FLEET_PORT} if who == "server" else {}) | {"pages": PORTS[who]}
    for container in pod(who)["containers"]:
        params = parse(container["command"]).params
        for option, port in (("fleet", "fleet"), ("listen", "pages")):
            if option in params:
                assert int(params[option].rpartition(":")[2]) == declared[port]
    (health,) = [part["readinessProbe"]["httpGet"] for part in pod(who)["containers"] if "readinessProbe" in part]
    assert health == {"path": "/health", "port": PORTS[who], "scheme": "HTTPS"}
    probes = [
        part[probe] for part in pod(who)["containers"] for probe in ("startupProbe", "livenessProbe") if probe in part
    ]
    assert probes and all(probe["tcpSocket"]["port"] in declared for probe in probes)
    for port in find(who, "Service")["spec"]["ports"]:
        assert declared[port["targetPort"]] == port["port"]
    policy = find(who, "NetworkPolicy")["spec"]
    assert policy["podSelector"] == {} and policy["policyTypes"] == ["Ingress", "Egress"]
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == set(declared.values())
    (monitor,) = yaml.safe_load((FOLDER / "monitor" / "podmonitor.yaml").read_text())["spec"]["podMetricsEndpoints"]
    assert (monitor["port"], monitor["path"]) == ("pages", "/metrics")


@pytest.mark.parametrize("who", PORTS)
def test_no_ledger_or_database_is_lost_or_doubled(who: str) -> None:
    spec = find(who, "StatefulSet")["spec"]
    assert spec["replicas"] == 1 and spec["updateStrategy"] == {"type": "OnDelete"}
    assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}
    claims = {claim["metadata"]["name"]: claim["spec"] for claim in spec["volumeClaimTemplates"]}
    assert all(claim["accessModes"] == ["ReadWriteOncePod"] for claim in claims.values())
    assert set(claims) == ({"state"} if who == "server" else {"state", "ledger"})


@pytest.mark.parametrize("who", PORTS)
def test_pods_have_no_more_rights_than_they_need(who: str) -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    user = int(re.findall(r"useradd --uid (\d+)", dockerfile)[0])
    loader = yaml.safe_load((FOLDER / "load.yaml").read_text())["spec"]
    for spec in (pod(who), loader):
        assert spec["automountServiceAccountToken"] is False
        rights = spec["securityContext"]
        assert rights["runAsUser"] == rights["runAsGroup"] == rights["fsGroup"] == user and rights["runAsNonRoot"]
        assert rights["fsGroupChangePolicy"] == "OnRootMismatch"
        assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*containers(who), *loader["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} == set(container["resources"]) and "memory" in container["resources"]["limits"]
        assert all(mount["mountPath"].startswith(("/site/", "/server/", "/tmp")) for mount in container["volumeMounts"])
    assert find(who, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    # others' way to whatever is mounted below is closed by the image, whatever modes a volume has
    assert re.search(r"install -d -o fedballot -g fedballot -m 700 .*/site /server", dockerfile)


def test_the_site_s_file_is_one_and_its_paths_are_volumes() -> None:
    site = read_site(FOLDER / "site" / "site.toml")
    kinds = {volume["name"]: next(kind for kind in volume if kind != "name") for volume in pod("site")["volumes"]}
    kinds |= {
        claim["metadata"]["name"]: "own claim" for claim in find("site", "StatefulSet")["spec"]["volumeClaimTemplates"]
    }
    (container,) = [part for part in pod("site")["containers"] if part["name"] == "site"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}

    def volume(path: Path) -> tuple[str, bool]:
        mount = mounts[str(path.parent)]  # a folder of a volume's own is open to its group: one below it is needed
        return kinds[mount["name"]], mount.get("readOnly", False)

    assert volume(site.budget.ledger) == volume(site.state) == ("own claim", False)
    assert site.budget.ledger.parent != site.state.parent
    assert volume(site.key) == volume(site.ca) == ("emptyDir", False)
    assert volume(site.data.private) == volume(site.data.public) == ("persistentVolumeClaim", True)
    assert str(site.path.name) in container["command"][3] and "/site/config" in mounts
    egress = find("site", "NetworkPolicy")["spec"]["egress"]
    assert int(site.server.rpartition(":")[2]) in [port["port"] for rule in egress for port in rule["ports"]]


def test_every_command_of_the_page_exists() -> None:
    text = PAGE.read_text()
    blocks = [block.replace("\\\n", " ") for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]
    lines = [match[1] for block in blocks for match in re.finditer(r"(?m)^(?:kubectl .* -- +)?(fedballot .*)", block)]
    assert len(lines) >= 7
    for line in lines:
        parse(shlex.split(line))
    for name in re.findall(r"docker/kubernetes/[\w/.-]+", text):
        assert (ROOT / name).exists(), name
