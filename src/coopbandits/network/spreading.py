"""How the news of one agent spreads: the real machines of aggregations, round by round.

One agent makes a single pull. Its totals are all there is to know, so what an agent believes the
network's pulls to be is the share of the truth that it has: 0 at first, 1 in the end. Averages make
an agent believe more than that while what it holds has not spread, and accelerated mixing swings
below 0 on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate import (
    AnyAggregation,
    FloodedTotals,
    Machine,
    RunningConsensus,
    StagedMixing,
    TreeSums,
)
from coopbandits.core.aggregate.aggregation import MIXED
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Vector
from coopbandits.core.draws import stream_key, words
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.index import UCB
from coopbandits.core.policy import combine
from coopbandits.core.registry import parse_aggregation
from coopbandits.core.statistic import ArmSums
from coopbandits.plots.spreading import CLOSE, Scene, gif_bytes, html_page
from coopbandits.plots.writing import write_files

if TYPE_CHECKING:
    from coopbandits.network.network import Network

Values = NDArray[np.float64]

USUAL = {
    "plain mixing": RunningConsensus(),
    "accelerated mixing": StagedMixing(own_pulls=False),
    "tree": TreeSums(),
    "flood": FloodedTotals(),
}
"""What is shown side by side unless others are asked for."""

MOST_ROUNDS = 400
"""Rounds that are shown unless more are asked for."""

MOST_VALUES = 1_000_000
"""Agents times rounds times aggregations that a page or a film can hold."""

WORDS = 17
"""The stream of the agents' random words."""

KINDS = ("html", "gif")


@dataclass(frozen=True, eq=False)
class Spread:
    """How news spreads; a notebook plays it.

    Attributes
    ----------
    network : Network
        The network.
    source : int
        The agent that has the news.
    names : tuple of str
        What is compared.
    values : array of shape (names, rounds + 1, agents)
        The share of the truth that every agent has after 0, 1, … rounds.
    """

    network: Network
    source: int
    names: tuple[str, ...]
    values: Values

    @property
    def informed(self) -> Values:
        """The share of agents within 5 % of the truth (name, round)."""
        found: Values = (abs(self.values - 1.0) <= CLOSE).mean(axis=-1)
        return found

    def save(self, path: str | Path) -> Path:
        """Write it as a page that plays by itself (`.html`), or as a film (`.gif`)."""
        target = Path(path)
        kind = kind_of(target)
        content = gif_bytes(self._scene) if kind == "gif" else html_page(self._scene).encode()
        write_files({target: content})
        return target

    def _repr_html_(self) -> str:
        page = escape(html_page(self._scene), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:46em;border:0"></iframe>'

    @property
    def _scene(self) -> Scene:
        network = self.network
        title = f"News of agent {network.labels[self.source]}: {network.description}"
        return Scene(
            title,
            network.positions,
            network.edges,
            tuple(map(str, network.labels)),
            self.source,
            self.names,
            self.values,
            self.informed,
        )


def kind_of(path: Path) -> str:
    """Return html or gif, as a file's name ends."""
    kind = path.suffix.lower().lstrip(".")
    if kind not in KINDS:
        raise unknown_name("kind of animation", kind or str(path), KINDS)
    return kind


def spread(
    network: Network,
    source: int = 0,
    aggregations: Sequence[AnyAggregation | str] | None = None,
    rounds: int | None = None,
) -> Spread:
    """Let the news of one agent spread; see `Network.animate`."""
    network.neighbors(source)  # refuses an agent that does not exist
    given = [aggregations] if isinstance(aggregations, str) else aggregations
    chosen = dict(USUAL) if given is None else dict(map(_named, given))
    if not chosen:
        raise InputError("no aggregation was given to animate; name some, or leave them out")
    if rounds is None:
        rounds = min(MOST_ROUNDS, max(network.mixing_rounds(), network.diameter + 1))
    require_count("rounds", rounds, least=1)
    if len(chosen) * (rounds + 1) * network.num_agents > MOST_VALUES:
        raise InputError(
            f"{len(chosen)} aggregations, {network.num_agents} agents and {rounds} rounds are more "
            f"than {MOST_VALUES:,} values to show; give fewer rounds or a smaller network"
        )
    values = np.array([play(each, network, source, rounds) for each in chosen.values()])
    return Spread(network, int(source), tuple(chosen), values)


def _named(given: AnyAggregation | str) -> tuple[str, AnyAggregation]:
    """Return an aggregation with its spelling."""
    found: Any = parse_aggregation(given) if isinstance(given, str) else given
    if combine(found, UCB()).central:  # which also refuses what is no aggregation
        raise InputError(
            f"aggregation {found.spelling} has no agents that talk; give one such as tree-sums"
        )
    return found.spelling, found


def play(spec: AnyAggregation, network: Network, source: int, rounds: int) -> Values:
    """Return the share of the truth that agents have after 0 to `rounds` rounds (round, agent).

    Where agents count rounds together the news is there from the beginning, and a first round in
    which nobody speaks is left out. All others have talked for a while when it comes, so that they
    have found each other: a tree stands, and agents are counted.
    """
    agents = _machines(spec, network)
    if not spec.needs_common_round:
        for _ in range(2 * network.diameter + 10):
            _deliver(agents, _messages(agents, network))
    agents[source].observe(0, 1.0)
    found = [_believed(agents, spec)]
    if spec.needs_common_round and not any(inboxes := _messages(agents, network)):
        _deliver(agents, inboxes)
    for _ in range(rounds):
        _deliver(agents, _messages(agents, network))
        found.append(_believed(agents, spec))
    return np.array(found)


def _machines(spec: AnyAggregation, network: Network) -> list[Machine]:
    registers, number = ArmSums().registers(1), network.num_agents
    told = words(stream_key(0, WORDS, 0), np.arange(number, dtype=np.uint64)).tolist()
    views = [
        network.local_view(agent, num_arms=1, sigma=1.0, needs=spec.needs)
        for agent in range(number)
    ]
    return [
        spec.make(replace(view, random_word=word), registers)
        for view, word in zip(views, told, strict=True)
    ]


def _messages(agents: Sequence[Machine], network: Network) -> list[dict[int, Vector]]:
    """Return what every agent is about to hear."""
    return [
        {j: message for j in network.neighbors(i) if (message := agents[j].outgoing(i)) is not None}
        for i in range(len(agents))
    ]


def _deliver(agents: Sequence[Machine], inboxes: Sequence[dict[int, Vector]]) -> None:
    """End the round."""
    for agent, inbox in zip(agents, inboxes, strict=True):
        agent.receive(inbox)


def _believed(agents: Sequence[Machine], spec: AnyAggregation) -> Values:
    """Return the pulls that every agent believes in, those that are still being mixed included."""
    if spec.shares == MIXED:  # an average: N times that is the total
        return np.array([len(agents) * float(agent.share().counts[0]) for agent in agents])
    return np.array([float(agent.estimate().counts[0]) for agent in agents])
