"""Every check of the transport contract catches what it is for."""

from __future__ import annotations

import pytest

from coopbandits.core import InputError
from coopbandits.fleet.transport.memory import MemoryNetwork, MemoryTransport
from coopbandits.testing import TransportCheckError, check_transport
from coopbandits.testing.transport import TRANSPORT_CHECKS

from . import broken_transport as broken
from . import simulated
from .broken_transport import Using

pytestmark = pytest.mark.plays

BROKEN: dict[str, tuple[MemoryNetwork, ...]] = {
    "one link": (
        Using(broken.NeverStarts),
        Using(broken.ComesUpTwice),
        Using(broken.FlapsAtFirst),
    ),
    "bytes in order": (
        Using(broken.AddsAByte),
        Using(broken.CutsLongMessages),
        Using(broken.LongMessagesAreFaster),
        Using(broken.RefusesLongMessages),
    ),
    "several neighbors": (Using(broken.SendsToTheFirst),),
    "nobody there": (
        Using(broken.IsAlwaysOptimistic),
        Using(broken.InventsLinks),
        Using(broken.DropsTheUnknown),
    ),
    "drop and return": (
        Using(broken.DropsAtOneEnd),
        Using(broken.DropsAtOnce),
        Using(broken.DropsForGood),
        Using(broken.DropsTwice),
        Using(broken.ForgetsTheReason),
    ),
    "restart": (Using(broken.ForgivesNobody), Using(broken.StaysUpWithoutTheOther)),
    "stop ends everything": (
        Using(broken.LeavesATask),
        Using(broken.TalksAfterStop),
        Using(broken.StopsOnce),
        Using(broken.SendsAfterStop),
    ),
    "full buffer": (
        Using(broken.FullAndStillUp),
        Using(broken.GarblesWhatIsTooMuch),
        Using(MemoryTransport, max_waiting=1 << 40),
    ),
    "strangers": (
        Using(broken.AdmitsAnybody),
        Using(broken.RefusesSilently),
        Using(broken.AdmitsAndComplains),
        Using(broken.LetsStrangersSend),
        Using(broken.IsEasilyShocked),
    ),
}


def test_every_check_has_a_broken_transport() -> None:
    assert list(BROKEN) == [check.__name__.replace("_", " ") for check in TRANSPORT_CHECKS]


def test_every_check_tells_a_user_what_it_demands() -> None:
    assert all(check.__doc__ for check in TRANSPORT_CHECKS)


@pytest.mark.parametrize(
    ("name", "network"),
    [
        pytest.param(name, network, id=f"{name}-{number}")
        for name, networks in BROKEN.items()
        for number, network in enumerate(networks)
    ],
)
def test_a_broken_transport_is_caught_by_the_check_for_it(
    name: str, network: MemoryNetwork
) -> None:
    with pytest.raises(TransportCheckError, match=rf"'{name}'.*expected") as caught:
        check_transport(network.transport, run=simulated.run)
    assert "\n" not in str(caught.value)


def test_patience_must_be_positive() -> None:
    with pytest.raises(InputError, match=r"patience.*0"):
        check_transport(MemoryNetwork().transport, patience=0)
