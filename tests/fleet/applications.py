"""Applications that use real agents, and write down every reward that was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coopbandits.fleet.client import Client, UnreachableError
from coopbandits.fleet.local.faults import Dice
from coopbandits.fleet.service import UnavailableError

PAUSE = 0.1
"""Seconds between two choices."""

DELAYS = (0.0, 0.2, 1.0, 3.0)
"""Seconds from a choice to its reward."""

PATIENCE = 60.0
"""Seconds in which the last rewards are acknowledged."""


class Owed(NamedTuple):
    """A reward that is still to be handed in."""

    due: float
    bandit: str
    ticket: str
    reward: float


class Acknowledged(NamedTuple):
    """A reward for which an agent has given a receipt."""

    bandit: str
    arm: str
    reward: float
    duplicate: bool


class Chosen(NamedTuple):
    """What an agent chose, and when it was asked."""

    asked: float
    bandit: str
    arm: str


class Application(threading.Thread):
    """Asks one agent again and again, of one bandit after the other, and hands in rewards late.

    What is not answered is handed in again until it is: an agent that counted it before it died
    says so.

    Parameters
    ----------
    address : str
        The agent's API.
    contexts : dict
        The bandits, and for each what makes a context of 64 random bits, or None.
    seed : int
        Of rewards and contexts.
    """

    def __init__(
        self, address: str, contexts: dict[str, Callable[[int], Any] | None], seed: int
    ) -> None:
        super().__init__(daemon=True)
        self.client = Client(address, timeout=1.0)
        self.contexts, self.dice = contexts, Dice(seed, 0)
        self.log: list[Acknowledged] = []
        self.choices: list[Chosen] = []
        self.owed: list[Owed] = []
        self.failure: Exception | None = None
        self._over, self._hurries = threading.Event(), False

    def run(self) -> None:
        """Use the agent until told otherwise, and then until all rewards are acknowledged."""
        try:
            while not self._over.is_set():
                for bandit in self.contexts:
                    self._choose(bandit)
                    self._hand_in()
                    self._over.wait(PAUSE)
            end, self._hurries = time.monotonic() + PATIENCE, True
            while self.owed and time.monotonic() < end:
                self._hand_in()
        except Exception as error:  # the test shows it
            self.failure = error
        finally:
            self.client.close()

    def stop(self) -> None:
        """Have it ask no more."""
        self._over.set()

    def _choose(self, bandit: str) -> None:
        make, asked = self.contexts[bandit], time.monotonic()
        context = make(self.dice.word()) if make else None
        try:
            choice = self.client.bandit(bandit).choose(context=context)
        except UnavailableError:  # it is about to stop, and waits for what is owed
            self._hurries = True
            return
        except UnreachableError:
            return
        self.choices.append(Chosen(asked, bandit, choice.arm))
        reward = self.dice.word() % 5 / 4  # sums of which have no rounding
        due = asked + self.dice.pick(DELAYS)
        self.owed.append(Owed(due, bandit, choice.ticket, reward))

    def _hand_in(self) -> None:
        """Hand in what is due; keep what nobody answers."""
        kept, now = [], time.monotonic()
        for at, each in enumerate(self.owed):
            if each.due > now and not self._hurries:
                kept.append(each)
                continue
            try:
                receipt = self.client.bandit(each.bandit).observe(each.ticket, each.reward)
            except (UnreachableError, UnavailableError):
                kept += self.owed[at:]
                time.sleep(PAUSE)
                break
            told = Acknowledged(each.bandit, receipt.arm, each.reward, receipt.duplicate)
            self.log.append(told)
        self.owed = kept


def totals(applications: Iterable[Application]) -> dict[tuple[str, str], tuple[int, float]]:
    """Return pulls and rewards of every arm of every bandit, by the logs of applications."""
    found: dict[tuple[str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for application in applications:
        for each in application.log:
            pulls, rewards = found[each.bandit, each.arm]
            found[each.bandit, each.arm] = pulls + 1, rewards + each.reward
    return dict(found)
