"""Applications that meet one agent with a choice, and another one with its reward.

A reward that is on its way to the agent that issued its ticket may count at any time, once, until
the application has an answer; so it is in doubt, in the account of that agent. Units are users that
come back: whoever chooses for them as their owner gives them the same arm, as long as its memory
lasts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coopbandits.core.errors import InputError
from coopbandits.fleet.service import (
    Choice,
    Pending,
    RateLimitError,
    Receipt,
    UnavailableError,
    UnknownTicketError,
)
from coopbandits.fleet.storage.units import unit_hash
from tests.torture.actor import Actor
from tests.torture.application import Account, Reward, ViolationError
from tests.torture.bandits import EXTRA, NUMBERS, OPTIONS, PLACES, SIDE, option_of
from tests.torture.schedule import MAIN, SECOND

if TYPE_CHECKING:
    from tests.torture.process import Process
    from tests.torture.visits import Visits

UNITS = 12
STICKY_SECONDS = 1e6
"""No unit is forgotten for its age within a run."""
PATIENCE = 3 * SECOND
"""After so long without any answer the application asks again."""

Outcome = Receipt | Exception


class Elsewhere:
    """The applications of a stage, as far as they meet several agents."""

    def __init__(self, visits: Visits) -> None:
        self.visits, self.stage = visits, visits.stage
        self._given: dict[tuple[str, str, int], tuple[Account, int]] = {}
        self.forwarded = self.sticky = 0

    # Rewards

    def submit(self, actor: Actor, reward: Reward, word: int) -> bool:
        """Submit a reward of an agent's ticket to another one; return whether that was possible."""
        others = [each for each in self.stage.actors if each is not actor]
        other = others[(word >> 10) % len(others)]
        process, account = other.process, actor.app.account
        known = account.tickets.get(reward.ticket)
        if process is None or other.awake_at > self.stage.time or known is None:
            return False
        if actor.uncertain or self.stage.checks.forgets:  # when it counts matters, too
            return False
        option = OPTIONS[known.arm]
        if option.bandit == SIDE and not process.has_side:
            return False
        if reward.ticket not in account.acknowledged:
            account.doubt[reward.ticket] = reward.value
        _, before = actor.app.sent.get(reward.ticket, (known, 0.0))
        actor.app.sent[reward.ticket] = known, max(before, reward.value)  # it may be another one
        ended: list[Outcome] = []
        arrived = partial(self._arrived, actor, account, reward, word, ended)
        self.stage.lives.act(other, self._submit, process, option.bandit, reward, arrived)
        self.stage.plan(PATIENCE, self._overdue, actor, reward, word, ended)
        return True

    def _submit(
        self, process: Process, bandit: str, reward: Reward, arrived: partial[None]
    ) -> None:
        self.stage.trace.note(self.stage.time, "elsewhere", int(4 * reward.value))
        try:
            found = process.service.bandit(bandit).submit(reward.ticket, reward.value)
        except (InputError, UnavailableError) as error:
            arrived(error)
            return
        if not isinstance(found, Pending):
            raise ViolationError(f"another agent counted {reward} itself")
        found.then(arrived)

    def _overdue(self, actor: Actor, reward: Reward, word: int, ended: list[Outcome]) -> None:
        if not ended:  # the agent asked has died
            ended.append(TimeoutError())
            self._again(actor, reward, word)

    def _again(self, actor: Actor, reward: Reward, word: int) -> None:
        self.visits.again(actor, reward, word + (1 << 8))

    def _arrived(
        self,
        actor: Actor,
        account: Account,
        reward: Reward,
        word: int,
        ended: list[Outcome],
        got: Outcome,
    ) -> None:
        """Note an answer about a reward, in the account of that time."""
        if ended:
            return
        ended.append(got)
        if isinstance(got, UnavailableError | RateLimitError):
            self._again(actor, reward, word)
        elif isinstance(got, InputError):
            lost = actor.app.account is not account or actor.uncertain
            if isinstance(got, UnknownTicketError) and not lost:
                raise ViolationError(f"an agent knows nothing of a ticket that it gave: {got}")
        elif isinstance(got, Exception):
            raise ViolationError(f"a reward for another agent failed: {got!r}")
        else:
            arm = OPTIONS[account.tickets[reward.ticket].arm].arm
            if got.arm not in (arm, "(purged)") or got.reward != reward.value:
                raise ViolationError(f"{reward} was taken as {got} elsewhere")
            self.forwarded += 1
            account.acknowledge(reward)

    # Units

    def choose(self, actor: Actor, process: Process, word: int) -> None:
        """Ask an agent to choose for a unit."""
        bandit = SIDE if word >> 7 & 1 and process.has_side else MAIN
        unit = f"user-{(word >> 20) % UNITS}"
        accounts = [each.app.account for each in self.stage.actors]
        try:
            found = process.service.bandit(bandit).choose_for(unit)
        except UnavailableError:
            self.stage.checks.unavailable(actor)
            return
        except RateLimitError:
            return
        chosen = partial(self._chosen, actor, process, bandit, unit, accounts, word)
        if isinstance(found, Pending):
            found.then(chosen)
        else:
            chosen(found)

    def _chosen(
        self,
        actor: Actor,
        process: Process,
        bandit: str,
        unit: str,
        accounts: list[Account],
        word: int,
        got: Choice | Exception,
    ) -> None:
        if isinstance(got, UnavailableError | RateLimitError):
            return
        if isinstance(got, Exception):
            raise ViolationError(f"a choice for a unit failed: {got!r}")
        if not got.ticket:
            return
        owner = next(
            each for each in self.stage.actors if each.name == got.ticket.partition("@")[2]
        )
        arm, now = option_of(bandit, got.arm), owner.clock()
        known = partial(self._known, owner, accounts[owner.index], bandit, unit, arm, now, word)
        if owner is actor:
            process.answer(lambda ok: known(got) if ok else None)
        else:  # its owner has answered, so it is on that one's disk
            known(got)

    def _known(
        self,
        owner: Actor,
        account: Account,
        bandit: str,
        unit: str,
        arm: int,
        now: float,
        word: int,
        choice: Choice,
    ) -> None:
        """Note a choice that the application knows of, unless its agent has lost its memory."""
        if owner.app.account is not account or owner.uncertain:
            return
        self.stage.trace.note(self.stage.time, "chose for", owner.index, arm)
        if choice.sticky:
            self._check(owner, account, bandit, unit, arm)
        self.visits.plan_reward(owner, choice.ticket, arm, now, word)

    def started(self, actor: Actor) -> None:
        """Check that an agent that has just read its journal remembers the arms of its units."""
        process = actor.process
        assert process is not None
        for (bandit, unit, owner), (memory, arm) in self._given.items():
            if owner != actor.index or memory is not actor.app.account:
                continue
            hashed = unit_hash(process.config.cluster.name, NUMBERS[bandit], unit)
            found = process.replicas[NUMBERS[bandit]].units.given.get(hashed)
            if found is None or PLACES[NUMBERS[bandit]][found.arm] != arm:
                raise ViolationError(
                    f"{actor.name} remembers {found} of {unit} after a start, and gave it "
                    f"{OPTIONS[arm].arm}"
                )

    def _check(self, owner: Actor, account: Account, bandit: str, unit: str, arm: int) -> None:
        self.sticky += 1
        key = bandit, unit, owner.index
        memory, before = self._given.get(key, (account, arm))
        if OPTIONS[arm].arm == EXTRA:  # which comes and goes
            self._given.pop(key, None)
            return
        if memory is account and before != arm:
            raise ViolationError(
                f"{owner.name} gave {unit} the arm {OPTIONS[arm].arm} after {OPTIONS[before].arm}"
            )
        self._given[key] = account, arm
