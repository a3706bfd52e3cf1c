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
tags are taken than that, and no weight that Metropolis weights among so many cannot have. No
eccentricity is larger than the rounds that passed, or than twice one's own. So agents find a
network that there could be, after rounds that it could need.

N values and four more per round go over every link in each direction. Needs rounds that all count
together from a common start, and loses its meaning if a message is lost: that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coopbandits.core.aggregate.exchange import check_vectors
from coopbandits.core.aggregate.extrema import require_word
from coopbandits.core.contract import LocalView, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.estimate.estimator import Estimator
from coopbandits.core.estimate.spectral import guaranteed_lambda

HEAD = 4
"""Values of a message before the tags."""


ROUNDING = 1e-9
"""By how much weights may be off."""


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

    fields = ("rounds", "tags", "fresh", "eccentricity", "extremes")
    tables = ("tags", "fresh")

    def __init__(self, view: LocalView) -> None:
        super().__init__(view)
        links = view.neighbor_weights.values()
        self.tags = np.array([float(require_word(view) >> 11)])
        self.fresh = self.tags.copy()
        self.eccentricity = -1  # not known yet
        lightest, heaviest = min(links, default=1.0), max(links, default=0.0)
        self.extremes = np.array([-lightest, heaviest, -view.own_weight, -1.0])

    @property
    def done(self) -> bool:
        """Whether 3D + 1 rounds have passed."""
        return self.eccentricity >= 0 and self.rounds > 3 * self.diameter

    @property
    def diameter(self) -> int:
        """The largest eccentricity heard of; D once `done`."""
        return int(self.extremes[3])

    @property
    def num_agents(self) -> int:
        """N, the number of tags heard; not before `done`."""
        return int(self.tags.size)

    @property
    def lambda_bound(self) -> float:
        """An upper bound on λ that holds for certain; not before `done`."""
        light, heaviest, own, _ = self.extremes.tolist()
        return guaranteed_lambda(
            self.num_agents, self.diameter, lightest=-light, heaviest=heaviest, least_own=-own
        )

    def outgoing(self, neighbor: int) -> Vector:
        """Return the extremes and the tags that were new in the last round."""
        del neighbor  # all get the same
        return np.concatenate([self.extremes, self.fresh])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Take in new tags and extremes; without a new tag the eccentricity is known."""
        self._check(messages)
        heads = (message[:HEAD] for message in messages.values())
        self.extremes = np.maximum.reduce([self.extremes, *heads])
        heard = {tag for message in messages.values() for tag in message[HEAD:].tolist()}
        self.fresh = np.array(sorted(heard.difference(self.tags.tolist()) if heard else ()))
        self.tags = np.append(self.tags, self.fresh)
        if self.fresh.size == 0 and self.eccentricity < 0:
            self.eccentricity = self.rounds
            self.extremes[3] = max(self.extremes[3], self.rounds)
        self.rounds += 1

    def _check(self, messages: Mapping[int, Vector]) -> None:
        self.check_complete(messages)
        for neighbor, message in messages.items():
            if np.ndim(message) != 1 or np.size(message) < HEAD:
                raise InputError(
                    f"message from {neighbor} has shape {np.shape(message)}; a survey takes "
                    f"{HEAD} values and new tags"
                )
            check_vectors({neighbor: message}, np.size(message))
            self._check_claims(message, f"message from {neighbor}")
        self._check_tags(messages)

    def _check_claims(self, message: Vector, source: str) -> None:
        farthest = self.rounds if self.eccentricity < 0 else 2 * self.eccentricity
        if not -1.0 <= message[3] <= farthest:
            raise InputError(
                f"{source} tells of agents {message[3]:g} links apart; by now it is at most "
                f"{farthest}"
            )
        least = (1.0 - ROUNDING) / self.view.max_agents
        light, heavy, own = -message[0], message[1], -message[2]
        if least > 0.0 and not least <= min(light, own) <= max(light, own, heavy) <= 1.0 + ROUNDING:
            raise InputError(
                f"{source} tells of weights {light:g} to {heavy:g}, and {own:g} for own values; "
                f"they are {least:g} to 1"
            )

    def _check_tags(self, messages: Mapping[int, Vector]) -> None:
        told = sum(message.size - HEAD for message in messages.values())
        if self.tags.size + told <= self.view.max_agents:
            return
        heard = {tag for message in messages.values() for tag in message[HEAD:].tolist()}
        known = len(heard.union(self.tags.tolist()))
        if known > self.view.max_agents:
            senders = ", ".join(map(str, messages))
            raise InputError(
                f"messages from {senders} tell of {known} agents; there are at most "
                f"{self.view.max_agents:g}"
            )
