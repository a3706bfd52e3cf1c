"""Arms that come and go while an agent goes on: registers of some arms as registers of others.

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


def moved_fields(
    state: State,
    registers: tuple[Registers, Registers],
    places: Sequence[int],
    registered: Mapping[str, Around],
    counted: Mapping[str, int],
) -> State:
    """Return fields about other arms as fields about these: arm k there is `places[k]`.

    `registers` are the new ones and those of before. `registered` fields hold registers, `counted`
    ones pulls by arm with so many values behind them.
    """
    (here, there), found = registers, dict(state)
    filled = {name for name, rows in state.items() if rows}  # no neighbours, no rows about them
    for name in filled & registered.keys():
        rows = np.array(state[name])
        found[name] = moved_rows(rows, here, there, places, registered[name]).tolist()
    for name in filled & counted.keys():
        rows = np.array(state[name])
        pulls, rest = np.split(rows, [rows.shape[-1] - counted[name]], axis=-1)
        found[name] = np.concatenate([moved_pulls(pulls, here.num_arms, places), rest], -1).tolist()
    return found


def moved_pulls(pulls: Rows, num_arms: int, places: Sequence[int]) -> Rows:
    """Return numbers (…, K) of other arms as numbers of these; those with one place are added."""
    found = np.zeros((*pulls.shape[:-1], num_arms), dtype=pulls.dtype)
    for at, place in enumerate(places):
        found[..., place] += pulls[..., at]
    return found
