"""The functions as numba compiles them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

from coopbandits.core.special import FUNCTIONS

for _function in FUNCTIONS:
    register_jitable(_function)


@cache
def compiled(function: Any, num_arguments: int) -> Any:
    """Return a compiled loop over arrays that calls a function of two or three floats."""
    if num_arguments == 2:

        @numba.njit  # type: ignore[untyped-decorator]  # numba is not typed
        def pairs(x: Any, y: Any) -> Any:
            values = np.empty(x.size)
            for i in range(x.size):
                values[i] = function(x[i], y[i])
            return values

        return pairs

    @numba.njit  # type: ignore[untyped-decorator]  # numba is not typed
    def triples(x: Any, y: Any, z: Any) -> Any:
        values = np.empty(x.size)
        for i in range(x.size):
            values[i] = function(x[i], y[i], z[i])
        return values

    return triples
