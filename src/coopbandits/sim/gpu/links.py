"""Whom agents average with, on the device."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from coopbandits.network import Network
from coopbandits.sim.gpu.runs import DeviceRuns

MOST_LINKS = 17
"""Neighbours, and the agent itself, whose values a thread fetches all at once."""


def links_there(state: DeviceRuns, matrix: Any) -> tuple[int, tuple[Any, Any, Any]]:
    """Return the degree of all agents and their links in P, or 0 where degrees or weights differ.

    Links are neighbours (twice) and two weights where there is a degree; else where each row
    begins, whose values it has, and their weights.
    """
    upload = state.backend.upload
    if (regular := _regular_once(state.task.network, matrix)) is not None:
        degree, near, weights = regular
        there = upload(near)
        return degree, (there, there, state.upload(weights))
    return 0, rows_there(state, matrix)


def rows_there(state: DeviceRuns, matrix: Any) -> tuple[Any, Any, Any]:
    """Return P's rows on the device: where each begins, whose values, and their weights."""
    upload = state.backend.upload
    indptr = matrix.indptr.astype(np.int32, copy=False)
    indices = matrix.indices.astype(np.int32, copy=False)
    return upload(indptr), upload(indices), state.upload(matrix.data)


def links_of_each(matrix: Any) -> int:
    """Return how many entries every row of P has, or 0 where they differ or are many."""
    sizes = np.diff(matrix.indptr)
    most = int(sizes.max())
    return most if most <= MOST_LINKS and (sizes == most).all() else 0


_regular: WeakKeyDictionary[Network, Any] = WeakKeyDictionary()
"""What `regular_links` has found: with a million agents that takes a tenth of a second."""


def _regular_once(network: Network, matrix: Any) -> Any:
    if matrix is not network.matrix:
        return regular_links(matrix)
    if network not in _regular:
        _regular[network] = regular_links(matrix)
    return _regular[network]


def regular_links(
    matrix: Any,
) -> tuple[int, NDArray[np.int32], NDArray[np.float64]] | None:
    """Return degree, neighbours and two weights of a P that has the same for all agents, or None.

    The weights are that of the own value and that of a link; no other need be read then.
    """
    agents = matrix.shape[0]
    degree = links_of_each(matrix) - 1
    if degree < 1:
        return None
    rows = np.arange(agents, dtype=matrix.indices.dtype)[:, np.newaxis]
    is_own = (matrix.indices.reshape(agents, -1) == rows).reshape(-1)
    if np.count_nonzero(is_own) != agents:
        return None
    own, others = matrix.data[is_own], np.logical_not(is_own, out=is_own)
    theirs = matrix.data[np.argmax(others)]
    alike = np.count_nonzero(matrix.data == theirs) - (agents if own[0] == theirs else 0)
    if (own != own[0]).any() or alike != agents * degree:
        return None
    near = np.compress(others, matrix.indices).astype(np.int32, copy=False)
    return degree, near, np.array([own[0], theirs])
