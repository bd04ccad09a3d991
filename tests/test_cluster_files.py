"""The job files in examples/cluster: their form, and that the runs in them would start."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedballot.core.setting import build
from fedballot.settings.voting import PateSettings

FOLDER = Path(__file__).parents[1] / "examples" / "cluster"


def settings_of(words: Sequence[str]) -> Any:
    """The settings of a command that has ``--set name=value``."""
    chosen = [word for before, word in pairwise(words) if before == "--set"]
    return build(PateSettings, dict(pair.split("=", 1) for pair in chosen))


def ray_version() -> str:
    wanted = [line for line in metadata.requires("flwr") or () if line.startswith("ray==")]
    return wanted[0].split("==")[1].split(";")[0].strip()


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return {part["kind"]: part for part in yaml.safe_load_all((FOLDER / "rayjob.yaml").read_text())}


def test_the_manifest_has_what_kuberay_asks_for(manifest: dict[str, Any]) -> None:
    job = manifest["RayJob"]
    assert job["apiVersion"] == "ray.io/v1" and job["metadata"]["name"]
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["rayVersion"] == ray_version()
    (group,) = cluster["workerGroupSpecs"]
    assert group["groupName"] and group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for part in (cluster["headGroupSpec"], group):
        assert all(isinstance(value, str) for value in part["rayStartParams"].values())
        (container,) = part["template"]["spec"]["containers"]
        assert container["name"] and container["resources"]["limits"] == container["resources"]["requests"]


def test_all_pods_share_one_image_and_one_folder_for_runs_and_data(manifest: dict[str, Any]) -> None:
    claim, job = manifest["PersistentVolumeClaim"], manifest["RayJob"]["spec"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    cluster = job["rayClusterSpec"]
    pods = [part["template"]["spec"] for part in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    assert len({pod["containers"][0]["image"] for pod in pods}) == 1
    for pod in pods:
        (mount,), (volume,) = pod["containers"][0]["volumeMounts"], pod["volumes"]
        assert mount["name"] == volume["name"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        variables = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
        for path in (variables["FEDBALLOT_DATA"], "/shared/runs"):
            assert path.startswith(mount["mountPath"] + "/")
    assert "out=/shared/runs/" in job["entrypoint"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_scripts_are_scripts_and_their_settings_are_settings(manifest: dict[str, Any]) -> None:
    subprocess.run(["bash", "-n", FOLDER / "run.sbatch"], check=True)
    shell, flag, script = shlex.split(manifest["RayJob"]["spec"]["entrypoint"])
    assert (shell, flag) == ("sh", "-c")
    subprocess.run([shell, "-n", flag, script], check=True)
    for text in (script, (FOLDER / "run.sbatch").read_text()):
        command = text[text.index("fedballot run pate-fl") :].partition(" &")[0].replace("\\\n", " ")
        settings = settings_of(shlex.split(command))
        assert isinstance(settings, PateSettings) and (settings.dataset, settings.clients) == ("mnist", 1000)


def test_the_image_has_the_ray_that_flower_asks_for() -> None:
    assert f"BASE_IMAGE=rayproject/ray:{ray_version()}-py311" in (FOLDER / "Dockerfile").read_text()
