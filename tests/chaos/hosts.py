"""Hosts in network namespaces of their own, joined by a bridge that is a namespace as well."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SUBNET = "10.77.0"


def run(*words: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(words, check=True, capture_output=True, text=True)


def obstacle() -> str:
    """Return why hosts cannot be made here; "" if they can."""
    for command in ("ip", "tc", "mount"):
        if shutil.which(command) is None:
            return f"there is no command {command}"
    name = f"cb{os.getpid()}-try"
    try:
        run("ip", "netns", "add", name)
    except subprocess.CalledProcessError as error:
        return f"network namespaces cannot be made: {error.stderr.strip()}"
    run("ip", "netns", "del", name)
    return ""


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


def knows(*discipline: str) -> bool:
    """Return whether this kernel has a way to disturb a link."""
    name = f"cb{os.getpid()}-try"
    run("ip", "netns", "add", name)
    try:
        run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", *discipline)
    except subprocess.CalledProcessError:
        return False
    finally:
        run("ip", "netns", "del", name)
    return True


class Host:
    """One namespace with one link.

    Attributes
    ----------
    address : str
        Its address on the bridge.
    """

    def __init__(self, prefix: str, number: int) -> None:
        self.namespace = f"{prefix}-{number}"
        self.address = f"{SUBNET}.{number + 1}"

    @property
    def wrap(self) -> tuple[str, ...]:
        """Return what to put before a command that is to run here."""
        return ("ip", "netns", "exec", self.namespace)

    def socket(self) -> socket.socket:
        """Return a socket of this host for this process; a thread visits, and comes back."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.namespace}", os.O_RDONLY)
        try:
            _enter(there)
            return socket.socket()
        finally:
            _enter(home)
            os.close(home)
            os.close(there)

    def disturb(self, *how: str) -> None:
        """Disturb what this host sends, but not what it hears, by a discipline of ``tc``."""
        run(*self.wrap, "tc", "qdisc", "replace", "dev", "eth0", "root", *how)

    def calm(self) -> None:
        """End the disturbance."""
        run(*self.wrap, "tc", "qdisc", "del", "dev", "eth0", "root")

    def mute(self, other: Host, is_mute: bool) -> None:
        """Drop all that this host sends to another one; it still hears that one."""
        word = "add" if is_mute else "del"
        run(*self.wrap, "ip", "route", word, "blackhole", f"{other.address}/32")

    def plug(self, state: str) -> None:
        """Set the link "up" or "down"."""
        run(*self.wrap, "ip", "link", "set", "eth0", state)


@contextmanager
def hosts(number: int) -> Iterator[list[Host]]:
    """Make hosts that reach each other; remove them at the end."""
    prefix = f"cb{os.getpid()}"
    hub = f"{prefix}-hub"
    with ExitStack() as undo:
        _namespace(hub, undo)
        inside = ("ip", "netns", "exec", hub)
        run(*inside, "ip", "link", "add", "bridge", "type", "bridge")
        run(*inside, "ip", "link", "set", "bridge", "up")
        made = [Host(prefix, at) for at in range(number)]
        for at, host in enumerate(made):
            _namespace(host.namespace, undo)
            outer = f"v{at}"
            run(
                *host.wrap, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", outer,
                "netns", hub,
            )  # fmt: skip
            run(*inside, "ip", "link", "set", outer, "master", "bridge", "up")
            run(*host.wrap, "ip", "address", "add", f"{host.address}/24", "dev", "eth0")
            run(*host.wrap, "ip", "link", "set", "lo", "up")
            host.plug("up")
        yield made


def _namespace(name: str, undo: ExitStack) -> None:
    run("ip", "netns", "add", name)
    undo.callback(run, "ip", "netns", "del", name)


@contextmanager
def tiny_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a disk of this size on a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield
    finally:
        run("umount", "--lazy", str(folder))
