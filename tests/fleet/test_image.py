"""The container image without a container engine: what its file says, in namespaces of their own.

The package is built from what `.containerignore` lets through and runs as the Containerfile and the
manifests say: entry point, user, read-only root, mounts, paths, ports and health check. Only the
interpreter and the libraries are those of this machine, in place of the base image's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from coopbandits.fleet.identity.certs import init_authority, issue

from .process.agents import PATIENCE, TOKEN, wait
from .test_kubernetes import Mounted, agent_of, certificate_files, mounted, of_kind, pod_of

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "examples/fleet/Containerfile").read_text()
PROGRAMS = ("unshare", "nsenter", "setpriv", "chroot", "ip", "mount")


def context(target: Path) -> None:
    """Copy what `.containerignore` lets through: all is ignored but the lines that begin with !."""
    lines = (ROOT / ".containerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    kept = [line.removeprefix("!") for line in rules if line.startswith("!")]
    ignored = [line.removeprefix("**/") for line in rules[1:] if not line.startswith("!")]
    for name in kept:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns(*ignored))
        else:
            shutil.copy(source, target / name)


def test_keys_and_history_stay_out_of_the_image(tmp_path: Path) -> None:
    context(tmp_path)
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"LICENSE", "README.md", "packages", "pyproject.toml", "src"}
    assert not list(tmp_path.rglob("__pycache__"))


def install(image: Path, folder: Path) -> None:
    """Build the package and put it where the image has it."""
    source, wheels = folder / "source", folder / "wheels"
    source.mkdir()
    context(source)
    (built,) = re.findall(r"pip install --no-cache-dir (.*)$", CONTAINERFILE, re.M)
    for project in built.split():
        where = source / project.removeprefix("/source").lstrip("/")
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--target", "wheel",
             "--directory", str(wheels)],
            cwd=where, check=True, timeout=300, capture_output=True,
        )  # fmt: skip
    library = image / "opt/coopbandits/lib"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
         "--no-compile", "--target", str(library), *map(str, wheels.glob("*.whl"))],
        check=True, timeout=300,
    )  # fmt: skip
    programs = image / "opt/coopbandits/bin"
    programs.mkdir()
    path = f"/opt/coopbandits/lib:{sysconfig.get_path('purelib')}"
    python = os.path.realpath(sys.executable)
    for name, command in (
        ("python", f'PYTHONPATH={path} exec {python} "$@"'),
        ("coopbandits", 'exec /opt/coopbandits/bin/python -m coopbandits "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{command}\n")
        (programs / name).chmod(0o755)


def borrowed() -> list[str]:
    """Return the folders of this machine that stand in for the base image, the outer ones first."""
    wanted = {"/usr", "/lib", "/lib64", "/bin", "/sbin", sys.base_prefix, sys.prefix,
              sysconfig.get_path("purelib")}  # fmt: skip
    there = sorted(each for each in wanted if Path(each).exists())
    return [each for each in there if not any(each.startswith(f"{other}/") for other in there)]


class Container:
    """An agent in mount and network namespaces, as the manifest runs the image."""

    def __init__(self, image: Path, volumes: Path, name: str) -> None:
        self.image = image
        pod, agent = pod_of("agents"), agent_of("agents")
        (user,) = re.findall(r"^USER (\d+)$", CONTAINERFILE, re.M)
        assert user == str(pod["securityContext"]["runAsUser"])
        group = str(pod["securityContext"]["runAsGroup"])
        assert agent["securityContext"]["readOnlyRootFilesystem"]
        (entry,) = re.findall(r"^ENTRYPOINT (.*)$", CONTAINERFILE, re.M)
        self.variables = ["PATH=/usr/bin:/bin", f"POD_NAME={name}", "PYTHONDONTWRITEBYTECODE=1"]
        assert "ENV PYTHONDONTWRITEBYTECODE=1" in CONTAINERFILE
        self.confined = [
            "setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--inh-caps=-all",
            "--bounding-set=-all", "--no-new-privs", "env", "-i", *self.variables,
        ]  # fmt: skip
        script = ["mount --make-rprivate /", f"mount --bind {image} {image}"]
        for folder in borrowed():
            script += [f"mkdir -p {image}{folder}", f"mount --rbind {folder} {image}{folder}",
                       f"mount -o remount,bind,ro {image}{folder}"]  # fmt: skip
        script += [f"mkdir -p {image}/proc {image}/dev", f"mount --rbind /dev {image}/dev",
                   f"mount -t proc proc {image}/proc"]  # fmt: skip
        for mount in agent["volumeMounts"]:
            there = f"{image}{mount['mountPath']}"
            if mount["name"] == "scratch":
                script += [
                    f"mkdir -p {there}",
                    f"mount -t tmpfs -o size=16m,mode=1777 none {there}",
                ]
                continue
            script += [f"mkdir -p {there}", f"mount --bind {volumes}{mount['mountPath']} {there}"]
            if mount.get("readOnly"):
                script.append(f"mount -o remount,bind,ro {there}")
        script += [f"mount -o remount,bind,ro {image}", "ip link set lo up"]
        command = [*self.confined, *json.loads(entry), *agent["args"]]
        script.append(f"exec chroot {image} {' '.join(command)}")
        self.log = volumes / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--net", "sh", "-euc", "\n".join(script)], stderr=log
            )

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as the agent's user in its namespaces."""
        inside = ["nsenter", "--target", str(self.process.pid), "--mount", "--net"]
        return subprocess.run(
            [*inside, "chroot", str(self.image), *self.confined, *command],
            capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip

    def told(self) -> str:
        return self.log.read_text()

    def status(self) -> dict[str, str]:
        """Return what the kernel knows of the process."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@contextmanager
def contained(folder: Path, name: str) -> Iterator[tuple[Container, dict[str, Mounted]]]:
    """Run an agent with its own certificate; it does not run at the end."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"namespaces need root and {', '.join(PROGRAMS)}; missing: {missing or 'root'}")
    tried = subprocess.run(
        ["unshare", "--mount", "--net", "true"], capture_output=True, check=False
    )
    if tried.returncode != 0:
        pytest.skip(f"this machine allows no namespaces: {tried.stderr.decode().strip()}")
    image, volumes, certificates = folder / "image", folder / "volumes", folder / "certificates"
    image.mkdir()
    install(image, folder)
    init_authority(certificates)
    issue(certificates, [name])
    group = pod_of("agents")["securityContext"]["fsGroup"]
    found = mounted(volumes, name, {})
    for volume, files in (
        (
            "configuration",
            {"agent.toml": of_kind("ConfigMap", "agents")["data"]["agent.toml"].encode()},
        ),
        ("token", {"token": TOKEN.encode()}),
        ("certificates", certificate_files(certificates, name)),
    ):
        found[volume].write(files, group)
    os.chown(found["memory"].folder, -1, group)
    found["memory"].folder.chmod(0o770)
    container = Container(image, volumes, name)
    try:
        yield container, found
    finally:
        container.process.kill()
        container.process.wait()


USE = """
import os
from pathlib import Path
from coopbandits.fleet.client import Client
token = Path("/etc/coopbandits/token/token").read_text()
with Client("127.0.0.1:8400", token, timeout=60, bandit="button") as client:
    choice = client.choose()
    print(client.observe(choice.ticket, 1.0).duplicate, choice.is_default)
print(*(bool(os.statvfs(path).f_flag & os.ST_RDONLY) for path in ("/", "/etc/coopbandits/tls")))
"""


def passes(container: Container, check: list[str]) -> bool:
    assert container.process.poll() is None, container.told()
    return container.run(*check).returncode == 0


@pytest.mark.slow
def test_the_image_runs_without_rights_on_a_read_only_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (health,) = re.findall(r'^  CMD (\[".*"\])$', CONTAINERFILE, re.M)
    with contained(tmp_path, "shop-0") as (container, volumes):
        wait(partial(passes, container, json.loads(health)), "it does not pass its health check")
        status = container.status()
        assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"10001"}
        assert (int(status["CapEff"], 16), int(status["CapBnd"], 16)) == (0, 0)
        assert status["NoNewPrivs"] == "1"
        for place in ("/", "/opt/coopbandits", "/etc/coopbandits/tls", "/usr"):
            assert container.run("touch", f"{place}/file").returncode != 0, place
        assert container.run("touch", "/tmp/file").returncode == 0  # noqa: S108
        used = container.run("/opt/coopbandits/bin/python", "-c", USE)
        assert used.stdout.splitlines() == ["False False", "True True"], used.stderr
        assert list((volumes["memory"].folder / "journal").iterdir())
        assert "agent shop-0 serves at 0.0.0.0:8400" in container.told()
        container.process.send_signal(signal.SIGTERM)
        assert container.process.wait(PATIENCE) == 0, container.told()
