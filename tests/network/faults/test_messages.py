"""Messages are lost and late as often as asked for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.network.faults import LOST, Bursts, Delay, Faults, Kind, Loss, parse_faults

NETWORK = Network.from_spec("grid:5x5")


def fates(*kinds: Kind, rounds: int = 2000, run: int = 0) -> NDArray[np.int16]:
    return Faults(*kinds).schedule(NETWORK, 3, run).read(rounds).fate


def near(share: float, expected: float, size: int) -> bool:
    return abs(share - expected) < 5.0 * float(np.sqrt(expected * (1 - expected) / size))


def correlation(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    return float(np.corrcoef(left.ravel(), right.ravel())[0, 1])


@pytest.mark.parametrize("probability", [0.05, 0.3, 0.9])
def test_loss_is_independent_from_message_to_message(probability: float) -> None:
    lost = fates(Loss(probability)) == LOST
    assert near(lost.mean(), probability, lost.size)
    bound = 5 / np.sqrt(lost.size / 2)
    assert abs(correlation(lost[1:], lost[:-1])) < bound  # of one link, in time
    assert abs(correlation(lost[:, 1:], lost[:, :-1])) < bound  # of different links
    other = fates(Loss(probability), run=1) == LOST
    assert abs(correlation(lost, other)) < bound


def test_nothing_and_everything_is_lost() -> None:
    assert (fates(Loss(0.0)) == 0).all()
    assert (fates(Loss(1.0)) == LOST).all()


def test_losses_add_up() -> None:
    lost = fates(Loss(0.5), Loss(0.5)) == LOST
    assert near(lost.mean(), 0.75, lost.size)


def test_bursts_come_in_spells() -> None:
    """Given that a message was lost, the next one is with probability 1 − 1/bad."""
    lost = fates(Bursts(40.0, 10.0)) == LOST
    again = lost[1:][lost[:-1]]
    assert near(again.mean(), 0.9, again.size)
    # Spells make samples dependent: (up + down) rounds hold about one independent one.
    assert near(lost.mean(), 0.2, lost.size // 50)


def test_both_directions_have_bursts_of_their_own() -> None:
    network = Network.from_spec("path:2")
    runs = [Faults(Bursts(5.0, 5.0)).schedule(network, 3, r).read(1).fate for r in range(400)]
    lost = np.concatenate(runs) == LOST
    assert abs(correlation(lost[:, 0], lost[:, 1])) < 5 / np.sqrt(400)


def test_bad_spells_may_let_messages_through() -> None:
    whole, part = (fates(Bursts(20.0, 10.0, loss)) == LOST for loss in (1.0, 0.4))
    assert (whole | ~part).all()  # the same spells
    kept = part[whole]
    assert near(kept.mean(), 0.4, kept.size)


def test_delays_are_equally_likely() -> None:
    late = fates(Delay(3))
    for rounds in range(4):
        assert near((late == rounds).mean(), 0.25, late.size)
    assert (fates(Delay(0)) == 0).all()


def test_delays_add_up_and_lost_messages_are_never_late() -> None:
    both = fates(Delay(2), Delay(3), Loss(0.2))
    assert set(np.unique(both).tolist()) == {LOST, 0, 1, 2, 3, 4, 5}
    assert near((both == LOST).mean(), 0.2, both.size)


def test_what_kinds_draw_does_not_depend_on_the_others() -> None:
    alone = fates(Loss(0.3)) == LOST
    together = fates(Loss(0.3), Delay(4), Bursts(20.0, 5.0))
    assert (together[alone] == LOST).all()
    late = fates(Delay(4))
    assert np.array_equal(together[together != LOST], late[together != LOST])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("loss=1.4", r"loss.* 1\.4\b"),
        ("loss=-0.1", r"loss.* -0\.1\b"),
        ("loss=much", "loss.* 'much'"),
        ("bursts=0.5..3", r"bursts.* 0\.5\b"),
        ("bursts=5..0", r"bursts.* 0\b"),
        ("bursts=5..3:2", r"bursts.* 2\b"),
        ("delay=1.5", r"delay.* 1\.5\b"),
        ("delay=1001", r"delay.* 1001\b.* 1000\b"),
    ],
)
def test_bad_settings(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_faults(text)
