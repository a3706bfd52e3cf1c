"""What an application may ask of its agent, and the answers.

The HTTP API and `LocalAgent` both offer it. An application chooses an option and gets a ticket;
once the reward is known, it hands in both. The errors below are the application's mistakes: each is
one sentence, and nothing has changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from coopbandits.page.state import AgentState

DEFAULT = "default:"
"""How the ticket begins where a client chose its default, since the agent was away."""


CONFIDENCE = 0.95
"""Of a recommendation, unless another one is asked for."""


class Choice(NamedTuple):
    """An option to use now, and the ticket for handing in its reward.

    The ticket is empty if the agent cannot store anything: the choice goes by what is known, and no
    reward is expected for it.
    """

    ticket: str
    arm: str

    @property
    def is_default(self) -> bool:
        """Whether the agent was away, and the client's default stands in; nobody counts it."""
        return self.ticket.startswith(DEFAULT)


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

    @property
    def is_default(self) -> bool:
        """Whether the choice was a client's default, so that nothing was counted."""
        return self.ticket.startswith(DEFAULT)


class ArmEstimate(NamedTuple):
    """What the agent knows about one arm.

    Attributes
    ----------
    arm : str
        Its name.
    mean : float or None
        Mean reward over the whole network as this agent sees it; None if nothing is known. In a
        context, what the model expects there.
    pulls : float
        Pulls that it is based on.
    confidence : (float, float) or None
        The 95 % interval of the arm's mean as if the number of its pulls were fixed; as that
        depends on rewards, it held 91 to 95 % of the means in simulations. None where the policy
        certifies no pulls of it, as on trees.
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


class Recommendation(NamedTuple):
    """Which option won so far, and how sure that is.

    Attributes
    ----------
    arm : str or None
        The option with the best mean; None if no reward is known of.
    lead : float or None
        A lower bound on how far its mean is above that of every other option; negative as long as
        another one may be better. None where some option was never tried, or where the policy
        cannot state a confidence.
    pulls : float
        Rewards that it is based on, of the whole network; distinct ones if `lead` is stated.
    confidence : float
        With which probability the bound holds, however often one asks.
    certain : bool
        Whether the option is the best one with that confidence.
    sentence : str
        All of that in words.
    """

    arm: str | None
    lead: float | None
    pulls: float
    confidence: float
    certain: bool
    sentence: str


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


class BanditState(NamedTuple):
    """What there is to say of a bandit in a line.

    Attributes
    ----------
    name, number, policy : str, int and str
        What it is.
    arms, frozen : list of str
        Its options, and those of them that are not chosen for now.
    pinned : str or None
        The one that is chosen in any case.
    retired : bool
        Whether it chooses no more.
    round, rewards, open_tickets : int
        Rounds ended, rewards handed in here, and tickets that wait for theirs.
    """

    name: str
    number: int
    policy: str
    arms: list[str]
    pinned: str | None
    frozen: list[str]
    retired: bool
    round: int
    rewards: int
    open_tickets: int


class UnknownBanditError(InputError):
    """A bandit that this agent does not have, or none where one must be named."""


class UnknownTicketError(InputError):
    """A ticket that this agent never handed out."""


class ExpiredTicketError(InputError):
    """A ticket that is no longer open, and whose reward is no longer remembered."""


class OtherRewardError(InputError):
    """A ticket for which a different reward was handed in before."""


class TooManyTicketsError(InputError):
    """The limit of open tickets is reached, or pulls are made faster than the cluster allows.

    Attributes
    ----------
    retry_after : float
        Seconds until the oldest one expires, or the next pull is due.
    """

    def __init__(self, sentence: str, retry_after: float) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class UnavailableError(Exception):
    """The agent cannot store anything, so it accepts nothing; one sentence says why."""


Stored = Callable[[UnavailableError | None], None]
"""Called when something is on disk, or with the reason why it may not be."""


Context = Mapping[str, float | str]
"""What an application knows of a request: features by name, as the cluster declares them."""


class BanditService(Protocol):
    """One bandit as an application sees it."""

    def choose(
        self, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice:
        """Return an arm and a ticket."""

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count the reward of a ticket."""

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm."""

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far."""

    def export(self) -> dict[str, Any]:
        """Return everything learned of it."""

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows of the agent and of this bandit."""

    @property
    def token(self) -> str | None:
        """The token that opens this bandit alone."""


class Service(Protocol):
    """An agent as its application sees it.

    What `choose` and `observe` return is told to nobody before `stored` has said so. Where the
    agent has several bandits, most is asked of one `bandit`.
    """

    def choose(
        self, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice:
        """Return an arm, one of `allowed` if given, for a request like this, and a ticket."""

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count the reward of a ticket; repeating the same one is harmless."""

    def stored(self, then: Stored) -> None:
        """Call `then` once all that was chosen and observed so far is on disk, perhaps at once.

        With None; or with the error, if it may not be there.
        """

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm, for requests like this where a context is given."""

    def context_schema(self) -> dict[str, Any] | None:
        """Return what a context must be, as a JSON schema; None where there is none."""

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far, and how sure that is."""

    @property
    def token(self) -> str | None:
        """The token of the bandit that is asked without being named."""

    def bandit(self, name: str) -> BanditService:
        """Return one bandit of the agent."""

    def bandits(self) -> list[BanditState]:
        """Return all bandits."""

    def export(self) -> dict[str, Any]:
        """Return everything learned, as plain data."""

    def health(self) -> dict[str, Any]:
        """Return the agent's state as plain data: id, policy, round, links, tickets, …."""

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows of the agent, with what happened after an event."""

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason in one sentence."""

    def metrics(self) -> list[Metric]:
        """Return the metrics listed in `service/catalogue.py`."""

    def ruling(self) -> dict[str, Any]:
        """Return the cluster's document as plain data, and who has which version of it."""

    def adopt(self, signed: bytes | bytearray) -> dict[str, Any]:
        """Take a new document of the cluster, signed and as JSON; return what `ruling` does."""


def require_allowed(allowed: Iterable[str]) -> list[str]:
    """Return the options that are allowed; refuse all but a list of different names."""
    if isinstance(allowed, str):
        raise InputError(f"allowed is a list of options, got {_shown(allowed)}; put it in brackets")
    try:
        names = list(allowed)
    except TypeError:
        raise InputError(
            f"allowed is a list of options, got {_shown(allowed)}; name some, or leave it out"
        ) from None
    if not names:
        raise InputError("allowed is an empty list; name at least one option, or leave it out")
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"allowed lists options by name, got {_shown(name)}; use strings")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"allowed lists {_shown(twice)} more than once; name each option once")
    return names


def require_context(context: Any) -> dict[str, float | str]:
    """Return a context; refuse all but numbers and strings by name."""
    if not isinstance(context, Mapping):
        raise InputError(
            f"a context is an object of features by name, got {_shown(context)}; send one such as "
            '{"hour": 13, "country": "PT"}'
        )
    return {_feature_name(name): _feature(name, value) for name, value in context.items()}


def _feature_name(name: Any) -> str:
    if not isinstance(name, str):
        raise InputError(f"features have names, got {_shown(name)}; use strings")
    return name


def _feature(name: str, value: Any) -> float | str:
    if isinstance(value, str):
        return value
    try:
        number = math.nan if isinstance(value, bool | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"feature {_shown(name)} is {_shown(value)}; features are finite numbers or strings"
        )
    return number


def require_ticket(ticket: str) -> str:
    """Return a ticket; refuse what is no string."""
    if not isinstance(ticket, str):
        raise InputError(
            f"a ticket is a string, got {_shown(ticket)}; hand in the one that came with the choice"
        )
    return ticket


def require_reward(reward: Any) -> float:
    """Return a reward as a float; refuse what is no finite number."""
    try:
        value = math.nan if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"a reward is a finite number, got {_shown(reward)}; hand in a float")
    return value


def _shown(value: object) -> str:
    """Return a value as it is written, or how it begins."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "one that is too long to show"
    return text if len(text) <= 100 else f"{text[:100]}…"
