"""The manifests: against the API's schemas, against each other, and as processes of this machine.

No cluster runs here. What a manifest says of the agent's container (its arguments, environment,
files and probes) is carried out on this machine instead, with two things changed: files are mounted
below a folder, and names and ports of pods become places on loopback. `test_image.py` runs one
agent at the paths and ports of the manifests.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from coopbandits.fleet.client import Client
from coopbandits.fleet.config import NodeConfig, parse_config
from coopbandits.fleet.config.check import compare
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.identity.tls import Credentials

from .process.agents import PATIENCE, TOKEN, wait
from .transport.nodes import places

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"
FOLDER = EXAMPLES / "kubernetes"
FORMS = ("agents", "sidecar", "secret")
PODS = ("shop-0", "shop-1", "shop-2")
VERSION = "1.33"

Object = dict[str, Any]


def read(path: Path) -> Object:
    return dict(yaml.safe_load(path.read_text()))


def rendered(form: str) -> list[Object]:
    """Return what `kubectl kustomize` makes of a form, but for the hash in the ConfigMap's name.

    Only what the kustomizations use is done: resources, ConfigMaps of files, and patches that
    replace or add a value. `test_kustomize_renders_the_same` compares it with the program.
    """
    folder = FOLDER / form
    found: list[Object] = []
    for key, value in read(folder / "kustomization.yaml").items():
        match key:
            case "resources":
                for name in value:
                    path = folder / name
                    found += rendered(path.resolve().name) if path.is_dir() else [read(path)]
            case "configMapGenerator":
                for made in value:
                    files = {name: (folder / name).read_text() for name in made["files"]}
                    found.append({"apiVersion": "v1", "kind": "ConfigMap", "data": files,
                                  "metadata": {"name": made["name"]}})  # fmt: skip
            case "patches":
                for patch in value:
                    target = patch["target"]
                    (one,) = (
                        each for each in found
                        if (each["kind"], each["metadata"]["name"]) == tuple(target.values())
                    )  # fmt: skip
                    for change in yaml.safe_load(patch["patch"]):
                        apply(one, change)
            case _:
                assert key in ("apiVersion", "kind"), key
    return found


def apply(document: Any, change: Object) -> None:
    """Apply one change of a JSON patch (RFC 6902)."""
    *path, last = change["path"].strip("/").split("/")
    for part in path:
        document = document[int(part) if isinstance(document, list) else part]
    if change["op"] == "add" and last == "-":
        document.append(change["value"])
    else:
        assert change["op"] == "replace"
        document[int(last)] = change["value"]


def of_kind(kind: str, form: str) -> Object:
    (found,) = (each for each in rendered(form) if each["kind"] == kind)
    return found


def pod_of(form: str) -> Object:
    return dict(of_kind("StatefulSet", form)["spec"]["template"]["spec"])


def agent_of(form: str) -> Object:
    pod = pod_of(form)
    containers = pod["containers"] + pod.get("initContainers", [])
    (found,) = (each for each in containers if each["name"] == "agent")
    return dict(found)


def config_of(pod: str, text: str | None = None, path: str = "agent.toml") -> NodeConfig:
    """Return the configuration of a pod, made of the file that all pods have."""
    text = text or of_kind("ConfigMap", "agents")["data"]["agent.toml"]
    return parse_config(tomllib.loads(text), path, now=time.time(), environment={"POD_NAME": pod})


@pytest.mark.parametrize("form", FORMS)
def test_the_api_accepts_every_document(form: str) -> None:
    found = rendered(form)
    assert sorted(each["kind"] for each in found) == [
        "ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "StatefulSet",
    ]  # fmt: skip
    for each in found:
        kubernetes_validate.validate(each, VERSION, strict=True)
    budget = of_kind("PodDisruptionBudget", form)
    budget["spec"]["maxUnavailible"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="maxUnavailible"):
        kubernetes_validate.validate(budget, VERSION, strict=True)


def kustomize() -> list[str]:
    """Return the command that renders a kustomization; skip the test without one."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if shutil.which("kubectl"):
        asked = ["kubectl", "version", "--client", "--output", "json"]
        told = subprocess.run(asked, capture_output=True, check=True, timeout=60).stdout
        if int(json.loads(told)["clientVersion"]["minor"].rstrip("+")) >= 22:
            return ["kubectl", "kustomize"]
    pytest.skip("neither kustomize nor kubectl 1.22 or newer is installed")


@pytest.mark.parametrize("form", FORMS)
def test_kustomize_renders_the_same(form: str) -> None:
    done = subprocess.run(
        [*kustomize(), str(FOLDER / form)], capture_output=True, check=True, text=True, timeout=60
    )
    (name,) = set(re.findall(r"\bshop-[a-z0-9]{10}\b", done.stdout))
    found = list(yaml.safe_load_all(re.sub(rf"\b{name}\b", "shop", done.stdout)))
    expected = rendered(form)
    by_kind = {each["kind"]: each for each in expected}
    assert len(found) == len(expected)
    assert {each["kind"]: each for each in found} == by_kind


def text(**pattern: str) -> Object:
    return {"type": "string", "minLength": 1, **pattern}


def only(**properties: Any) -> Object:
    """Return the schema of an object with these properties, all of them, and no others."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required,
            "additionalProperties": False}  # fmt: skip


LABELS = only(**{"app.kubernetes.io/name": {"const": "shop"}})

# The package with the schemas has those of the API alone, so the parts of the custom resources that
# are used are written down here: cert-manager.io/v1, and monitoring.coreos.com/v1.
ISSUER = only(
    apiVersion={"const": "cert-manager.io/v1"}, kind={"const": "Issuer"},
    metadata=only(name=text(), labels=LABELS), spec=only(ca=only(secretName=text())),
)  # fmt: skip
POD_MONITOR = only(
    apiVersion={"const": "monitoring.coreos.com/v1"}, kind={"const": "PodMonitor"},
    metadata=only(name=text(), labels=LABELS),
    spec=only(
        selector=only(matchLabels=LABELS),
        podMetricsEndpoints={"type": "array", "items": only(
            port=text(), path=text(pattern="^/"),
            authorization=only(credentials=only(name=text(), key=text())),
                relabelings={
                    "type": "array", "items": only(targetLabel=text(), replacement=text()),
                },
        )},
    ),
)  # fmt: skip


@pytest.mark.parametrize(("name", "schema"), [("issuer", ISSUER), ("podmonitor", POD_MONITOR)])
def test_custom_resources_have_the_fields_that_are_used(name: str, schema: Object) -> None:
    jsonschema.validate(read(FOLDER / f"{name}.yaml"), schema)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_named_is_there(form: str) -> None:
    sets, pod, agent = of_kind("StatefulSet", form), pod_of(form), agent_of(form)
    labels = sets["spec"]["template"]["metadata"]["labels"].items()
    service = of_kind("Service", form)
    assert sets["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"].items() <= labels
    assert service["spec"]["publishNotReadyAddresses"] is True
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        spec = of_kind(kind, form)["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        assert selector["matchLabels"].items() <= labels
    ports = {port["name"]: port["containerPort"] for port in agent["ports"]}
    assert ports == {"gossip": 7400, "api": 8400}
    assert {port["port"]: port["targetPort"] for port in service["spec"]["ports"]} == {
        7400: "gossip", 8400: "api",
    }  # fmt: skip
    volumes = {each["name"]: each for each in pod["volumes"]}
    claims = {each["metadata"]["name"] for each in sets["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in agent["volumeMounts"]} == volumes.keys() | claims
    assert (
        volumes["configuration"]["configMap"]["name"]
        == of_kind("ConfigMap", form)["metadata"]["name"]
    )
    monitor = read(FOLDER / "podmonitor.yaml")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= labels
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in ports
    (label,) = endpoint["relabelings"]
    assert (
        f'{label["targetLabel"]}="{label["replacement"]}"' in (EXAMPLES / "alerts.yml").read_text()
    )
    credentials = endpoint["authorization"]["credentials"]
    assert credentials["name"] == volumes["token"]["secret"]["secretName"]
    assert config_of("shop-0").token_file == Path(f"{mount_of(form, 'token')}/{credentials['key']}")


def mount_of(form: str, volume: str) -> str:
    (path,) = (
        each["mountPath"] for each in agent_of(form)["volumeMounts"] if each["name"] == volume
    )
    return str(path)


# Attributes of cert-manager's csi-driver 0.11, which has no schema: pkg/apis/v1alpha1/types.go.
ATTRIBUTES = {
    f"csi.cert-manager.io/{name}"
    for name in (
        "issuer-name", "issuer-kind", "issuer-group", "common-name", "dns-names", "uri-sans",
        "duration", "renew-before", "key-usages", "key-algorithm", "key-size", "key-encoding",
        "ca-file", "certificate-file", "privatekey-file", "fs-group", "reuse-private-key",
    )
}  # fmt: skip


@pytest.mark.parametrize("form", ["agents", "sidecar"])
def test_every_pod_asks_for_a_certificate_that_its_agent_accepts(form: str) -> None:
    pod = pod_of(form)
    (volume,) = (each["csi"] for each in pod["volumes"] if each["name"] == "certificates")
    assert (volume["driver"], volume["readOnly"]) == ("csi.cert-manager.io", True)
    asked = volume["volumeAttributes"]
    assert asked.keys() <= ATTRIBUTES
    short = {name.rpartition("/")[2]: value for name, value in asked.items()}
    assert short["issuer-name"] == read(FOLDER / "issuer.yaml")["metadata"]["name"]
    assert short["dns-names"].replace("${POD_NAME}", "shop-7") == config_of("shop-7").id
    assert (short["key-algorithm"], short.get("key-size", "256")) == ("ECDSA", "256")
    assert set(short["key-usages"].split(",")) == {
        "digital signature",
        "server auth",
        "client auth",
    }
    assert int(short["fs-group"]) == pod["securityContext"]["runAsGroup"]
    tls = config_of("shop-7").tls
    assert tls is not None
    names = {"ca": "ca.crt", "certificate": "tls.crt", "key": "tls.key"}  # the driver's own
    folder = mount_of(form, "certificates")
    assert tls._asdict() == {key: Path(folder, name) for key, name in names.items()}


def test_a_pod_sees_its_own_key_of_a_secret_for_all() -> None:
    mounts = {each["mountPath"]: each for each in agent_of("secret")["volumeMounts"]}
    tls = config_of("shop-7").tls
    assert tls is not None
    seen = {
        key: mounts[str(path)].get("subPath")
        or expanded(mounts[str(path)]["subPathExpr"], "shop-7")
        for key, path in tls._asdict().items()
    }
    assert seen == {"ca": "ca.pem", "certificate": "shop-7.pem", "key": "shop-7-key.pem"}
    used = [each for each in agent_of("secret")["volumeMounts"] if each["name"] == "certificates"]
    assert len(used) == len(seen)


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
    assert config_of("shop-0").drain_seconds + 10 <= pod["terminationGracePeriodSeconds"]


def test_one_configuration_serves_thousands_of_pods() -> None:
    pods = [f"shop-{number}" for number in range(5000)]
    configs = {name: config_of(name) for name in (pods[0], pods[1], pods[-1])}
    assert list(compare(configs)) == []
    for name, config in configs.items():
        assert config.id == name
        assert f"{name}.shop" in config.api_limits.hosts
        assert config.cluster.most_agents >= len(pods)
        assert config.auto
        assert {place.host for place in config.seeds} <= {f"{each}.shop" for each in pods}
        (bandit,) = config.bandits.values()
        assert not bandit.traits.grows


def test_all_forms_run_the_same_agent() -> None:
    alone, beside, secret = map(agent_of, FORMS)
    assert beside.pop("restartPolicy") == "Always"
    assert alone["readinessProbe"]["httpGet"]["path"] == "/ready"
    for each in (alone, secret):
        each.pop("readinessProbe")
    assert alone == beside
    assert {**alone, "volumeMounts": None} == {**secret, "volumeMounts": None}


# Network policies

AGENT = {"app.kubernetes.io/name": "shop"}
APPLICATION = {"shop-client": "true"}
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}


def admits(form: str, labels: Mapping[str, str], namespace: str, port: str) -> bool:
    """Return whether a pod may call a port of an agent's pod; agents are in `default`."""
    policy = of_kind("NetworkPolicy", form)["spec"]
    assert "Ingress" in policy["policyTypes"]

    def selects(selector: Object | None, found: Mapping[str, str]) -> bool:
        return selector is None or selector.get("matchLabels", {}).items() <= found.items()

    def is_peer(peer: Object) -> bool:
        there = {"kubernetes.io/metadata.name": namespace}
        near = "namespaceSelector" in peer or namespace == "default"
        selected = selects(peer.get("namespaceSelector"), there)
        return near and selected and selects(peer.get("podSelector"), labels)

    return any(
        port in {each["port"] for each in rule["ports"]}
        and ("from" not in rule or any(map(is_peer, rule["from"])))
        for rule in policy["ingress"]
    )


@pytest.mark.parametrize("form", FORMS)
def test_who_may_call_what(form: str) -> None:
    assert admits(form, AGENT, "default", "gossip")
    assert not admits(form, AGENT, "elsewhere", "gossip")
    assert admits(form, PROMETHEUS, "monitoring", "api")
    assert not admits(form, PROMETHEUS, "monitoring", "gossip")
    assert not admits(form, PROMETHEUS, "elsewhere", "api")
    assert not admits(form, {}, "monitoring", "api")
    assert not admits(form, {}, "default", "api")
    assert admits(form, APPLICATION, "default", "api") is (form != "sidecar")
    assert admits(form, {}, "elsewhere", "http") is (form == "sidecar")


# As processes


class Mounted:
    """A folder as the kubelet and CSI drivers mount it: names lead into `..data`, a link that is
    replaced together with all files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._versions = folder, 0
        folder.mkdir(parents=True)

    def write(self, files: Mapping[str, bytes], group: int = -1) -> None:
        """Replace all files at once."""
        self._versions += 1
        version = self.folder / f"..{self._versions}"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_bytes(content)
            (version / name).chmod(0o440)
            os.chown(version / name, -1, group)
        link, before = self.folder / "..data", None
        if link.is_symlink():
            before = link.resolve()
        (self.folder / "..data_tmp").symlink_to(version.name)
        (self.folder / "..data_tmp").rename(link)
        for name in files:
            with contextlib.suppress(FileExistsError):
                (self.folder / name).symlink_to(f"..data/{name}")
        if before is not None:
            shutil.rmtree(before)


def certificate_files(certificates: Path, pod: str) -> dict[str, bytes]:
    """Return the files of a pod as the csi-driver names them."""
    names = {"ca.crt": "ca.pem", "tls.crt": f"{pod}.pem", "tls.key": f"{pod}-key.pem"}
    return {name: (certificates / source).read_bytes() for name, source in names.items()}


def mounted(root: Path, pod: str, files: Mapping[str, Mapping[str, bytes]]) -> dict[str, Mounted]:
    """Mount the volumes of a pod below a folder; those without files are empty folders."""
    found = {}
    for mount in agent_of("agents")["volumeMounts"]:
        name = mount["name"]
        found[name] = Mounted(root / mount["mountPath"].lstrip("/"))
        if name in files:
            found[name].write(files[name])
    return found


def expanded(text: str, pod: str) -> str:
    """Return a text as Kubernetes expands it; the only variable is the pod's name."""
    (variable,) = agent_of("agents")["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    return text.replace(f"$({variable['name']})", pod)


def on_loopback(text: str, root: Path, pod: str, at: Mapping[str, Any]) -> str:
    """Return a configuration that names places of this machine."""
    text = re.sub(r'"/(etc|var)/', rf'"{root}/\1/', text)
    text = text.replace("0.0.0.0:7400", str(at[pod])).replace("0.0.0.0:8400", str(at[f"{pod} API"]))
    return re.sub(r'"([\w-]+)\.shop:7400"', lambda found: f'"{at[found[1]]}"', text)


class Pods:
    """The pods' agents, run by what Containerfile and manifest say."""

    def __init__(self, folder: Path) -> None:
        image = (EXAMPLES / "Containerfile").read_text()
        (entry,) = re.findall(r"^ENTRYPOINT (.*)$", image, re.M)
        assert json.loads(entry) == ["/opt/coopbandits/bin/coopbandits", "agent"]
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, pod: str) -> None:
        (argument,), (variable,) = agent_of("agents")["args"], agent_of("agents")["env"]
        command = [sys.executable, "-m", "coopbandits", "agent", f"{self.folder / pod}{argument}"]
        with (self.folder / f"{pod}.log").open("ab") as log:
            self.running[pod] = subprocess.Popen(
                command, stderr=log, env=os.environ | {variable["name"]: pod}
            )

    def logged(self, pod: str) -> list[str]:
        """Return the messages in the log of an agent."""
        lines = (self.folder / f"{pod}.log").read_text().splitlines()
        return [str(json.loads(line)["message"]) for line in lines]


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Pods]:
    """Run all pods; none is left behind."""
    pods = Pods(folder)
    try:
        for pod in PODS:
            pods.start(pod)
        yield pods
    finally:
        for process in pods.running.values():
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


def shown(place: Any, caller: Credentials) -> bytes:
    """Return the certificate that an agent shows to a new connection."""
    context = caller.contexts().client
    with socket.create_connection(place, timeout=PATIENCE) as raw, context.wrap_socket(raw) as link:
        return link.getpeercert(binary_form=True) or b""


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


@pytest.mark.slow
def test_what_the_manifests_say_works_as_processes(tmp_path: Path) -> None:
    certificates = tmp_path / "certificates"
    init_authority(certificates)
    issue(certificates, PODS)
    text = of_kind("ConfigMap", "agents")["data"]["agent.toml"]
    with places(*PODS, *(f"{pod} API" for pod in PODS)) as at:
        volumes = {}
        for pod in PODS:
            written = on_loopback(text, tmp_path / pod, pod, at).encode()
            volumes[pod] = mounted(tmp_path / pod, pod, {
                "configuration": {"agent.toml": written}, "token": {"token": TOKEN.encode()},
                "certificates": certificate_files(certificates, pod),
            })  # fmt: skip
        apis = [str(at[f"{pod} API"]) for pod in PODS]
        with started(tmp_path) as pods:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                wait(partial(all_pass, probe, apis), probe)

            folder = tmp_path / "shop-0/etc/coopbandits/tls"
            files = [folder / name for name in ("ca.crt", "tls.crt", "tls.key")]
            caller = Credentials("shop-0", *files)
            old = certificate_files(certificates, "shop-1")
            assert shown(at["shop-1"], caller) == der(old["tls.crt"])
            issue(certificates, ["shop-1"], force=True)
            new = certificate_files(certificates, "shop-1")
            assert old["tls.key"] != new["tls.key"]
            volumes["shop-1"]["certificates"].write(new)
            wait(lambda: shown(at["shop-1"], caller) == der(new["tls.crt"]), "not renewed")

            with (
                Client(apis[0], TOKEN, PATIENCE, bandit="button") as first,
                Client(apis[2], TOKEN, PATIENCE, bandit="button") as last,
            ):
                open_ticket = first.choose().ticket
                pods.running["shop-0"].send_signal(signal.SIGTERM)
                wait(lambda: not passes("readinessProbe", apis[0]))
                assert passes("livenessProbe", apis[0])  # or it would be killed while it drains
                first.observe(open_ticket, 1.0)
                assert pods.running["shop-0"].wait(PATIENCE) == 0
                assert pods.logged("shop-0")[-1].startswith("agent shop-0 stopped")
                pods.start("shop-0")  # as the StatefulSet does, on the same volume
                wait(lambda: sum(arm.pulls for arm in last.arms()) == 1.0, "the reward is lost")
            assert pods.running["shop-1"].poll() is None
