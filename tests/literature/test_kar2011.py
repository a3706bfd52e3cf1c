"""One observer: who is near it learns sooner."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits import InputError, Network
from coopbandits.literature import one_observer

MEANS = [0.2, 0.9, 0.4]


def test_an_observer_alone_plays_ucb_and_followers_do_as_it_believes() -> None:
    result = one_observer(MEANS, Network.from_spec("path:5"), horizon=300, runs=3)
    regret = result.agent_regret.mean(axis=0)
    assert result.agent_regret.shape == (3, 5)
    assert result.messages.tolist() == [300 * 7] * 3  # four links both ways, but to the observer
    assert result.bits.tolist() == [300 * 7 * 3 * 64] * 3
    assert (np.diff(regret[1:]) > 0).all()  # the farther, the later
    assert regret[0] > regret[1]  # followers need not explore
    lost = one_observer(MEANS, Network.from_spec("path:5"), horizon=300, observer=4, runs=3)
    assert lost.agent_regret.mean(axis=0)[0] == lost.agent_regret.mean(axis=0)[:4].max()


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"observer.* 5\b.* 0 to 4\b"):
        one_observer(MEANS, Network.from_spec("path:5"), 10, observer=5)
