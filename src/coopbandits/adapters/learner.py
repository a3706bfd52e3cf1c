"""Learners of other libraries as agents: each learns by itself, from its own pulls.

Such a learner has a random source of its own. It is seeded with the random word that an agent is
given, so a run stays a function of (problem, network, policy, horizon, seed). Asked twice for the
same choice, it draws twice. It cannot be exported as data; simulations never do that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, NoReturn, Protocol

from coopbandits.core.contract import Agent, LocalView, State, Vector
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.policy import Policy
from coopbandits.core.spelling import one_line

SEED_BITS = 0xFFFF_FFFF
"""What every library takes for a seed."""


class Learner(Protocol):
    """What an agent asks of a learner."""

    def pull(self, arm_ids: list[int]) -> int:
        """Return one of these arms."""

    def update(self, arm_id: int, reward: float) -> Any:
        """Take in one reward."""


class LearnerPolicy(Policy):
    """One learner per agent, which sends no messages; a subclass writes `make_learner`."""

    def __post_init__(self) -> None:
        """Refuse settings with which a learner cannot even begin; libraries notice some late."""
        agent = self.make_agent(LocalView(0, 1.0, {}, num_arms=2, random_word=1))
        agent.observe(agent.choose(0), 1.0)

    @property
    def needs(self) -> frozenset[str]:
        """A random word per agent, from which its learner's seed is taken."""
        return frozenset({"random_word"})

    @abstractmethod
    def make_learner(self, num_arms: int, seed: int) -> Learner:
        """Return a fresh learner; `seed` lies in 0 … 2³² − 1."""

    def make_agent(self, view: LocalView) -> Agent:
        """Return an agent that asks a fresh learner."""
        if not view.random_word:
            raise InputError(
                f"random_word of agent {view.agent_id} is 0; policy {self.spelling} needs 64 "
                "random bits, from which its learner is seeded"
            )
        learner = self.make_learner(view.num_arms, view.random_word & SEED_BITS)
        return LearnerAgent(view, learner, self.spelling)


class LearnerAgent(Agent):
    """An agent that hands everything to its learner."""

    def __init__(self, view: LocalView, learner: Learner, policy: str) -> None:
        super().__init__(view)
        self.learner, self.policy = learner, policy

    def choose(self, word: int, allowed: Sequence[int] | None = None) -> int:
        """Ask the learner, which draws from its own source and has no use for the word."""
        del word
        arms = list(range(self.view.num_arms) if allowed is None else allowed)
        arm = self._ask(self.learner.pull, arms)
        if arm not in arms:
            raise InputError(f"policy {self.policy} pulled {arm!r}; it must pull one of {arms}")
        self.open_pulls[arm] += 1
        return int(arm)

    def observe(self, arm: int, reward: float) -> None:
        """Tell the learner."""
        self._ask(self.learner.update, arm, reward)
        self.open_pulls[arm] = max(0, self.open_pulls[arm] - 1)

    def outgoing(self, neighbor: int) -> None:
        """Say nothing."""

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Hear nothing."""

    def export_state(self) -> State:
        """Refuse: what another library remembers is no plain data."""
        self._refuse_state()

    def restore_state(self, state: State) -> None:
        """Refuse, as there is nothing to restore."""
        del state
        self._refuse_state()

    def _refuse_state(self) -> NoReturn:
        raise InputError(
            f"a learner of policy {self.policy} cannot be exported or restored; it plays in "
            "simulations alone"
        )

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Call another library, whose errors may be of any kind."""
        try:
            return question(*arguments)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"policy {self.policy} cannot {question.__name__}{arguments}: {one_line(error)}; "
                "take a problem whose rewards suit it, or other settings"
            ) from error


def made_of_settings(
    library: str, known: Mapping[str, Callable[..., Any]], learner: str, **settings: Any
) -> Any:
    """Make a learner of a library by its name.

    Settings at None are left to the library. One that the learner does not have, and one that it
    needs, is a sentence.
    """
    if learner not in known:
        raise unknown_name(f"learner of {library}", str(learner), known)
    parameters = signature(known[learner]).parameters
    given = {name: value for name, value in settings.items() if value is not None}
    for name in given:
        if name not in parameters:
            own = [name for name in settings if name in parameters]
            raise unknown_name(f"setting of {library}'s {learner}", name, own)
    for name, parameter in parameters.items():
        if parameter.default is Parameter.empty and name not in given:
            raise InputError(f"{library}'s {learner} has no {name}; give it, {name}=…")
    try:
        return known[learner](**given)
    except Exception as error:
        raise InputError(
            f"{library}'s {learner} cannot be made of these settings: {one_line(error)}"
        ) from error
