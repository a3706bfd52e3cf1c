"""What applications do on a stage: they choose, hand in rewards, and ask again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coopbandits.fleet.service import RateLimitError, UnavailableError
from tests.torture.actor import Actor
from tests.torture.application import LIFETIME, RETRY, Account, Reward, reward_of
from tests.torture.elsewhere import Elsewhere
from tests.torture.schedule import SECOND

if TYPE_CHECKING:
    from tests.torture.process import Process
    from tests.torture.stage import Stage


class Visits:
    """The applications of a stage, each of which asks its own agent."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.elsewhere = Elsewhere(self)

    def begin(self, actor: Actor) -> None:
        """Let an application come for the first time."""
        self.stage.plan(actor.phase + self._pause(actor), self._come, actor)

    def _pause(self, actor: Actor) -> int:
        return 1 + actor.app.word() % (2 * self.stage.weather.thinking)

    def _come(self, actor: Actor) -> None:
        if self.stage.healed:
            return
        self.stage.plan(self._pause(actor), self._come, actor)
        self.choose(actor, actor.app.word())

    def choose(self, actor: Actor, word: int) -> None:
        """Ask for a choice, and plan what becomes of its ticket."""
        process = actor.process
        if process is None or actor.awake_at > self.stage.time:
            return  # the application is told that nobody answers, and uses its default
        self.stage.lives.act(actor, self._choose, actor, process, word)

    def _choose(self, actor: Actor, process: Process, word: int) -> None:
        if self.stage.schedule.forward and word >> 33 & 1:
            self.elsewhere.choose(actor, process, word)
            return
        try:
            choice, arm = process.choose(word)
        except UnavailableError:
            self.stage.checks.unavailable(actor)
            return
        except RateLimitError:
            return
        now = process.clock()
        self.stage.trace.note(self.stage.time, "chose", actor.index, arm)
        if choice.ticket:
            process.answer(lambda ok: self._chosen(actor, choice.ticket, arm, now, word, ok))

    def _chosen(self, actor: Actor, ticket: str, arm: int, now: float, word: int, ok: bool) -> None:
        if ok:
            self.plan_reward(actor, ticket, arm, now, word)

    def plan_reward(self, actor: Actor, ticket: str, arm: int, now: float, word: int) -> None:
        """Note a ticket of an agent, and plan what becomes of it."""
        actor.app.took(ticket, arm, now)
        if word & 1023 < self.stage.weather.forgotten:
            return
        value = reward_of(actor.app.key, len(actor.app.given) << 20, arm)
        delay = (word >> 10) % SECOND if word >> 60 else int(LIFETIME * SECOND) + SECOND
        self.stage.plan(delay, self._hand_in, actor, Reward(ticket, value), word >> 40)

    def _hand_in(self, actor: Actor, reward: Reward, word: int) -> None:
        if reward.ticket in actor.app.given_up:
            return  # what became of it is unknown, and the application has given it up
        forwards = self.stage.schedule.forward and not word >> 8 & 1
        if forwards and self.elsewhere.submit(actor, reward, word):
            return
        process = actor.process
        if process is None or actor.awake_at > self.stage.time:
            self.again(actor, reward, word + (1 << 8))
            return
        self.stage.lives.act(actor, self._observe, actor, process, reward, word)
        if actor.process is not process:
            self.again(actor, reward, word)

    def again(self, actor: Actor, reward: Reward, word: int) -> None:
        """Submit a reward a little later."""
        self.stage.plan(RETRY, self._hand_in, actor, reward, word)

    def _observe(self, actor: Actor, process: Process, reward: Reward, word: int) -> None:
        again = actor.app.hand_in(process, reward, actor.beaten)
        self.stage.trace.note(self.stage.time, "rewards", actor.index, int(4 * reward.value))
        if again is None:
            account = actor.app.account
            process.answer(lambda ok: self._observed(actor, account, reward, word, ok))
        elif again:
            self.again(actor, reward, word)

    def _observed(
        self, actor: Actor, account: Account, reward: Reward, word: int, ok: bool
    ) -> None:
        if not ok:
            self.again(actor, reward, word)
            return
        account.acknowledge(reward)
        if word % 16 == 0:
            self.again(actor, reward, 1)
        elif word % 16 == 1:
            self.again(actor, Reward(reward.ticket, 1.0 - reward.value), 2)
