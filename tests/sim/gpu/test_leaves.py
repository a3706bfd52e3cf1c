"""The small functions of kernels give the bits of those in `core` and `problems`."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits.core import draws
from coopbandits.problems.rewards import LINEAR, LOCATION_SCALE, STEP, THRESHOLD, RewardForm
from coopbandits.problems.rewards import rewards_from_variates as rewards_of
from coopbandits.sim.gpu.backend import Launch, backend, program

CELLS = 1 << draws.CELL_BITS


def every_cell() -> draws.Words:
    """Words at both ends and in the middle of every cell, and in the farthest tails."""
    cells = np.arange(CELLS, dtype=np.uint64) << draws.CELL_SHIFT
    within = np.array([0, 1 << 30, (1 << 52) + 12345, (1 << 53) - 1], dtype=np.uint64)
    far = np.array([0, 1, 4096, 2**40, 2**64 - 1, 2**64 - 4097], dtype=np.uint64)
    return np.concatenate([(cells[:, None] + within).ravel(), far])


ROWS = {
    LOCATION_SCALE: [0.3, 1.7],
    THRESHOLD: [0.61],
    LINEAR: [0.0, 0.2, 0.2, 0.9, 0.9, 4.0],
    STEP: [3.0, 0.5, -1.0, 2.0, 0.0],
}


@pytest.mark.parametrize("form", ROWS)
def test_bit_for_bit(form: int) -> None:
    there, keys = backend(), every_cell()
    table = np.tile(ROWS[form], (keys.size, 1))
    constants = {"FORM": form, "WIDTH": table.shape[1], "IS_NORMAL": int(form == LOCATION_SCALE)}
    kernels = there.compile(program(("leaves.cu",), constants))
    given = [there.upload(each) for each in (keys, draws.normal_cubics(), table)]
    words = there.zeros(keys.shape, np.uint64)
    found = [there.zeros(keys.shape) for _ in range(4)]
    size = Launch(-(-keys.size // 128), 1, 128)
    kernels.launch("fill", size, *given, keys.size, words, *found)
    uniforms, normals, quantiles, rewards = (there.download(each) for each in found)
    counters = np.arange(keys.size, dtype=np.uint64)
    assert np.array_equal(there.download(words), draws.words_of(keys, counters))
    assert np.array_equal(uniforms, draws.uniforms(keys))
    assert np.array_equal(normals, draws.normals(keys))
    assert np.array_equal(quantiles, [draws.normal_quantile(u) for u in uniforms.tolist()])
    variates = normals if form == LOCATION_SCALE else uniforms
    expected = rewards_of(RewardForm(form, table), np.arange(keys.size), variates)
    assert np.array_equal(rewards, expected)
