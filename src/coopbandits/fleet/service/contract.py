"""What an application may ask of its agent, and the answers.

The HTTP API and `LocalAgent` both offer it. An application chooses an option and gets a ticket;
once the reward is known, it hands in both. The errors below are the application's mistakes: each is
one sentence, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

from coopbandits.core.errors import InputError


class Choice(NamedTuple):
    """An option to use now, and the ticket for handing in its reward.

    The ticket is empty if the agent cannot store anything: the choice goes by what is known, and no
    reward is expected for it.
    """

    ticket: str
    arm: str


class Receipt(NamedTuple):
    """What became of a reward.

    Attributes
    ----------
    ticket, arm : str
        Whose reward it is.
    reward : float
        The reward that counts.
    duplicate : bool
        Whether it was handed in before, so that nothing changed.
    """

    ticket: str
    arm: str
    reward: float
    duplicate: bool


class ArmEstimate(NamedTuple):
    """What the agent knows about one arm.

    Attributes
    ----------
    arm : str
        Its name.
    mean : float or None
        Mean reward over the whole network as this agent sees it; None if nothing is known.
    pulls : float
        Pulls that it is based on.
    confidence : (float, float) or None
        An interval that covers the arm's mean with probability 95 % at one fixed time.
    own_pulls : int
        Rewards handed in by this agent's own application.
    own_reward : float
        Their sum.
    open : int
        Open tickets: handed out, neither used nor expired.
    """

    arm: str
    mean: float | None
    pulls: float
    confidence: tuple[float, float] | None
    own_pulls: int
    own_reward: float
    open: int


class Metric(NamedTuple):
    """One measured quantity of an agent, as plain data.

    Attributes
    ----------
    name : str
        Its name without the prefix `coopbandits_`; that of a counter ends in `_total`.
    kind : "counter" or "gauge"
        A counter only grows while the process lives.
    help : str
        What it is, in a few words.
    samples : list of (labels, value)
        One value per set of labels; a quantity without labels has the one sample `({}, value)`.
    """

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: list[tuple[dict[str, str], float]]


class UnknownTicketError(InputError):
    """A ticket that this agent never handed out."""


class ExpiredTicketError(InputError):
    """A ticket that is no longer open, and whose reward is no longer remembered."""


class OtherRewardError(InputError):
    """A ticket for which a different reward was handed in before."""


class TooManyTicketsError(InputError):
    """The limit of open tickets is reached.

    Attributes
    ----------
    retry_after : float
        Seconds until the oldest one expires.
    """

    def __init__(self, sentence: str, retry_after: float) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class UnavailableError(Exception):
    """The agent cannot store anything, so it accepts nothing; one sentence says why."""


class Service(Protocol):
    """An agent as its application sees it.

    What `choose` and `observe` return is told to nobody before `stored` has returned.
    """

    def choose(self, allowed: Sequence[str] | None = None) -> Choice:
        """Return an arm, one of `allowed` if given, and a ticket."""

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count the reward of a ticket; repeating the same one is harmless."""

    async def stored(self) -> None:
        """Return once all that was chosen and observed so far is on disk; or UnavailableError."""

    def arms(self) -> list[ArmEstimate]:
        """Return an estimate of every arm."""

    def health(self) -> dict[str, Any]:
        """Return the agent's state as plain data: id, policy, round, links, tickets, …."""

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason in one sentence."""

    def metrics(self) -> list[Metric]:
        """Return the metrics listed in `service/catalogue.py`."""
