"""What an application may ask of its agent, the answers, and the errors.

The HTTP API and `LocalAgent` both offer it. An application chooses an option and gets a ticket;
once the reward is known, it submits both. An `InputError` below is the application's mistake: one
sentence, and nothing has changed. `agent.py` and `bandit.py` implement `Service` and
`BanditService`. Clients import this file, so it needs neither numpy nor msgspec.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from coopbandits.page.state import AgentState

S = TypeVar("S")
T = TypeVar("T")

DEFAULT = "default:"
"""The prefix of a ticket where a client returned its default instead of the agent's choice."""

CONFIDENCE = 0.95
"""The default confidence of a recommendation."""

LONGEST_UNIT = 200
"""Characters of the id of a user or session."""


class Choice(NamedTuple):
    """An option to use now, and the ticket with which to submit its reward.

    The ticket is empty if the agent cannot store anything: the choice rests on what is known, and
    no reward is expected for it.

    `sticky` is None where no unit was given; otherwise, whether the unit's owner has chosen, which
    returns the same arm for `sticky_seconds`.
    """

    ticket: str
    arm: str
    sticky: bool | None = None

    @property
    def is_default(self) -> bool:
        """Whether it is a client's default, because the agent did not choose; not counted."""
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
        Whether it was submitted before, so that nothing changed.
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
        Rewards submitted by this agent's own application.
    own_reward : float
        Their sum.
    open : int
        Open tickets: issued, and still waiting for a reward.
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
        The probability that the bound holds, at all times together.
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
    """A bandit in one line.

    Attributes
    ----------
    name, number, policy : str, int and str
        What it is.
    arms, frozen : list of str
        Its options, and those that are currently not chosen.
    pinned : str or None
        The one that is always chosen.
    retired : bool
        Whether it chooses no more.
    round, rewards, open_tickets : int
        Rounds ended, rewards submitted here, and open tickets.
    era : int
        The era of its policy.
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
    era: int


class BanditSchema(NamedTuple):
    """What requests of one bandit may contain.

    Attributes
    ----------
    name : str
        The bandit.
    arms : list of str
        Its options; none once it is retired.
    rewards : tuple of float
        The lowest and the highest reward that is accepted.
    context : dict or None
        The JSON schema of contexts; None without features.
    """

    name: str
    arms: list[str]
    rewards: tuple[float, float]
    context: dict[str, Any] | None


class UnauthorizedError(InputError):
    """The agent did not accept the token, it lacks a scope, or this caller is not served at all."""


class UnknownBanditError(InputError):
    """The agent has no such bandit, or has retired it; or none was named and it has no default."""


class UnknownTicketError(InputError):
    """The agent never issued such a ticket."""


class ExpiredTicketError(InputError):
    """The ticket expired or was abandoned, or its reward is no longer remembered."""


class OtherRewardError(InputError):
    """A different reward was submitted for this ticket before."""


class RateLimitError(InputError):
    """Pulls are made faster than the cluster allows.

    Attributes
    ----------
    retry_after : float
        Seconds until the next pull is due.
    """

    def __init__(self, sentence: str, retry_after: float) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class UnavailableError(Exception):
    """The agent cannot store anything, so it accepts nothing; one sentence says why."""


class OwnerAwayError(UnavailableError):
    """The agent that issued a ticket cannot be reached; submit the reward again."""


class DrainingError(UnavailableError):
    """The agent is about to stop: it makes no more choices, and accepts rewards."""


class Pending(Generic[T]):
    """A result that comes later, from another agent."""

    def __init__(self) -> None:
        self._result: T | Exception | None = None
        self._then: Callable[[T | Exception], None] | None = None

    def settle(self, result: T | Exception) -> None:
        """Have the result, or an error."""
        self._result = result
        if self._then is not None:
            self._then(result)

    def then(self, call: Callable[[T | Exception], None]) -> None:
        """Call something with the result or the error, perhaps at once."""
        self._then = call
        if self._result is not None:
            call(self._result)

    def map(self, change: Callable[[T], S]) -> Pending[S]:
        """Return what comes of the result later; errors stay as they are."""
        mapped = Pending[S]()
        self.then(lambda got: mapped.settle(got if isinstance(got, Exception) else change(got)))
        return mapped


Stored = Callable[[UnavailableError | None], None]
"""Called when something is on disk, or with the reason why it may not be."""


Context = Mapping[str, float | str]
"""What an application knows of a request: features by name, as the cluster declares them."""


class BanditService(Protocol):
    """One bandit as an application sees it."""

    @property
    def token(self) -> str | None:
        """The token that opens this bandit alone."""

    def choose(
        self, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice:
        """Return an arm, one of `allowed` if given, for a request like this, and a ticket."""

    def choose_for(
        self, unit: str, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice | Pending[Choice]:
        """Return a choice for a user or session, by the agent that owns it where possible."""

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count the reward of a ticket of this agent; the call is idempotent."""

    def submit(self, ticket: str, reward: float) -> Receipt | Pending[Receipt]:
        """Count the reward of a ticket, which another agent of the fleet may have issued."""

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm, for requests like this where a context is given."""

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far, and how sure that is."""

    def export(self) -> dict[str, Any]:
        """Return everything learned, as plain data."""

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows of agent and bandit, with events after number `since`."""


class Service(Protocol):
    """An agent as its application sees it.

    What `choose` and `observe` of a bandit return, also later, must not be sent before `stored` has
    called back.
    """

    def stored(self, then: Stored) -> None:
        """Call `then` once all that was chosen and observed so far is on disk, perhaps at once.

        With None; or with the error, if it may not be there.
        """

    def schemas(self) -> list[BanditSchema]:
        """Return what requests of every bandit may contain."""

    def bandit(self, name: str | None) -> BanditService:
        """Return one bandit of the agent; without a name, the one configured as default."""

    def bandits(self) -> list[BanditState]:
        """Return all bandits, the retired ones last."""

    def export(self) -> dict[str, Any]:
        """Return everything learned, of all bandits, as plain data."""

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows of the agent and its first bandit, with events after `since`."""

    def health(self) -> dict[str, Any]:
        """Return the agent's state as plain data: id, policy, round, links, tickets, …."""

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason in one sentence."""

    def metrics(self) -> list[Metric]:
        """Return the metrics listed in `service/metrics.py`."""

    def cluster(self) -> dict[str, Any]:
        """Return the cluster's document as plain data, and which agent has which version."""

    def adopt(self, signed: bytes | bytearray) -> dict[str, Any]:
        """Apply a new document of the cluster, signed and as JSON; return what `cluster` does."""


def require_allowed(allowed: Iterable[str]) -> list[str]:
    """Check that the allowed options are a list of different names."""
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
    """Check that a context has numbers and strings by name; numbers become floats."""
    if not isinstance(context, Mapping):
        raise InputError(
            f"a context is an object of features by name, got {_shown(context)}; send one such as "
            '{"hour": 13, "country": "PT"}'
        )
    found: dict[str, float | str] = {}
    for name, value in context.items():
        if not isinstance(name, str):
            raise InputError(f"features have names, got {_shown(name)}; use strings")
        if isinstance(value, str):
            found[name] = value
            continue
        number = math.nan if isinstance(value, bool) else _finite(value)
        if math.isnan(number):
            raise InputError(
                f"feature {_shown(name)} is {_shown(value)}; features are finite numbers or strings"
            )
        found[name] = number
    return found


def require_unit(unit: Any) -> str:
    if not isinstance(unit, str) or not 0 < len(unit) <= LONGEST_UNIT or not _is_text(unit):
        raise InputError(
            f"a unit is a string of 1 to {LONGEST_UNIT} characters, got {_shown(unit)}; send the "
            "id of a user or session, or leave it out"
        )
    return unit


def require_ticket(ticket: Any) -> str:
    if not isinstance(ticket, str) or not _is_text(ticket):
        raise InputError(
            f"a ticket is a string, got {_shown(ticket)}; submit the one that came with the choice"
        )
    return ticket


def require_reward(reward: Any) -> float:
    value = _finite(reward)
    if math.isnan(value):
        raise InputError(f"a reward is a finite number, got {_shown(reward)}; submit a float")
    return value


def _is_text(value: str) -> bool:
    """Return whether a string can be sent: a lone surrogate cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _finite(value: Any) -> float:
    """Return a value as a float; NaN for what is not a finite number."""
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _shown(value: object) -> str:
    """Return a value as it is written, or how it begins."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "one that is too long to show"
    return text if len(text) <= 100 else f"{text[:100]}…"
