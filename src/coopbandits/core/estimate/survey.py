r"""Survey of a network by flooding: how many agents, how far apart, with which weights.

Every agent has a random tag. In its first message it sends the own tag, and from then on the tags
that it heard for the first time in the last round. So in round r it hears the tags of all agents r
links away. A round without a new tag means that there are none further away either: the agent has
heard all, and the number of rounds before is its *eccentricity*, the distance of the agent farthest
from it. The largest eccentricity is the diameter D; it is spread as a maximum, and so are the
smallest and the largest weight on a link and the smallest own weight.

A message is, minima being told as maxima of the negative::

    [−lightest link, heaviest link, −least own weight, largest eccentricity (−1: none), new tags]

All are done after 3D + 1 rounds, and each agent knows by itself when that is. Say m is the largest
eccentricity that agent i has heard of when 3m + 1 rounds have passed, its own e_i included, and the
eccentricity of agent j is D. Then j knows that after D + 1 rounds, and i hears of it at most e_i
rounds later. Since D ≤ 2e_i and e_i ≤ m, that was within 3m + 1 rounds. So m = D.

Lies are bounded where a largest number of agents was declared (`LocalView.max_agents`): no more
tags are taken than that, and no weight that Metropolis weights among as many cannot have. No
eccentricity is larger than the rounds that passed, or than twice one's own. So agents find a
network that there could be, after rounds that it could need.

**Guaranteed bound on λ.** I − P is a Laplacian with the weights P_ij, and lies between w_min and
w_max times that of the graph, whose eigenvalues are at least 4/(N D) apart from the 0 (Mohar 1991;
N, if all know each other) and at most N. And all eigenvalues of P are at least 2 min P_ii − 1
(Gershgorin). So, with a = 4/(N D), or a = N where D = 1,

    λ ≤ λ̄ = max(1 − w_min a,  −max(2 min P_ii − 1, 1 − w_max N)).

With max-degree weights, w = 1/(δ + 1) and min P_ii = 1/(δ + 1), this is at most
max(1 − 4/(N D (δ + 1)), (δ − 1)/(δ + 1)). It holds for Metropolis weights and others just as well.

N values and four more per round go over every link in each direction. Needs rounds that all count
together from a common start, and loses its meaning if a message is lost: that is an error.

The survey is written as functions on fields, which aggregations play (`SURVEY`); `Survey` is one
agent that does nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core import rows
from coopbandits.core.aggregate.extrema import require_word
from coopbandits.core.aggregate.fields import FieldState, agent_state, layout_of
from coopbandits.core.aggregate.messages import check_vectors
from coopbandits.core.contract import LocalView, State, Vector
from coopbandits.core.errors import InputError

HEAD = 4
"""Values of a message before the tags."""

LIGHTEST, HEAVIEST, LEAST_OWN, FARTHEST = range(HEAD)
"""Places in `extremes`."""

ROUNDING = 1e-9
"""By how much weights may be off."""

SURVEY: dict[str, Any] = {
    "extremes": HEAD,
    "num_tags": int,
    "num_new": int,
    "eccentricity": int,  # −1: not known yet
    "surveyed": int,  # rounds
}
"""Fields of a survey beside `tags`, those heard in ascending order, and `new_tags`, those heard for
the first time in the last round. Both need room for a tag per agent."""


def start_survey(s: Any, view: LocalView) -> None:
    """Begin with the own tag and the own weights."""
    links = view.neighbor_weights.values()
    lightest, heaviest = min(links, default=1.0), max(links, default=0.0)
    s.extremes[:] = [-lightest, heaviest, -view.own_weight, -1.0]
    s.tags[0] = s.new_tags[0] = float(require_word(view) >> 11)
    s.me.num_tags = s.me.num_new = 1
    s.me.eccentricity = -1


def write_survey(s: Any, out: Any) -> int:
    """Write the extremes and the tags that were new in the last round; return the length."""
    rows.copy(out[:HEAD], s.extremes)
    rows.copy(out[HEAD : HEAD + s.me.num_new], s.new_tags[: s.me.num_new])
    return int(HEAD + s.me.num_new)


def hear_survey(s: Any, inbox: Any, lengths: Any) -> None:
    """Take in new tags and extremes; without a new tag the eccentricity is known."""
    s.me.num_new = 0
    for link in range(lengths.size):
        for i in range(HEAD):
            s.extremes[i] = max(s.extremes[i], inbox[link, i])
        for at in range(HEAD, lengths[link]):
            add_tag(s, inbox[link, at])
    rows.sort(s.new_tags[: s.me.num_new])
    if s.me.num_new == 0 and s.me.eccentricity < 0:
        s.me.eccentricity = s.me.surveyed
        s.extremes[FARTHEST] = max(s.extremes[FARTHEST], float(s.me.surveyed))
    s.me.surveyed += 1


def add_tag(s: Any, tag: float) -> None:
    low, high = 0, s.me.num_tags
    while low < high:
        middle = (low + high) // 2
        if s.tags[middle] < tag:
            low = middle + 1
        else:
            high = middle
    if low < s.me.num_tags and s.tags[low] == tag:
        return
    for at in range(s.me.num_tags, low, -1):
        s.tags[at] = s.tags[at - 1]
    s.tags[low] = tag
    s.new_tags[s.me.num_new] = tag
    s.me.num_tags += 1
    s.me.num_new += 1


def has_surveyed(s: Any) -> bool:
    return bool(s.me.eccentricity >= 0 and s.me.surveyed > 3.0 * s.extremes[FARTHEST])


def surveyed_lambda(s: Any) -> float:
    return guaranteed_lambda(
        s.me.num_tags, int(s.extremes[FARTHEST]), -s.extremes[LIGHTEST], s.extremes[HEAVIEST],
        -s.extremes[LEAST_OWN],
    )  # fmt: skip


def guaranteed_lambda(
    num_agents: int, diameter: int, lightest: float, heaviest: float, least_own: float
) -> float:
    """Return λ̄ from N, D, the smallest and largest weight of a link and the least own weight."""
    if num_agents == 1:
        return 0.0
    connectivity = float(num_agents) if diameter == 1 else 4.0 / (num_agents * diameter)
    lowest = max(2.0 * least_own - 1.0, 1.0 - heaviest * num_agents)
    return float(max(0.0, 1.0 - lightest * connectivity, -lowest))


def check_complete(view: LocalView, messages: Mapping[int, Vector]) -> None:
    missing = sorted(set(view.neighbor_weights) - set(messages))
    if missing:
        raise InputError(
            f"messages from {missing} are missing, and an estimate needs all of them; "
            "set num_agents and lambda_bound where messages get lost"
        )


def check_survey(s: Any, view: LocalView, messages: Mapping[int, Vector]) -> None:
    """Check that no message is missing, and that they describe a possible network."""
    check_complete(view, messages)
    for neighbor, message in messages.items():
        if np.ndim(message) != 1 or np.size(message) < HEAD:
            raise InputError(
                f"message from {neighbor} has shape {np.shape(message)}; a survey takes "
                f"{HEAD} values and new tags"
            )
        check_vectors({neighbor: message}, np.size(message))
        _check_extremes(s, view, message, f"message from {neighbor}")
    if s.me.num_tags + told_tags(messages) <= view.max_agents:
        return
    heard = {tag for message in messages.values() for tag in message[HEAD:].tolist()}
    known = len(heard.union(s.tags[: s.me.num_tags].tolist()))
    if known > view.max_agents:
        senders = ", ".join(map(str, messages))
        raise InputError(
            f"messages from {senders} tell of {known} agents; there are at most {view.max_agents:g}"
        )


def _check_extremes(s: Any, view: LocalView, message: Vector, source: str) -> None:
    farthest = s.me.surveyed if s.me.eccentricity < 0 else 2 * s.me.eccentricity
    if not -1.0 <= message[FARTHEST] <= farthest:
        raise InputError(
            f"{source} tells of agents {message[FARTHEST]:g} links apart; by now it is at most "
            f"{farthest}"
        )
    least = (1.0 - ROUNDING) / view.max_agents
    light, heavy, own = -message[LIGHTEST], message[HEAVIEST], -message[LEAST_OWN]
    if least > 0.0 and not least <= min(light, own) <= max(light, own, heavy) <= 1.0 + ROUNDING:
        raise InputError(
            f"{source} tells of weights {light:g} to {heavy:g}, and {own:g} for own values; "
            f"they are {least:g} to 1"
        )


def exact_room(s: Any, tags: int) -> Any:
    """Return a state with room for `tags` tags; those that fit are kept."""
    kept = min(tags, s.tags.size)
    more = np.zeros(tags - kept)
    found, new = (np.concatenate([each[:kept], more]) for each in (s.tags, s.new_tags))
    return s._replace(tags=found, new_tags=new)


def with_room(s: Any, tags: int) -> Any:
    """Return a state with room for at least `tags` tags."""
    return s if tags <= s.tags.size else exact_room(s, 2 * tags)


def without_room(state: State) -> State:
    """Return an exported state without the room for tags that are not known yet."""
    new = state["new_tags"][: state["num_new"]]
    return state | {"tags": state["tags"][: state["num_tags"]], "new_tags": new}


def roomy(state: State) -> State:
    """Return such a state with as much room for new tags as there are tags; check what it holds."""
    tags, new = state.get("tags"), state.get("new_tags")
    if not isinstance(tags, list) or not isinstance(new, list):
        return state
    counted, spare = [state.get(name) for name in ("num_tags", "num_new")], len(tags) - len(new)
    if [len(tags), len(new)] != counted or spare < 0:
        raise InputError(
            f"state has {len(tags)} tags, {len(new)} of them new, but counts {counted[0]} and "
            f"{counted[1]}; restore what export_state returned"
        )
    return state | {"new_tags": [*new, *[0.0] * spare]}


def told_tags(messages: Mapping[int, Vector]) -> int:
    """Return how many tags messages have, the same one counted again."""
    return sum(message.size - HEAD for message in messages.values())


class Estimator(FieldState, ABC):
    """Finds a number that no agent knows, in rounds of one message per neighbour.

    All agents start in the same round, and every message must arrive.

    Parameters
    ----------
    view : LocalView
        What the agent may know.
    kinds : mapping of str to shapes
        The fields that it works on.
    """

    def __init__(self, view: LocalView, kinds: Mapping[str, Any]) -> None:
        self.view = view
        self.neighbors = sorted(view.neighbor_weights)
        self.state = agent_state(layout_of(self.owner, kinds), len(self.neighbors))

    @property
    def owner(self) -> str:
        return type(self).__name__

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the answer stands; True at all agents in the same round."""

    @abstractmethod
    def outgoing(self, neighbor: int) -> Vector:
        """Return this round's message to a neighbour; changes nothing."""

    @abstractmethod
    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Take in one message from each neighbour and end the round."""

    def letters(self, messages: Mapping[int, Vector]) -> tuple[Vector, NDArray[np.int64]]:
        """Return messages as functions on fields read them: a row per link, and their lengths."""
        lengths = np.array([messages[j].size for j in self.neighbors], dtype=np.int64)
        inbox = np.zeros((lengths.size, lengths.max(initial=0)))
        for link, j in enumerate(self.neighbors):
            inbox[link, : lengths[link]] = messages[j]
        return inbox, lengths


class Survey(Estimator):
    """N, the diameter and bounds on the weights of P, exactly, after 3D + 1 rounds.

    Parameters
    ----------
    view : LocalView
        What the agent may know: its row of P and a random word.

    Notes
    -----
    Tags have 53 bits, so that a float carries them: two agents share one with a probability of
    N²/2⁵⁴, and N is then found too small.
    """

    fields = ("tags", "new_tags", *SURVEY)
    tables = ("tags", "new_tags")

    def __init__(self, view: LocalView) -> None:
        super().__init__(view, {"tags": 1, "new_tags": 1, **SURVEY})
        start_survey(self.state, view)

    @property
    def rounds(self) -> int:
        return int(self.state.me.surveyed)

    @property
    def eccentricity(self) -> int:
        """The distance of the agent farthest away, −1 until it is known."""
        return int(self.state.me.eccentricity)

    @property
    def done(self) -> bool:
        return has_surveyed(self.state)

    @property
    def diameter(self) -> int:
        """The largest eccentricity heard of; D once `done`."""
        return int(self.state.extremes[FARTHEST])

    @property
    def num_agents(self) -> int:
        """N, the number of tags heard; not before `done`."""
        return int(self.state.me.num_tags)

    @property
    def lambda_bound(self) -> float:
        """An upper bound on λ that holds for certain; not before `done`."""
        return surveyed_lambda(self.state)

    def outgoing(self, neighbor: int) -> Vector:
        # All neighbours get the same.
        out = np.zeros(HEAD + self.state.me.num_new)
        write_survey(self.state, out)
        return out

    def receive(self, messages: Mapping[int, Vector]) -> None:
        check_survey(self.state, self.view, messages)
        self.state = with_room(self.state, self.state.me.num_tags + told_tags(messages))
        hear_survey(self.state, *self.letters(messages))

    def export_state(self) -> State:
        return without_room(super().export_state())

    def restore_state(self, state: State) -> None:
        """Continue from an exported state, or change nothing if it does not fit."""
        before, state = self.state, roomy(state)
        self.state = exact_room(before, len(state.get("tags", ())))
        try:
            super().restore_state(state)
        except InputError:
            self.state = before
            raise
