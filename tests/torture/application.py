"""An application that asks one agent, and the account it keeps of what was acknowledged.

It behaves as applications do: it hands in rewards late, twice, never, with another value, and asks
again when it got no answer. A reward without an answer is in doubt: it may count, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from coopbandits.core.aggregate.forgetting import DISCOUNT
from coopbandits.core.draws import word_at
from coopbandits.core.errors import InputError
from coopbandits.fleet.service import ExpiredTicketError, UnavailableError, UnknownTicketError
from tests.torture.bandits import OPTIONS
from tests.torture.schedule import SECOND
from tests.torture.words import words_of

if TYPE_CHECKING:
    from tests.torture.process import Process

RETRY = SECOND * 3 // 10
LIFETIME = 4.0
"""Seconds until a ticket expires."""
LIMITS = (20, 3, 8)
"""Limits of open tickets, of one start after the other; bursts of choices go beyond them."""


class ViolationError(Exception):
    """A promise that was not kept, in one sentence."""


class Answer(NamedTuple):
    """A ticket as the application knows it, `arm` being an option's place.

    `chosen_at` is by its agent's clock.
    """

    arm: int
    chosen_at: float


class Reward(NamedTuple):
    """A reward to hand in."""

    ticket: str
    value: float


@dataclass
class Account:
    """What one agent's application knows; `acknowledged` and `doubt` are rewards by ticket.

    `ticks` are the times at which rewards were handed in, as agents that forget count it.
    """

    tickets: dict[str, Answer] = field(default_factory=dict)
    acknowledged: dict[str, float] = field(default_factory=dict)
    doubt: dict[str, float] = field(default_factory=dict)
    counts: list[int] = field(default_factory=lambda: [0] * len(OPTIONS))
    sums: list[float] = field(default_factory=lambda: [0.0] * len(OPTIONS))
    ticks: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Account:
        """Return it as it is now, as a backup of the journal would tell it."""
        return Account(
            dict(self.tickets),
            dict(self.acknowledged),
            dict(self.doubt),
            list(self.counts),
            list(self.sums),
            dict(self.ticks),
        )

    def acknowledge(self, reward: Reward) -> None:
        """Note that a reward counts for certain."""
        if reward.ticket not in self.acknowledged:
            arm = self.tickets[reward.ticket].arm
            self.counts[arm] += 1
            self.sums[arm] += reward.value
            self.acknowledged[reward.ticket] = reward.value
        self.doubt.pop(reward.ticket, None)

    def discounted(self, ticks: Sequence[int]) -> list[float] | None:
        """Return sums and counts as they must count; None if that is not certain.

        `ticks` are the times at which they are looked at, by option.
        """
        if self.doubt or len(self.acknowledged) != sum(self.counts):
            return None
        found = [0.0] * (2 * len(OPTIONS))
        for ticket, value in self.acknowledged.items():
            arm = self.tickets[ticket].arm
            weight = DISCOUNT ** (ticks[arm] - self.ticks[ticket])
            found[arm] += weight * value
            found[len(OPTIONS) + arm] += weight
        return found

    def check(self, counts: list[int], sums: list[float], where: str) -> None:
        """Compare with an agent's own totals: what was acknowledged counts exactly once."""
        if counts == self.counts and sums == self.sums:
            return
        most, high = list(self.counts), list(self.sums)
        for ticket, value in self.doubt.items():
            arm = self.tickets[ticket].arm
            most[arm] += 1
            high[arm] += value
        for arm, (count, total) in enumerate(zip(counts, sums, strict=True)):
            if not (
                self.counts[arm] <= count <= most[arm] and self.sums[arm] <= total <= high[arm]
            ):
                raise ViolationError(
                    f"{where} counts {count} rewards of {OPTIONS[arm].arm}, {total:g} in sum; "
                    f"{self.counts[arm]} were acknowledged, {self.sums[arm]:g} in sum, and "
                    f"{most[arm] - self.counts[arm]} are in doubt"
                )


def reward_of(key: int, at: int, arm: int) -> float:
    """Return a reward in quarters, so that sums are exact; the first arm is the best by far."""
    more: int = word_at(key, at) >> 7 & 1
    return OPTIONS[arm].pays + 0.25 * more


class Application:
    """Asks one agent.

    Parameters
    ----------
    key : int
        Of its words.
    """

    def __init__(self, key: int) -> None:
        self.key, self._words = key, words_of(key)
        self.account = Account()
        self.given: set[str] = set()
        self.given_up: set[str] = set()
        self.sent: dict[str, tuple[Answer, float]] = {}  # rewards that were sent to other agents
        self.refused = 0

    def word(self) -> int:
        """Return its next word."""
        return next(self._words)

    def go_on(self, account: Account) -> None:
        """Continue with another account, as the agent does with another memory.

        Rewards that were sent to other agents may still be on their way, and count once.
        """
        for ticket, (answer, value) in self.sent.items():
            if ticket not in account.acknowledged:
                account.tickets.setdefault(ticket, answer)
                account.doubt[ticket] = value
        self.account = account

    def give_up(self) -> None:
        """Never ask for the tickets of now again: nobody knows what became of them."""
        self.given_up |= self.given

    def took(self, ticket: str, arm: int, now: float) -> None:
        """Note a ticket; one that was given before is a violation."""
        if ticket in self.given:
            raise ViolationError(f"the ticket {ticket} was given twice")
        self.given.add(ticket)
        self.account.tickets[ticket] = Answer(arm, now)

    def hand_in(self, process: Process, reward: Reward, beaten: float) -> bool | None:
        """Hand in a reward; return True if it must be asked again, None if an answer will come.

        `beaten` is the agent's time when it last looked for expired tickets.
        """
        account, (ticket, value) = self.account, reward
        known = account.tickets.get(ticket)
        before, new = account.acknowledged.get(ticket), ticket not in account.doubt
        if before is None and known is not None:
            account.doubt[ticket] = value
        option = None if known is None else known.arm
        now = process.tick_of(option)
        tick = account.ticks.get(ticket, now)
        account.ticks[ticket] = now  # a process that dies now may have written it
        try:
            receipt = process.observe(ticket, value, option)
        except UnavailableError:
            account.ticks[ticket] = tick
            return True
        except InputError as error:
            account.ticks[ticket] = tick
            if isinstance(error, UnknownTicketError | ExpiredTicketError):
                self._refused(known, before, error)
                if "was abandoned because" in str(error):
                    self._abandoned(ticket, process.newest_ticket(option))
                if new:  # it was refused the first time, so it does not count for certain
                    account.doubt.pop(ticket, None)
            return False  # or another reward than the one that counts
        if receipt.duplicate:
            account.ticks[ticket] = tick
        if known is None:
            raise ViolationError(f"a reward for {ticket} was taken, of a choice that was forgotten")
        names = (OPTIONS[known.arm].arm, *(("(purged)",) if receipt.duplicate else ()))
        if receipt.arm not in names or receipt.reward != value:
            raise ViolationError(f"{reward} was taken as {receipt}")
        if not receipt.duplicate and before is not None:
            raise ViolationError(f"the reward for {ticket} was acknowledged twice")
        if not receipt.duplicate and known.chosen_at + LIFETIME < beaten:
            raise ViolationError(f"the reward for {ticket} was taken after the ticket had expired")
        return None

    def _abandoned(self, ticket: str, newest: int) -> None:
        newer = newest - int(ticket.partition("@")[0].rpartition("-")[2])
        if newer < min(LIMITS):
            raise ViolationError(f"the ticket {ticket} was abandoned for {newer} newer ones")

    def _refused(self, known: Answer | None, before: float | None, error: InputError) -> None:
        self.refused += 1
        if known is not None and before is None and isinstance(error, UnknownTicketError):
            raise ViolationError(f"the agent knows nothing of a ticket that it gave: {error}")
