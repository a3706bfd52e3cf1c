"""A result and a sweep that version 0.1 stored are read, and hold what is played today."""

from __future__ import annotations

import shutil
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coopbandits as cb

from .recorded import cells, simulated

RECORDED = Path(__file__).parents[1] / "recorded"


class Idle(Executor):
    """Refuses to play."""

    def submit(self, *args: Any, **keywords: Any) -> Future[Any]:
        pytest.fail("a finished cell was played again")


def test_a_result_of_0_1_has_its_numbers() -> None:
    result = cb.Result.load(RECORDED / "result-0.1")
    assert result.meta["versions"]["coopbandits"] == "0.1.0"
    assert result.policies == ["dducb", "flood-ts"]
    assert result.regret[:, :, -1].values.tolist() == [[59.0, 71.0], [13.75, 26.5]]
    assert result.values_sent.values.tolist() == [[6213, 6211], [22408, 22560]]
    assert result.deliveries["lost"].values.tolist() == [[330, 327], [339, 342]]
    by_arm = result.pulls.sum("agent")
    assert by_arm.values.tolist() == [
        [[134, 292, 34], [164, 256, 40]],
        [[16, 431, 13], [79, 372, 9]],
    ]
    assert [row.mean for row in result.summary().policies] == [65.0, 20.125]
    np.testing.assert_array_equal(result.global_regret, result.regret)


def test_what_was_not_recorded_then_is_not_made_up() -> None:
    result = cb.Result.load(RECORDED / "result-0.1")
    with pytest.raises(cb.InputError, match="worst agent"):
        _ = result.worst_regret
    heading, *rows = result.summary().tables[0][1]
    assert [row[heading.index("worst agent")] for row in rows] == ["–", "–"]


def test_a_result_of_0_1_is_played_again() -> None:
    stored, played = cb.Result.load(RECORDED / "result-0.1"), simulated()
    assert played.meta["settings"] == stored.meta["settings"]
    rounded, later = "realized_regret", ["global_regret", "worst_regret"]
    known = played.dataset.drop_vars(later)
    assert known.drop_vars(rounded).identical(stored.dataset.drop_vars(rounded))
    np.testing.assert_allclose(played.dataset[rounded], stored.dataset[rounded], rtol=1e-9)


def test_a_sweep_of_0_1_is_found_finished(tmp_path: Path) -> None:
    folder = shutil.copytree(RECORDED / "sweep-0.1", tmp_path / "sweep")
    done = cb.sweep(cells(), folder, Idle(), progress=False)
    assert not done.failed
    found = {cell.policy.spelling: result for cell, result in done.results}
    assert {name: result.regret[0, :, -1].values.tolist() for name, result in found.items()} == {
        "dducb": [68.5, 52.0],
        "tree-ts": [21.75, 24.5],
    }
