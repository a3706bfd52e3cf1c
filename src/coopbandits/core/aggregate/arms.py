"""Arms that come while an agent goes on: registers of some arms as registers of others.

Only the statistic knows where the registers of an arm are (`Registers.moved`); a machine says in
which of its fields, and where in a message, there are registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import State
from coopbandits.core.statistic import Registers

Rows = NDArray[np.float64]

Around = tuple[int, int]
"""How many other values stand before and behind the registers in a row."""


def moved_rows(
    rows: Rows, here: Registers, there: Registers, places: Sequence[int], around: Around
) -> Rows:
    """Return rows with registers of other arms as rows with these: arm k there is `places[k]`."""
    begin, end = around[0], rows.shape[-1] - around[1]
    moved = here.moved(rows[..., begin:end], there, places)
    return np.concatenate([rows[..., :begin], moved, rows[..., end:]], axis=-1)


def widened_fields(
    state: State,
    here: Registers,
    narrow: Registers,
    registered: Mapping[str, Around],
    counted: Mapping[str, int],
) -> State:
    """Return fields about fewer arms, the first of these, as fields about these.

    `registered` fields hold registers, `counted` ones pulls by arm with so many values behind them.
    """
    found, added = dict(state), here.num_arms - narrow.num_arms
    for name in state.keys() & registered.keys():
        rows = np.array(state[name])
        places = range(narrow.num_arms)
        found[name] = moved_rows(rows, here, narrow, places, registered[name]).tolist()
    for name in state.keys() & counted.keys():
        rows = np.array(state[name])
        parts = np.split(rows, [rows.shape[-1] - counted[name]], axis=-1)
        room = np.zeros((*rows.shape[:-1], added))
        found[name] = np.concatenate([parts[0], room, parts[1]], axis=-1).tolist()
    return found
