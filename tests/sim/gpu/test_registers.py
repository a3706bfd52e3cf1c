"""What kernels take of a GPU, as NVIDIA's compiler tells without one."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from benchmarks.gpu import STAGED, Case
from coopbandits.sim import gpu
from coopbandits.sim.cpu import parts_of
from coopbandits.sim.gpu.backend import text_of
from coopbandits.sim.gpu.emulated import Emulated

REGISTERS = {
    "play": 168,
    "mix_dense": 128,
    "mix_sparse": 64,
    "runs": 128,
    "one_round": 128,
    "central": 128,
    "fold": 64,
    "accumulate": 40,
    "scale": 40,
}
"""The most that a kernel may take for 17 arms, so that a multiprocessor holds as many agents as it
is to."""

SPILLS = {"play": 32, "runs": 80, "central": 48}
"""Bytes that may be spilled: with more registers and fewer agents kernels are slower. Others spill
none."""

SPILLS_OF = {"sm_100": SPILLS | {"play": 72}}
"""Where they are others. Kernels were tuned, and timed, on sm_90 alone."""

FOUND = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers",
    re.DOTALL,
)


class Listing(Emulated):
    """Plays nothing, and remembers what it was to compile."""

    def __init__(self) -> None:
        self.sources: dict[str, None] = {}

    def compile(self, source: str) -> Any:
        self.sources[source] = None
        return self

    def launch(self, *_: Any) -> None:
        """Do nothing."""


@pytest.fixture(scope="module")
def sources() -> list[str]:
    listing = Listing()
    for policy, graph, horizon in (
        ("dducb", "cycle:100", 300),
        (STAGED, "regular:8,2000", 60),
        ("dec-ts", "cycle:100", 3),
        ("dec-ts", "regular:8,2000", 3),
        ("central-ts", "cycle:100", 3),
    ):
        task = Case("", policy, graph, horizon, 1).task()
        parts = parts_of(task)
        gpu.DRIVERS[type(parts.aggregation)](parts, task, range(1), lambda _: None, listing)
    return list(listing.sources)


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["sm_90", "sm_80", "sm_100"])
def test_registers_and_spills(arch: str, sources: list[str]) -> None:
    device = pytest.importorskip(
        "coopbandits.sim.gpu.device", reason="cuda-core and NVRTC are not installed"
    )
    seen = set()
    for source in sources:
        log = io.StringIO()
        device.compiled(text_of("device.h") + source, arch, log)
        for name, stores, loads, registers in FOUND.findall(log.getvalue()):
            seen.add(name)
            assert int(registers) <= REGISTERS[name], name
            assert max(int(stores), int(loads)) <= SPILLS_OF.get(arch, SPILLS).get(name, 0), name
    assert seen == set(REGISTERS)
