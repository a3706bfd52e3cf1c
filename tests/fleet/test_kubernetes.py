"""The manifests: against the API's schemas, against each other, and as processes of this machine.

No cluster runs here. What a manifest says of the agent's container (its arguments, environment,
files and probes) is carried out on this machine instead, with two things changed: files are mounted
below a folder, and names and ports of pods become places on loopback.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from coopbandits.fleet.client import Client
from coopbandits.fleet.config import parse_config
from coopbandits.fleet.config.check import compare_files
from coopbandits.fleet.identity.certs import init_authority, issue

from .process.agents import PATIENCE, TOKEN, wait
from .transport.nodes import places

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"
FOLDER = EXAMPLES / "kubernetes"
FORMS = ("agents", "sidecar")
PODS = ("shop-0", "shop-1", "shop-2")
VERSION = "1.33"

Object = dict[str, Any]


def documents(*folders: str) -> list[Object]:
    paths = [path for folder in folders for path in sorted((FOLDER / folder).glob("*.yaml"))]
    return [each for path in paths for each in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str, *folders: str) -> Object:
    (found,) = (each for each in documents(*folders) if each["kind"] == kind)
    return dict(found)


def pod_of(form: str) -> Object:
    return dict(of_kind("StatefulSet", form)["spec"]["template"]["spec"])


def agent_of(form: str) -> Object:
    pod = pod_of(form)
    containers = pod["containers"] + pod.get("initContainers", [])
    (found,) = (each for each in containers if each["name"] == "agent")
    return dict(found)


@pytest.mark.parametrize("form", FORMS)
def test_the_api_accepts_every_document(form: str) -> None:
    found = documents("shared", form)
    assert sorted(each["kind"] for each in found) == [
        "NetworkPolicy", "PodDisruptionBudget", "Service", "StatefulSet",
    ]  # fmt: skip
    for each in found:
        kubernetes_validate.validate(each, VERSION, strict=True)
    found[0]["spec"]["maxUnavailible"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="maxUnavailible"):
        kubernetes_validate.validate(found[0], VERSION, strict=True)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_named_is_there(form: str) -> None:
    sets, pod, agent = of_kind("StatefulSet", form), pod_of(form), agent_of(form)
    labels = sets["spec"]["template"]["metadata"]["labels"].items()
    service = of_kind("Service", "shared")
    assert sets["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"].items() <= labels
    assert service["spec"]["publishNotReadyAddresses"] is True
    for kind, folder in (("PodDisruptionBudget", "shared"), ("NetworkPolicy", form)):
        spec = of_kind(kind, folder)["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        assert selector["matchLabels"].items() <= labels
    assert sets["spec"]["replicas"] == len(PODS)
    ports = {port["name"]: port["containerPort"] for port in agent["ports"]}
    assert ports == {"gossip": 7400, "api": 8400}
    assert {port["port"]: port["targetPort"] for port in service["spec"]["ports"]} == {
        7400: "gossip", 8400: "api",
    }  # fmt: skip
    volumes = {each["name"] for each in pod["volumes"]}
    volumes |= {each["metadata"]["name"] for each in sets["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in agent["volumeMounts"]} == volumes


@pytest.mark.parametrize("form", FORMS)
def test_agents_run_without_rights_and_have_time_to_drain(form: str) -> None:
    pod, agent = pod_of(form), agent_of(form)
    rights = agent["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    image = (EXAMPLES / "Containerfile").read_text()
    assert f"USER {pod['securityContext']['runAsUser']}\n" in image
    assert pod["automountServiceAccountToken"] is False
    for name in PODS:
        path = FOLDER / "configuration" / f"{name}.toml"
        config = parse_config(tomllib.loads(path.read_text()), path, now=time.time())
        assert config.id == name
        assert f"{name}.shop" in config.api_limits.hosts
        assert config.drain_seconds + 10 <= pod["terminationGracePeriodSeconds"]


def test_both_forms_run_the_same_agent() -> None:
    alone, beside = agent_of("agents"), agent_of("sidecar")
    assert beside.pop("restartPolicy") == "Always"
    assert alone.pop("readinessProbe")["httpGet"]["path"] == "/ready"
    assert alone == beside


def mounted(root: Path, pod: str, source: Path) -> None:
    """Put the files of a pod where its manifest mounts them, below a folder."""
    volumes = {each["name"]: each for each in pod_of("agents")["volumes"]}
    folders = {"shop": FOLDER / "configuration", "shop-certificates": source / "certificates",
               "shop-token": source / "token"}  # fmt: skip
    for mount in agent_of("agents")["volumeMounts"]:
        volume, target = volumes.get(mount["name"], {}), root / mount["mountPath"].lstrip("/")
        named = volume.get("configMap", {}).get("name") or volume.get("secret", {}).get(
            "secretName"
        )
        part = mount.get("subPath") or expanded(mount.get("subPathExpr", ""), pod)
        if named is None:
            target.mkdir(parents=True)
        elif part:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folders[named] / part, target)
        else:
            shutil.copytree(folders[named], target)


def expanded(text: str, pod: str) -> str:
    """Return a text as Kubernetes expands it; the only variable is the pod's name."""
    (variable,) = agent_of("agents")["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    return text.replace(f"$({variable['name']})", pod)


def on_loopback(root: Path, pod: str, at: dict[str, Any]) -> None:
    """Let a configuration name places of this machine."""
    path = root / "etc/coopbandits/configuration" / f"{pod}.toml"
    text = re.sub(r'"/(etc|var)/', rf'"{root}/\1/', path.read_text())
    text = text.replace("0.0.0.0:7400", str(at[pod])).replace("0.0.0.0:8400", str(at[f"{pod} API"]))
    path.write_text(re.sub(r'"([\w-]+)\.shop:7400"', lambda found: f'"{at[found[1]]}"', text))


@contextlib.contextmanager
def started(folder: Path, at: dict[str, Any]) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Run the pods' agents by what Containerfile and manifest say; none is left behind."""
    image = (EXAMPLES / "Containerfile").read_text()
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", image, re.M)
    assert json.loads(entry) == ["/opt/coopbandits/bin/coopbandits", "agent"]
    made: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for pod in PODS:
            arguments = [expanded(each, pod) for each in agent_of("agents")["args"]]
            command = [sys.executable, "-m", "coopbandits", "agent"]
            command += [f"{folder / pod}{each}" for each in arguments]
            with (folder / f"{pod}.log").open("wb") as log:
                made[pod] = subprocess.Popen(command, stderr=log)
        yield made
    finally:
        for process in made.values():
            process.kill()
            process.wait()


def passes(probe: str, place: str) -> bool:
    """Ask as a kubelet does: without a token."""
    asked = agent_of("agents")[probe]["httpGet"]
    assert asked["port"] == "api"
    try:
        with urllib.request.urlopen(f"http://{place}{asked['path']}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def all_pass(probe: str, places: list[str]) -> bool:
    return all(passes(probe, place) for place in places)


@pytest.mark.slow
def test_what_the_manifests_say_works_as_processes(tmp_path: Path) -> None:
    certificates, token = tmp_path / "certificates", tmp_path / "token"
    init_authority(certificates)
    issue(certificates, PODS)
    token.mkdir()
    (token / "token").write_text(TOKEN)
    (token / "token").chmod(0o440)
    with places(*PODS, *(f"{pod} API" for pod in PODS)) as at:
        for pod in PODS:
            mounted(tmp_path / pod, pod, tmp_path)
            on_loopback(tmp_path / pod, pod, at)
            seen = {path.name for path in (tmp_path / pod / "etc/coopbandits/tls").iterdir()}
            assert seen == {"ca.pem", "agent.pem", "agent-key.pem"}  # nobody else's key
        files = [tmp_path / pod / f"etc/coopbandits/configuration/{pod}.toml" for pod in PODS]
        assert compare_files(files, now=time.time(), insecure=False)[1] == []
        apis = [str(at[f"{pod} API"]) for pod in PODS]
        with started(tmp_path, at) as running:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                wait(partial(all_pass, probe, apis), probe)
            with (
                Client(apis[0], TOKEN, PATIENCE, bandit="button") as first,
                Client(apis[2], TOKEN, PATIENCE, bandit="button") as last,
            ):
                open_ticket = first.choose().ticket
                running["shop-0"].send_signal(signal.SIGTERM)
                wait(lambda: not passes("readinessProbe", apis[0]))
                assert passes("livenessProbe", apis[0])  # or it would be killed while it drains
                first.observe(open_ticket, 1.0)
                assert running["shop-0"].wait(PATIENCE) == 0
                assert sum(arm.pulls for arm in last.arms()) == 1.0
        told = (tmp_path / "shop-0.log").read_text().splitlines()
        assert json.loads(told[-1])["message"].startswith("agent shop-0 stopped")
