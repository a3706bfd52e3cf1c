from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopbandits.core.errors import InputError
from coopbandits.problems import LoggedBandit

NAN = float("nan")


def test_basics() -> None:
    problem = LoggedBandit(np.array([[0.0, 5.0], [1.0, NAN], [2.0, 9.0]]))
    assert problem.means.tolist() == [1.0, 7.0]
    assert problem.num_rewards == (3, 2)
    assert problem.arm_names == ("0", "1")
    assert problem.sigma == 2.0
    assert problem.variate == "uniform"


def test_every_logged_reward_is_equally_likely() -> None:
    problem = LoggedBandit([np.array([4.0, NAN, 1.0, 1.0])])
    uniform = (np.arange(3000) + 0.5) / 3000
    rewards = problem.rewards(np.zeros(3000, dtype=int), uniform)
    assert np.unique(rewards, return_counts=True)[1].tolist() == [2000, 1000]
    assert rewards.mean() == pytest.approx(2.0, abs=1e-12)


def test_order_does_not_matter() -> None:
    assert LoggedBandit({0: [1.0, 2.0]}) == LoggedBandit({0: [2.0, NAN, 1.0]})


def test_constant_arms_need_sigma() -> None:
    with pytest.raises(InputError, match=r"sigma.* 0\b"):
        LoggedBandit(np.array([[0.1, 0.5]] * 3))
    problem = LoggedBandit(np.array([[0.1, 0.5]] * 3), sigma=1.0)
    assert problem.means.tolist() == [0.1, 0.5]
    assert problem.sigma == 1.0


def test_own_sigma_is_checked() -> None:
    with pytest.raises(InputError, match=r"sigma.* 0\b"):
        LoggedBandit({0: [0.1, 0.5]}, sigma=0)


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=50), st.floats(-5, 5))
def test_sigma_is_a_proxy(values: list[float], x: float) -> None:
    problem = LoggedBandit(np.array([values]).T, sigma=max(np.ptp(values) / 2, 1e-9))
    log_mgf = np.log(np.mean(np.exp(x * (np.array(values) - problem.means[0]))))
    assert log_mgf <= x**2 * problem.sigma**2 / 2 + 1e-9


@pytest.mark.parametrize(
    ("rewards", "names", "sentence"),
    [
        (
            np.array([[0.1, NAN], [0.2, NAN]]),
            ["a", "b"],
            "arm 'b'",
        ),
        (
            np.array([[0.1], [float("inf")]]),
            None,
            "row 1.*'0'.* inf",
        ),
        ([0.1, 0.2], None, r"\(2,\)"),
        (np.zeros((3, 0)), None, r"\(3, 0\)"),
        (np.zeros((0, 2)), None, "arm '0'"),
        ([["a"]], None, r"\[\['a'\]\]"),
        (np.array([[0.1, 0.2]]), ["a"], r"arm_names.*\['a'\].* 2 arms"),
        ([[0.1, 0.2]], ["a", "a"], r"arm_names.*\['a', 'a'\]"),
    ],
)
def test_refuses(rewards: Any, names: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        LoggedBandit(rewards, names)


def test_from_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("red,green\n0.5,\n1.5,3\n")
    problem = LoggedBandit.from_file(path, sigma=2.0)
    assert problem.arm_names == ("red", "green")
    assert problem.means.tolist() == [1.0, 3.0]
    assert problem.sigma == 2.0
    assert problem.describe()["num_rewards"] == [2, 1]
