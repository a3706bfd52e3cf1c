"""A policy migrated on a running fleet of real processes, under load and kills."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .applications import totals
from .test_changes_live import BUTTON, Fleet, same
from .transport.nodes import places

STEPS = [("ledger-ts", 1), ("flood-ts", 2), ("ledger-ts", 3)]


@contextmanager
def fleet_of(size: int, folder: Path) -> Iterator[Fleet]:
    names = [f"shop-{number}" for number in range(1, size + 1)]
    with places(*names) as at:
        listen = {name: str(place) for name, place in at.items()}
        made = Fleet(folder, listen, {"button": BUTTON})
        try:
            yield made
        finally:
            made.end()


def eras(fleet: Fleet) -> set[tuple[str, int]]:
    """Return the policies and eras of all agents."""
    found = set()
    for name in fleet.running:
        with fleet.agents[name].client() as client:
            found |= {(state.policy, state.era) for state in client.bandits()}
    return found


def await_era(fleet: Fleet, policy: str, era: int) -> None:
    fleet.until(lambda: eras(fleet) == {(policy, era)}, f"not all are in era {era}")


def migrate(fleet: Fleet, steps: list[tuple[str, int]], seconds: float) -> None:
    """Change the policy under load; agents die right after they have taken each document."""
    fleet.start(*fleet.names)
    fleet.begun = time.monotonic()
    fleet.use(*fleet.names)
    for policy, era in steps:
        time.sleep(seconds)  # of load, for pulls in every era
        table = BUTTON | {"policy": policy, "era": era}
        fleet.rule(f"{policy} in era {era}", {"button": table})
        await_era(fleet, policy, era)
        fleet.kill_two()
    for application in fleet.applications.values():
        application.stop()
    for name, application in fleet.applications.items():
        application.join()
        assert application.failure is None, (name, application.failure)
        assert not application.owed, f"{name} acknowledged no more"
    ended, expected = time.monotonic(), totals(fleet.applications.values())
    fleet.until(
        lambda: all(same(fleet.learned(name), expected) for name in fleet.running),
        f"not all count {expected}",
    )
    print("\n".join(f"{at:6.1f} s  {what}" for at, what in fleet.story))
    print(f"{expected}, counted by all {time.monotonic() - ended:.1f} s after the load")
    assert sum(pulls for pulls, _ in expected.values()) > 0
    assert "Traceback" not in fleet.logs()


def test_three_agents_change_their_policy_and_count_every_reward_once(tmp_path: Path) -> None:
    with fleet_of(3, tmp_path) as fleet:
        migrate(fleet, STEPS[:1], 0.2)


@pytest.mark.slow
def test_twelve_agents_change_their_policy_and_back_and_count_every_reward_once(
    tmp_path: Path,
) -> None:
    with fleet_of(12, tmp_path) as fleet:
        migrate(fleet, STEPS, 4.0)
