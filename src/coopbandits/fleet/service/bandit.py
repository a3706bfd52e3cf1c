"""One bandit as its application sees it: arms by name, tickets, estimates and recommendations.

A `ServedBandit` turns names into places of arms and requests into events of the replica. What may
be chosen is in `ArmSelection`: arms that are declared, not frozen, or pinned, and with a minimum
share. How fast an application may pull is in `RateLimit`: slower than neighbours would believe.
`TicketAlarm` warns before open tickets are abandoned.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core import recommend
from coopbandits.core.aggregate.aggregation import Moving
from coopbandits.core.aggregate.claims import SLACK
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.contract import Estimate, Share
from coopbandits.core.draws import uniform_of
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.address import Address
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.features import ONES
from coopbandits.fleet.document.content import Document
from coopbandits.fleet.document.store import DocumentSubscriber
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.names import NODE_ID
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.service import (
    CONFIDENCE,
    ArmEstimate,
    BanditSchema,
    BanditState,
    Choice,
    Context,
    DrainingError,
    ExpiredTicketError,
    Pending,
    RateLimitError,
    Receipt,
    Recommendation,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
    require_allowed,
    require_unit,
)
from coopbandits.fleet.service.metrics import scatter
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.purging import PURGED
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.storage.tickets import Tickets
from coopbandits.fleet.storage.units import unit_hash
from coopbandits.page.state import AgentState, ArmState, NeighborState
from coopbandits.version import __version__

if TYPE_CHECKING:
    from coopbandits.fleet.service.agent import ServedAgent

log = logging.getLogger(__name__)

DRAINING = "the agent is about to stop and makes no more choices"

REMOVED = "removed"
"""In exports, the state of an arm that is no longer declared."""

QUANTILE = 1.959964
"""Of the normal distribution, for a two-sided 95 % interval."""

BURST = SLACK / 2
"""Seconds whose pulls may be made at once.

Neighbours grant `SLACK` seconds. The other half is left for messages that come late and clocks that
differ, so what is accepted here is never rejected there.
"""

AFTER_RESTART = 1.0
"""Seconds whose pulls may be made right after a restart: how many were made just before is lost."""

ALARMS = (0.5, 0.9)
"""Shares of the limit of open tickets at which the log warns."""

REARMED = 0.25
"""Below this share of the limit the log may warn again; without the gap it would over and over."""

Interval = tuple[float, float] | None


class RateLimit:
    """A token bucket: calls pass at a rate, and in a burst after a rest.

    Parameters
    ----------
    rate : float
        Calls per second.
    age : float
        Seconds since the epoch began.
    made : int
        Calls since then.
    now : float
        The time.

    Attributes
    ----------
    spare : float
        Calls that may be made at once; whoever makes one subtracts it.
    refused : int
        Calls that came too early.
    """

    def __init__(self, rate: float, age: float, made: int, now: float) -> None:
        self.rate, self._most = rate, max(1.0, rate * BURST)
        rested = self._most if made == 0 else rate * AFTER_RESTART
        self.spare, self._when = min(rested, rate * (age + BURST) - made), now
        self.refused = 0

    def check(self, now: float) -> None:
        """Raise RateLimitError for a call that comes too early."""
        gained = self.rate * max(0.0, now - self._when)
        self.spare, self._when = min(self._most, self.spare + gained), now
        if self.spare < 1.0:
            self.refused += 1
            wait = (1.0 - self.spare) / self.rate
            raise RateLimitError(
                f"this is faster than {self.rate:g} a second, and other agents would not believe "
                f"it; wait {wait:.3g} s, or raise max_pulls_per_second on all nodes",
                wait,
            )

    def change(self, rate: float) -> None:
        self.rate, self._most = rate, max(1.0, rate * BURST)
        self.spare = min(self.spare, self._most)


class TicketAlarm:
    """Warns once when the open tickets of a bandit reach each of `ALARMS`."""

    def __init__(self) -> None:
        self._raised = 0  # how many of the alarms

    def check(self, bandit: str, before: int, tickets: Tickets) -> None:
        """Look at the tickets of a bandit, of which `before` were open before the last choice."""
        opened, limit = len(tickets.open), tickets.limit
        if before < REARMED * limit:
            self._raised = 0
        reached = 0
        for share in ALARMS:
            reached += opened >= share * limit
        if reached > self._raised:
            self._raised = reached
            log.warning(
                LogEvent(
                    "open tickets approach max_open_tickets, where each choice abandons the "
                    "oldest; submit rewards or raise it",
                    bandit=bandit,
                    percent=round(100 * ALARMS[reached - 1]),
                    open_tickets=opened,
                    max_open_tickets=limit,
                )
            )


class DocumentRate(DocumentSubscriber):
    """Sets rate limits to what the cluster's document says, or else to a declared rate."""

    def __init__(self, declared: float, *limits: RateLimit) -> None:
        self.declared, self.limits = declared, limits
        self._of_document: float | None = None

    def apply(self, document: Document) -> None:
        self._of_document = document.settings.get("max_pulls_per_second")
        self.declare(self.declared)

    def declare(self, rate: float) -> None:
        self.declared = rate
        for limit in self.limits:
            limit.change(rate if self._of_document is None else self._of_document)


class ArmSelection:
    """The arms of one bandit that may be chosen, as they are declared now.

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
    open : list of int
        Places of those that may be chosen.
    is_fixed : bool
        Whether any choice without `allowed` is among `open`: no chance, no error.
    """

    def __init__(self, bandit: BanditConfig, known: Sequence[int]) -> None:
        self.bandit, self.names = bandit, tuple(arm.name for arm in bandit.arms)
        at = {arm: place for place, arm in enumerate(known)}
        self.places = [at[arm.number] for arm in bandit.arms]
        self._places = dict(zip(self.names, self.places, strict=True))
        shares = ((self._places[arm.name], arm.minimum_share) for arm in bandit.arms)
        self._shares = [(place, share) for place, share in shares if share]
        pinned = bandit.pinned
        self.open = [
            self._places[arm.name]
            for arm in bandit.arms
            if (not arm.frozen if pinned is None else arm.name == pinned)
        ]
        self._open = frozenset(self.open)
        self.is_fixed = bool(self.names) and not self._shares

    def place_of(self, name: str) -> int | None:
        """Return the place of a declared arm."""
        return self._places.get(name)

    def permits(self, place: int | None, names: Sequence[str] | None) -> bool:
        """Return whether an arm may be chosen, among these if given."""
        if place not in self._open:
            return False
        return names is None or any(self._places.get(name) == place for name in names)

    def allowed(self, names: Sequence[str] | None, words: Callable[[], int]) -> list[int]:
        """Return the places to choose from.

        One alone where chance gives an arm its minimum share.
        """
        if not self.names:
            raise UnknownBanditError(
                f"bandit {self.bandit.name} is retired: it accepts rewards of open tickets, and "
                "chooses no more"
            )
        places = self.open
        if names is not None:
            for name in names:
                if name not in self._places:
                    raise unknown_name("arm", name, self.names)
            places = [self._places[name] for name in names if self._places[name] in self._open]
            if not places:
                raise InputError(
                    f"none of the arms {', '.join(names)} may be chosen now: others are pinned, or "
                    "they are frozen; allow another one"
                )
        if self._shares:
            left = uniform_of(words())
            for place, share in self._shares:
                if place in places:
                    left -= share
                    if left < 0.0:
                        return [place]
        return places


class ServedBandit:
    """Implements `BanditService` for one bandit of an agent.

    Parameters
    ----------
    agent : ServedAgent
        The agent.
    bandit : BanditConfig
        Its declaration.

    Attributes
    ----------
    late_rewards : int
        Rewards submitted for abandoned tickets since the start.
    """

    def __init__(self, agent: ServedAgent, bandit: BanditConfig) -> None:
        self.agent, self.node = agent, agent.node
        self._go_by(bandit)
        self.token = _token_of(bandit)
        documents, now, rate = self.node.settings.documents, agent.clock(), bandit.most_pulls
        if documents.document is not None:
            # Neighbours believed the higher of both rates since the epoch began; where the
            # document's is lower, `DocumentRate` lowers the limit in force.
            rate = max(rate, documents.document.settings.get("max_pulls_per_second", rate))
        choices, rewards = self.replica.tickets.next_number - 1, int(self.replica.own_counts.sum())
        age = now - bandit.cluster.epoch
        self.choosing = RateLimit(rate, age, choices, now)
        self.observing = RateLimit(rate, age, rewards, now)
        self.late_rewards, self._alarm = 0, TicketAlarm()
        self._rate = DocumentRate(bandit.most_pulls, self.choosing, self.observing)
        documents.subscribe(f"pace of {bandit.number}", self._rate)

    def declare(self, bandit: BanditConfig) -> None:
        """Go by this declaration from now on."""
        # A retired one is declared nowhere, and its late rewards are its application's alone.
        if bandit.arms and bandit.token_file != self.declared.token_file:
            self.token = _token_of(bandit)
        self._go_by(bandit)
        self._rate.declare(bandit.most_pulls)

    def _go_by(self, bandit: BanditConfig) -> None:
        self.declared, self.scale, self.encoder = bandit, bandit.scale, bandit.encoder
        self.replica = self.node.bandits.replicas[bandit.number]
        self.selection = ArmSelection(bandit, list(self.replica.arms))
        self.names = self.selection.names

    def choose(
        self,
        allowed: Sequence[str] | None = None,
        context: Context | None = None,
        unit: bytes = b"",
        call: bytes = b"",
    ) -> Choice:
        """Return an arm, one of `allowed` if given, for a request like this, and a ticket.

        An agent that was started on a full disk answers by what it knows, without a ticket. A
        `unit` that this agent owns, by its hash, is given the arm that it was given before; a
        forwarded `call` that comes again is answered with its ticket.
        """
        agent, replica, selection = self.agent, self.replica, self.selection
        if call in replica.units.served:
            served = replica.units.served[call]
            arm_name = replica.arms.get(served.arm) or "(purged)"
            return Choice(self._ticket(served.number), arm_name, sticky=True)
        sticky = True if unit else None
        kept = self._kept(unit, allowed) if unit else None
        places: list[int] | None
        if kept is not None:
            places, unit = [kept], b""
        elif allowed is None and selection.is_fixed:
            places = selection.open
        else:
            names = None if allowed is None else require_allowed(allowed)
            places = selection.allowed(names, agent.words)
        # Those of all arms that the agent knows, of neighbours too, need not be picked out.
        among = places if len(places) < len(replica.arms) else None
        features = None
        if context is not None or self.encoder.features:
            features = self.encoder.encode(context)
        if agent.failure:
            raise UnavailableError(agent.failure)
        if agent.draining:
            raise DrainingError(f"{DRAINING}; ask another agent")
        if self.node.bandits.journal.read_only:
            if call:
                raise UnavailableError(f"{self.node.trouble}; nothing was chosen")
            arm = replica.advise(agent.words(), among, features)
            return Choice("", list(replica.arms.values())[arm], sticky and False)
        now = agent.clock()
        self.choosing.check(now)
        before = len(replica.tickets.open)
        try:
            number, arm = replica.choose(agent.words(), among, now, features, unit, call)
        except DiskError as error:
            raise UnavailableError(f"{error}; nothing was chosen") from error
        self.choosing.spare -= 1.0
        self._alarm.check(self.declared.name, before, replica.tickets)
        return Choice(self._ticket(number), list(replica.arms.values())[arm], sticky)

    def _ticket(self, number: int) -> str:
        """Return a ticket as applications see it: it names its agent."""
        return f"{self.replica.tickets.name(number)}@{self.agent.config.id}"

    def _kept(self, unit: bytes, allowed: Sequence[str] | None) -> int | None:
        """Return the place of the arm that a unit was given, if it may still be chosen."""
        replica = self.replica
        arm = replica.units.find(unit, self.agent.clock(), self.declared.sticky_seconds)
        if arm is None:
            return None
        place = list(replica.arms).index(arm)
        names = None if allowed is None else require_allowed(allowed)
        return place if self.selection.permits(place, names) else None

    def choose_for(
        self, unit: str, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice | Pending[Choice]:
        """Return a choice for a user or session, by the agent that owns it where possible."""
        agent, declared, routes = self.agent, self.declared, self.node.routes
        name = unit_hash(declared.cluster.name, declared.number, require_unit(unit))
        is_serving = not agent.failure and not agent.draining
        if declared.sticky_seconds > 0.0 and routes.is_settled and is_serving:
            owner = agent.forwarding.owner_of(name)
            if owner == agent.config.id:
                return self.choose(allowed, context, name)
            self.encoder.encode(context)  # rejects what is rejected here as well
            allowed = None if allowed is None else require_allowed(allowed)
            if pending := agent.forwarding.choose(self, owner, name, allowed, context):
                return pending
        return self.choose(allowed, context)._replace(sticky=False)

    def submit(self, ticket: str, reward: float) -> Receipt | Pending[Receipt]:
        """Count the reward of a ticket, which another agent of the fleet may have issued."""
        _, _, issuer = ticket.partition("@")
        if issuer == self.agent.config.id or not NODE_ID.fullmatch(issuer):
            return self.observe(ticket, reward)
        if self.agent.failure:
            raise UnavailableError(self.agent.failure)
        return self.agent.forwarding.submit(self, issuer, ticket, reward)

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count the reward of a ticket of this agent; the call is idempotent."""
        agent, replica = self.agent, self.replica
        name, _, issuer = ticket.partition("@")
        if issuer != agent.config.id:
            raise UnknownTicketError(
                f"{ticket[:100]!r} is no ticket of agent {agent.config.id}; submit the ticket that "
                "choose returned"
            )
        try:
            number = replica.tickets.number(name)
        except UnknownTicketError:
            owner = agent.owner_of(name)
            if owner is None:
                raise
            name = owner.declared.name
            raise UnknownTicketError(
                f"this ticket belongs to bandit {name!r}, not to {self.declared.name!r}; submit it "
                f"at /bandits/{name}/observe"
            ) from None
        if agent.failure:
            raise UnavailableError(agent.failure)
        now, journal = agent.clock(), self.node.bandits.journal
        self.observing.check(now)
        try:
            if journal.trouble:
                raise DiskError(journal.trouble)
            replica.expire(now)  # the next beat may be a second away
            arm, duplicate = replica.observe(number, reward)
        except ExpiredTicketError:
            self.late_rewards += replica.tickets.is_abandoned(number)
            raise
        except DiskError as error:
            raise UnavailableError(f"{error}; the reward is not counted") from error
        if not duplicate:
            self.observing.spare -= 1.0
            self.node.sessions.wake(self.declared.number)
        # The arm may no longer be declared; one that was purged has no name.
        return Receipt(ticket, list(replica.arms.values())[arm] or "(purged)", reward, duplicate)

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm, for requests like this where a context is given."""
        totals, replica, scale = self.totals(), self.replica, self.scale
        pairs = self._in_context(context, totals) if context is not None else self._means(totals)
        least, found = NO_INFORMATION * totals.num_agents, []
        for k, (mean, interval) in enumerate(pairs):
            at, pulls = self.selection.places[k], float(totals.counts[k])
            known = pulls > least
            found.append(
                ArmEstimate(
                    self.names[k],
                    scale.reward(mean) if known else None,
                    pulls if known else 0.0,
                    interval if known else None,
                    int(replica.own_counts[at]),
                    float(replica.own_sums[at]),
                    int(replica.agent.open_pulls[at]),
                )
            )
        return found

    def totals(self) -> Estimate:
        """Return reward sums and pulls of arms over the network, whatever the requests were."""
        estimate, places = self.replica.agent.estimate(), self.selection.places
        sums, counts, certain = estimate.sums[places], estimate.counts[places], estimate.certain
        if self.encoder.features:
            sums = sums[:, ONES]
        if certain is not None:
            by_arm = certain.sums.reshape(len(certain.counts), -1)  # with features, one each
            certain = Share(by_arm[places, ONES], certain.counts[places])
        return estimate._replace(sums=sums, counts=counts, extra=(), certain=certain)

    def _means(self, totals: Estimate) -> list[tuple[float, Interval]]:
        """Return each arm's mean and interval: NaN without pulls, and None without certified ones.

        An interval is about the mean of the certified pulls alone.
        """
        means = _ratios(totals)
        if totals.certain is None:
            return [(mean, None) for mean in means]
        intervals: list[Interval] = []
        centres, counts = _ratios(totals.certain), totals.certain.counts.tolist()
        for centre, pulls in zip(centres, counts, strict=True):
            if pulls > 0.0:
                half = QUANTILE * self.scale.sigma / math.sqrt(pulls)
                intervals.append(self.scale.interval(centre, half))
            else:
                intervals.append(None)
        return list(zip(means, intervals, strict=True))

    def _in_context(self, context: Context, totals: Estimate) -> list[tuple[float, Interval]]:
        """Return the same for requests like this, as the model expects."""
        found, deviations = self.replica.context_agent.outlook(self.encoder.columns(context))
        places, scale = self.selection.places, self.scale
        means, halves = found[places].tolist(), deviations[places].tolist()
        if scale.bounded:  # a line leaves the range of rewards somewhere, and they never do
            means = [min(max(mean, 0.0), 1.0) for mean in means]
        # The model rests on all totals, so intervals need all of them to be certified.
        if totals.certain is None or (totals.counts > totals.certain.counts).any():
            return [(mean, None) for mean in means]
        pairs = zip(means, halves, strict=True)
        return [(mean, scale.interval(mean, QUANTILE * half)) for mean, half in pairs]

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far, and how sure that is."""
        policy, scale, totals = self.declared.policy_object, self.scale, self.totals()
        nothing = Recommendation(None, None, 0.0, confidence, False, "No reward is known of yet.")
        if reason := recommend.obstacle(policy.parts if policy.plays_parts else None):
            recommend.require_confidence(confidence)
            known = totals.counts > NO_INFORMATION * totals.num_agents
            if not known.any():
                return nothing
            means = totals.sums[known] / totals.counts[known]
            arm = self.names[int(np.flatnonzero(known)[means.argmax()])]
            text = f"{arm} has the best mean so far; how sure that is cannot be stated, "
            pulls = float(totals.counts.sum())
            return Recommendation(arm, None, pulls, confidence, False, f"{text}since {reason}.")
        found = recommend.recommend(totals, scale.sigma, confidence)
        if found.pulls <= 0.0:
            return nothing
        arm, lead = self.names[found.arm], found.lead * (scale.high - scale.low)
        sure = f"with {100 * found.confidence:.4g} % confidence after {found.pulls:.0f} rewards"
        if not math.isfinite(lead):
            text = f"{arm} has the best mean so far, but of some option no reward is known of yet."
            return Recommendation(arm, None, found.pulls, confidence, False, text)
        if lead > 0.0:
            text = (
                f"{arm} is best: {sure}, its mean is at least {lead:.3g} above that of any other."
            )
        else:
            text = (
                f"{arm} has the best mean so far, but it is too early to tell: {sure}, another "
                f"option's may be up to {-lead:.3g} higher."
            )
        return Recommendation(arm, lead, found.pulls, confidence, lead > 0.0, text)

    def schema(self) -> BanditSchema:
        bandit = self.declared
        arms = [arm.name for arm in bandit.arms]
        return BanditSchema(bandit.name, arms, bandit.scale.accepted, bandit.encoder.schema())

    def summary(self) -> BanditState:
        bandit, replica = self.declared, self.replica
        return BanditState(
            name=bandit.name,
            number=bandit.number,
            policy=bandit.policy,
            arms=[arm.name for arm in bandit.arms],
            pinned=bandit.pinned,
            frozen=[arm.name for arm in bandit.arms if arm.frozen],
            retired=not bandit.arms,
            round=replica.rounds,
            rewards=replica.rewards,
            open_tickets=len(replica.tickets.open),
            era=replica.era,
        )

    def export(self) -> dict[str, Any]:
        """Return everything learned."""
        return learned(self.declared, self.replica)

    def health(self) -> dict[str, Any]:
        """Return the part of the agent's health that is about this bandit, as plain data.

        `shares` are the agent's shares of all rewards and pulls, K and K numbers on the agent's
        own scale, after each of the last rounds. Summed over all agents after the same round, they
        equal what was submitted. Where agents hand pulls on, `moving` says how many are held here,
        on their way to neighbours, and collected as far as is known here; else it is None.
        """
        replica, encoder = self.replica, self.encoder
        ask = getattr(replica.agent, "moving", None)  # a custom agent may not tell
        moving: Moving | None = None if ask is None else ask()
        shares = {}
        for number, share in replica.shares().items():
            sums = share.sums[ONES :: encoder.width] if encoder.features else share.sums
            shares[str(number)] = [*sums.tolist(), *share.counts.tolist()]
        return self.summary()._asdict() | {
            "mode": self.declared.mode,
            "agents_known": replica.agent.estimate().num_agents,
            "moving": None if moving is None else moving._asdict(),
            "max_open_tickets": replica.tickets.limit,
            "abandoned_tickets": replica.tickets.num_abandoned,
            "warning": self._warning(),
            "shares": shares,
        }

    def _warning(self) -> str:
        """Return a sentence where everything is pooled although sites differ, else nothing."""
        found, parts = scatter(self), self.declared.policy_object.parts
        pools = parts is not None and getattr(parts.aggregation, "spread", None) is None
        if found is None or not pools or not found.differs:
            return ""
        return (
            f"sites differ: their means scatter {found.ratio:.3g} times as much as by chance, with "
            f"a spread of {found.spread:.2g}, so pooling them may hurt; compare a policy with "
            "spread=estimate"
        )

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows, with events after number `since`."""
        agent, node, replica, bandit = self.agent, self.node, self.replica, self.declared
        now, estimates, documents = agent.clock(), self.arms(), node.settings.documents
        choices, rewards = replica.tickets.next_number - 1, replica.rewards
        waiting = len(replica.tickets.open)
        by_context = bool(self.encoder.features)
        known = [arm for arm in estimates if arm.mean is not None and not by_context]
        own_choices = replica.own_choices[self.selection.places].tolist()
        return AgentState(
            id=agent.config.id,
            cluster=bandit.cluster.name,
            policy=bandit.policy,
            started=node.events.started,
            now=now,
            round=replica.rounds,
            incarnation=replica.incarnation,
            ready=agent.ready(),
            arms=[_shown(arm, n) for arm, n in zip(estimates, own_choices, strict=True)],
            prefers=max(known, key=lambda arm: arm.mean or 0.0).arm if known else None,
            agents_known=replica.agent.estimate().num_agents,
            choices=choices,
            rewards=rewards,
            open_tickets=waiting,
            expired_tickets=replica.expired_tickets,
            neighbors=[
                _neighbor(peer, agent.config.neighbors.get(name) or node.place_of(name), now)
                for name, peer in node.peers.items()
            ],
            events=node.events.since(since),
            bandits=agent.names_from(self),
            document=documents.version if documents.enabled else None,
            by_context=by_context,
            version=__version__,
        )


def _ratios(totals: Estimate | Share) -> list[float]:
    pairs = zip(totals.sums.tolist(), totals.counts.tolist(), strict=True)
    return [total / pulls if pulls > 0.0 else math.nan for total, pulls in pairs]


def _token_of(bandit: BanditConfig) -> str | None:
    """Return the token of a bandit, a random one where it cannot be read.

    A file that became unreadable must not keep an agent from what all others have applied already,
    nor open the bandit to everybody.
    """
    try:
        return None if bandit.token_file is None else read_token(bandit.token_file)
    except InputError as error:
        log.error(
            LogEvent(
                "a bandit is closed to all but the agent's token", bandit=bandit.name, reason=error
            )
        )
        return token_hex()


def _shown(arm: ArmEstimate, choices: int) -> ArmState:
    low, high = arm.confidence or (None, None)
    return ArmState(
        arm.arm, arm.mean, low, high, arm.pulls, choices, arm.own_pulls, arm.own_reward, arm.open
    )


def _neighbor(peer: Peer, place: Address | None, now: float) -> NeighborState:
    """Return what a page shows of a neighbour.

    Its API is at the port that it reports, on the host where it is known to be: a neighbour reports
    no host, so it cannot send the viewer elsewhere.
    """
    (port, secure), api = peer.endpoint, None
    if port and place is not None:
        api = f"{'https' if secure else 'http'}://{Address(place.host, port)}"
    return NeighborState(
        name=peer.name,
        up=peer.met,
        why="" if peer.met else peer.reason or "no HELLO yet",
        frames=peer.frames["received"] + peer.frames["sent"],
        heard=round(max(0.0, now - peer.last_heard), 3),
        api=api,
    )


def learned(bandit: BanditConfig, replica: Replica) -> dict[str, Any]:
    """Return everything learned of a bandit, also of arms that are no longer declared."""
    scale, estimate = bandit.scale, replica.agent.estimate()
    sums = estimate.sums[:, ONES] if bandit.encoder.features else estimate.sums
    arms = {arm.number: arm for arm in bandit.arms}
    found = []
    for at, (number, known) in enumerate(replica.arms.items()):
        pulls, declared = float(estimate.counts[at]), arms.get(number)
        name = declared.name if declared else known
        if declared is None:
            state = "purged" if number == PURGED else REMOVED
        else:
            state = "frozen" if declared.frozen else "active"
        found.append(
            {
                "arm": name or None,
                "id": declared.id if declared else name or None,
                "number": number,
                "state": state,
                "pulls": pulls,
                "mean": scale.reward(float(sums[at]) / pulls) if pulls > 0.0 else None,
                "own_choices": int(replica.own_choices[at]),
                "own_pulls": int(replica.own_counts[at]),
                "own_reward": float(replica.own_sums[at]),
            }
        )
    settings = dict(bandit.shared)
    return {"number": bandit.number, "settings": settings, "round": replica.rounds, "arms": found}
