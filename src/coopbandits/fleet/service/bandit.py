"""What one bandit answers applications: names for numbers, tickets, estimates, recommendations.

`Menu` says which arms may be chosen: declared, not frozen, pinned, and with a minimum share.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from coopbandits.core import recommend
from coopbandits.core.aggregate.aggregation import Moving
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.contract import Estimate, Share, Vector
from coopbandits.core.draws import uniform_of
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.features import ONES
from coopbandits.fleet.config.files import read_token
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import (
    CONFIDENCE,
    ArmEstimate,
    Choice,
    Context,
    Receipt,
    Recommendation,
    UnavailableError,
    UnknownTicketError,
    require_allowed,
    require_reward,
    require_ticket,
)
from coopbandits.fleet.service.bandits import bandit_state, learned
from coopbandits.fleet.service.pace import Allowance, Pace
from coopbandits.fleet.service.watching import agent_state, warning
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.page.state import AgentState

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate

DRAINING = "the agent is about to stop and makes no more choices"

log = logging.getLogger(__name__)

QUANTILE = 1.959964
"""Of the normal distribution, for a two-sided 95 % interval."""

Interval = tuple[float, float] | None


class Served(Protocol):
    """What a bandit asks of the agent around it."""

    node: Node
    words: Callable[[], int]
    clock: Callable[[], float]
    failure: str
    draining: bool
    config: NodeConfig

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason in one sentence."""

    def listed(self, shown: ServedBandit) -> list[str]:
        """Return the names of all bandits that choose, that of one first."""

    def owner_of(self, ticket: str) -> ServedBandit | None:
        """Return the bandit that handed out a ticket."""


class ServedBandit:
    """Implements `BanditService` for one bandit of an agent.

    Parameters
    ----------
    agent : Served
        The agent.
    bandit : BanditConfig
        Which bandit it is about.
    """

    def __init__(self, agent: Served, bandit: BanditConfig) -> None:
        self.agent, self.node, self.words = agent, agent.node, agent.words
        self._go_by(bandit)
        self.token = _token_of(self.declared)
        choices, rewards = self.replica.tickets.next_number - 1, int(self.replica.own_counts.sum())
        self.choosing, self.observing = self._pace(choices), self._pace(rewards)
        self.allowance = Allowance(bandit.most_pulls, self.choosing, self.observing)
        self.node.settings.keeper.join(f"pace of {self.declared.number}", self.allowance)

    def take(self, bandit: BanditConfig) -> None:
        """Go by this declaration from now on."""
        # A retired one is declared nowhere, and its late rewards are its application's alone.
        if bandit.arms and bandit.token_file != self.declared.token_file:
            self.token = _token_of(bandit)
        self._go_by(bandit)
        self.allowance.declare(bandit.most_pulls)

    def _go_by(self, bandit: BanditConfig) -> None:
        self.declared, self.scale, self.encoder = bandit, bandit.scale, bandit.encoder
        self.replica = self.node.bandits.replicas[bandit.number]
        self.menu = Menu(bandit, list(self.replica.arms))
        self.names = self.menu.names

    def _pace(self, made: int) -> Pace:
        """Return a pace by all pulls since the epoch began: those that neighbours believe."""
        bandit, now = self.declared, self.agent.clock()
        document, rate = self.node.settings.keeper.document, bandit.most_pulls
        if document is not None:  # the allowance lowers the pace then, but nobody believes less
            rate = max(rate, document.settings.get("max_pulls_per_second", rate))
        return Pace(rate, now - bandit.cluster.epoch, made, now)

    def choose(
        self, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice:
        """Return an arm, one of `allowed` if given, for a request like this, and a ticket.

        An agent that was started on a full disk answers by what it knows, without a ticket.
        """
        names = None if allowed is None else require_allowed(allowed)
        numbers = self.menu.allowed(names, self.words)
        features = self.encoder.encode(context)
        if self.agent.draining and not self.agent.failure:
            raise UnavailableError(f"{DRAINING}; ask another agent")
        if self.replica.journal.read_only and not self.agent.failure:
            return Choice("", self._name(self.replica.advise(self.words(), numbers, features)))
        now = self._ready_for(self.choosing)
        try:
            number, arm = self.replica.choose(self.words(), numbers, now, features)
        except DiskError as error:
            raise UnavailableError(f"{error}; nothing was chosen") from error
        self.choosing.spend()
        return Choice(self.replica.tickets.name(number), self._name(arm))

    def _ready_for(self, pace: Pace) -> float:
        """Return the time; refuse a call that comes too early, or after a failure."""
        if self.agent.failure:
            raise UnavailableError(self.agent.failure)
        now = self.agent.clock()
        pace.check(now)
        return now

    def _name(self, place: int) -> str:
        """Return the name of an arm of the agent's, which may be no longer declared."""
        return list(self.replica.arms.values())[place] or "(purged)"

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count the reward of a ticket; repeating the same one is harmless."""
        number, reward = self._number(require_ticket(ticket)), require_reward(reward)
        now = self._ready_for(self.observing)
        try:
            if self.replica.journal.trouble:
                raise DiskError(self.replica.journal.trouble)
            self.replica.expire(now)  # the next beat may be a second away
            arm, duplicate = self.replica.observe(number, reward)
        except DiskError as error:
            raise UnavailableError(f"{error}; the reward is not counted") from error
        if not duplicate:
            self.observing.spend()
            self.node.sessions.wake(self.declared.number)
        return Receipt(ticket, self._name(arm), reward, duplicate)

    def _number(self, ticket: str) -> int:
        try:
            return self.replica.tickets.number(ticket)
        except UnknownTicketError:
            owner = self.agent.owner_of(ticket)
            if owner is None:
                raise
            name = owner.declared.name
            raise UnknownTicketError(
                f"this ticket is of bandit {name!r}, and not of {self.declared.name!r}; hand it in "
                f"at /bandits/{name}/observe"
            ) from None

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm, for requests like this where a context is given."""
        estimate = self.totals()
        least = NO_INFORMATION * estimate.num_agents
        if context is None:
            means, intervals = self._means(estimate), self._intervals(estimate.certain)
        else:
            means, intervals = self._outlook(context, estimate)
        return [
            self._arm(k, float(estimate.counts[k]), least, mean, interval)
            for k, (mean, interval) in enumerate(zip(means, intervals, strict=True))
        ]

    def totals(self) -> Estimate:
        """Return reward sums and pulls of arms over the network, whatever the requests were."""
        estimate, places = self.replica.agent.estimate(), self.menu.places
        sums, counts, certain = estimate.sums[places], estimate.counts[places], estimate.certain
        if self.encoder.features:
            sums = sums[:, ONES]
        if certain is not None:
            by_arm = certain.sums.reshape(len(certain.counts), -1)  # with features, one each
            certain = Share(by_arm[places, ONES], certain.counts[places])
        return estimate._replace(sums=sums, counts=counts, extra=(), certain=certain)

    def _means(self, totals: Estimate | Share) -> list[float]:
        """Return the mean of every arm; not a number where it was never pulled."""
        pairs = zip(totals.sums.tolist(), totals.counts.tolist(), strict=True)
        return [total / pulls if pulls > 0.0 else math.nan for total, pulls in pairs]

    def _intervals(self, certain: Share | None) -> list[Interval]:
        """Return an interval about every arm's mean; None where no pulls of it are certified."""
        if certain is None:
            return [None] * len(self.names)
        return [
            self.scale.interval(mean, QUANTILE * self.scale.sigma / math.sqrt(pulls))
            if pulls > 0.0
            else None
            for mean, pulls in zip(self._means(certain), certain.counts.tolist(), strict=True)
        ]

    def _outlook(self, context: Context, totals: Estimate) -> tuple[list[float], list[Interval]]:
        """Return the same for requests like this, as the model expects."""
        found, deviations = self.replica.context_agent.outlook(self.encoder.columns(context))
        means, halves = found[self.menu.places].tolist(), deviations[self.menu.places].tolist()
        if self.scale.bounded:  # a line leaves the range of rewards somewhere, and they never do
            means = [min(max(mean, 0.0), 1.0) for mean in means]
        # The model rests on all totals, so intervals need all of them to be certified.
        if totals.certain is None or (totals.counts > totals.certain.counts).any():
            return means, [None] * len(means)
        pairs = zip(means, halves, strict=True)
        return means, [self.scale.interval(mean, QUANTILE * half) for mean, half in pairs]

    def context_schema(self) -> dict[str, Any] | None:
        """Return what a context must be, as a JSON schema; None where there is none."""
        return self.encoder.schema()

    def _arm(
        self, k: int, pulls: float, least: float, mean: float, interval: Interval
    ) -> ArmEstimate:
        at, replica = self.menu.places[k], self.replica
        own, rewards = int(replica.own_counts[at]), float(replica.own_sums[at])
        waiting = int(replica.agent.open_pulls[at])
        if pulls <= least:
            return ArmEstimate(self.names[k], None, 0.0, None, own, rewards, waiting)
        mean = self.scale.reward(mean)
        return ArmEstimate(self.names[k], mean, pulls, interval, own, rewards, waiting)

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far, and how sure that is."""
        return recommendation(self, confidence)

    def export(self) -> dict[str, Any]:
        """Return everything learned."""
        return learned(self.declared, self.replica)

    def health(self) -> dict[str, Any]:
        """Return what the agent's health says of this bandit, as plain data.

        `shares` are the agent's shares of all rewards and pulls, K and K numbers on the agent's
        own scale, after each of the last rounds. Summed over all agents after the same round, they
        equal what was submitted. Where agents hand pulls on, `moving` says how many are held here,
        on their way to neighbours, and collected as far as is known here; else it is None.
        """
        return bandit_state(self)._asdict() | {
            "mode": self.declared.mode,
            "agents_known": self.replica.agent.estimate().num_agents,
            "moving": moving(self),
            "warning": warning(self),
            "shares": {
                str(r): [*self._reward_sums(share).tolist(), *share.counts.tolist()]
                for r, share in self.replica.shares().items()
            },
        }

    def _reward_sums(self, share: Share) -> Vector:
        """Return the rewards of every arm in a share, whatever the requests were."""
        return share.sums[ONES :: self.encoder.width] if self.encoder.features else share.sums

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows, with what happened after an event."""
        return agent_state(self, since, self.agent.listed(self))


def _token_of(bandit: BanditConfig) -> str | None:
    """Return the token of a bandit; one that nobody knows where it cannot be read.

    A file that became unreadable must not keep an agent from what all others have taken already,
    nor open the bandit to everybody.
    """
    try:
        return None if bandit.token_file is None else read_token(bandit.token_file)
    except InputError as error:
        log.error("bandit %s is closed to all but the agent's token: %s", bandit.name, error)
        return token_hex()


def moving(service: ServedBandit) -> dict[str, float] | None:
    """Return where pulls are, where agents hand them on; an agent of one's own may not tell."""
    ask = getattr(service.replica.agent, "moving", None)
    found: Moving | None = ask() if ask is not None else None
    return None if found is None else found._asdict()


def recommendation(service: ServedBandit, confidence: float) -> Recommendation:
    """Return what an agent would recommend now."""
    policy, scale, totals = service.declared.policy_object, service.scale, service.totals()
    if reason := recommend.obstacle(policy.parts if policy.plays_parts else None):
        return _best_mean(service, totals, confidence, reason)
    found = recommend.recommend(totals, scale.sigma, confidence)
    if found.pulls <= 0.0:
        return _nothing_known(confidence)
    arm = service.names[found.arm]
    lead = found.lead * (scale.high - scale.low)
    if not math.isfinite(lead):
        said = f"{arm} has the best mean so far, but of some option no reward is known of yet."
        return Recommendation(arm, None, found.pulls, confidence, False, said)
    said = _sentence(arm, lead, found)
    return Recommendation(arm, lead, found.pulls, confidence, lead > 0.0, said)


def _best_mean(
    service: ServedBandit, totals: Estimate, confidence: float, reason: str
) -> Recommendation:
    """Name the option with the best mean, of which nothing can be claimed for a reason."""
    recommend.require_confidence(confidence)
    known = totals.counts > NO_INFORMATION * totals.num_agents
    if not known.any():
        return _nothing_known(confidence)
    means = totals.sums[known] / totals.counts[known]
    arm = service.names[int(np.flatnonzero(known)[means.argmax()])]
    said = f"{arm} has the best mean so far; how sure that is cannot be stated, since {reason}."
    return Recommendation(arm, None, float(totals.counts.sum()), confidence, False, said)


def _nothing_known(confidence: float) -> Recommendation:
    return Recommendation(None, None, 0.0, confidence, False, "No reward is known of yet.")


def _sentence(arm: str, lead: float, found: recommend.Recommendation) -> str:
    sure = f"with {100 * found.confidence:.4g} % confidence after {found.pulls:.0f} rewards"
    if lead > 0.0:
        return f"{arm} is best: {sure}, its mean is at least {lead:.3g} above that of any other."
    return (
        f"{arm} has the best mean so far, but it is too early to tell: {sure}, another option's "
        f"may be up to {-lead:.3g} higher."
    )


class Menu:
    """The arms of one bandit as they are declared now.

    Parameters
    ----------
    bandit : BanditConfig
        The bandit.
    known : sequence of int
        The ids of all arms that its agent has, in the order of the agent's arms.

    Attributes
    ----------
    names : tuple of str
        The declared arms.
    places : list of int
        Where each of them is among the agent's.
    open : list of int or None
        Places of those that may be chosen; None for all, where no others can come.
    """

    def __init__(self, bandit: BanditConfig, known: Sequence[int]) -> None:
        self.bandit, self.names = bandit, tuple(arm.name for arm in bandit.arms)
        at = {arm: place for place, arm in enumerate(known)}
        self.places = [at[arm.number] for arm in bandit.arms]
        self._places = dict(zip(self.names, self.places, strict=True))
        self._frozen = {arm.name for arm in bandit.arms if arm.frozen}
        shares = ((self._places[arm.name], arm.minimum_share) for arm in bandit.arms)
        self._shares = [(place, share) for place, share in shares if share]
        open_ = [place for name, place in self._places.items() if self._is_open(name)]
        # Where arms may be added, neighbours may make the agent know more than are declared.
        are_all = len(open_) == len(known) and not bandit.can_widen
        self.open = None if are_all else open_

    def _is_open(self, name: str) -> bool:
        pinned = self.bandit.pinned
        return name == pinned if pinned is not None else name not in self._frozen

    def allowed(self, asked: Sequence[str] | None, words: Callable[[], int]) -> list[int] | None:
        """Return the places to choose from; None for all.

        One alone where chance gives it what it must have at least.
        """
        if not self.names:
            raise InputError(
                f"bandit {self.bandit.name} is retired: it takes rewards of open tickets, and "
                "chooses no more"
            )
        places = self.open if asked is None else self._asked(asked)
        if not self._shares:
            return places
        left = uniform_of(words())
        for place, share in self._shares:
            if places is None or place in places:
                left -= share
                if left < 0.0:
                    return [place]
        return places

    def _asked(self, names: Sequence[str]) -> list[int]:
        for name in names:
            if name not in self._places:
                raise unknown_name("arm", name, self.names)
        if self.open is None:
            return [self._places[name] for name in names]
        found = [self._places[name] for name in names if self._is_open(name)]
        if not found:
            raise InputError(
                f"none of the arms {', '.join(names)} may be chosen now: others are pinned, or "
                "they are frozen; allow another one"
            )
        return found
