"""Attackers on private rewards: they see every message, and know all but one agent's secret.

Differential privacy holds against those who also know all rewards but one, all random words and
every other agent's secret. What agents send is linear in what the target counts for its pulls. So
an attacker finds out in a simulation of its own how each message depends on each of these numbers,
and solves for them (`Attacker.released`); what is left is the binary tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

import coopbandits as cb
from coopbandits.core.draws import (
    GOLDEN,
    INIT_A,
    MIX_L,
    MIX_R,
    MULT_A,
    POOL,
    mix,
    uniform_of,
    uniforms,
    word_at,
    words,
)
from coopbandits.core.sources import SourceState

Messages = NDArray[np.float64]
"""All values that were sent, in order."""

PULLS = 7
"""Of the target; L = 3 blocks hold its first reward."""

LEVELS = 3
TARGET = 1
QUIET = 3
"""Rounds after the last pull, in which everything reaches the attacker."""

NETWORK = cb.Network.from_spec("path:2")
WORDS = words(77, np.arange(2, dtype=np.uint64)).tolist()


def rewards(first: float) -> list[float]:
    """The target's rewards; the attacker knows all but the first."""
    return [first, *(k / 8 for k in range(1, PULLS))]


class Scripted:
    """A source whose numbers the attacker writes."""

    def __init__(self, numbers: list[float]) -> None:
        self.numbers = numbers

    def drawn(self, arm: int, reward: float, estimate: object) -> float:
        del reward, estimate
        return 0.0 if arm else self.numbers.pop(0)


class WordNoise(SourceState):
    """Noise of the random word, as it was once: what exponentials reveal."""

    def __init__(self, view: cb.LocalView, settings: cb.Private) -> None:
        super().__init__(view, settings)
        self.key = view.random_word
        self.deviation = settings.levels / settings.epsilon

    def drawn(self, arm: int, reward: float, estimate: object) -> float:
        del estimate
        self.state.in_trees[arm] += 1
        pulls = int(self.state.in_trees[arm])
        return reward + self.sum_of(arm, pulls) - self.sum_of(arm, pulls - 1)

    def sum_of(self, arm: int, pulls: int) -> float:
        return noise_by_word(self.key, arm, pulls, self.deviation)


class KeyNoise(WordNoise):
    """Noise of a secret, but by SplitMix64, which can be inverted."""

    def __init__(self, view: cb.LocalView, settings: cb.Private) -> None:
        super().__init__(view, settings)
        self.key = int.from_bytes(view.secret[:8], "little")


class HalfNoise(SourceState):
    """Half of the noise."""

    def __init__(self, view: cb.LocalView, settings: cb.Private) -> None:
        super().__init__(view, settings)
        self.state.me.scale //= 2


def noise_by_word(key: int, arm: int, pulls: int, scale: float) -> float:
    key, total = word_at(key, arm), 0.0
    for level in range(LEVELS):
        if pulls >> level & 1:
            block = (pulls >> level << level) - (1 << level)
            centred = uniform_of(word_at(word_at(key, level), block)) - 0.5
            total -= math.copysign(scale, centred) * math.log1p(-2.0 * abs(centred))
    return total


class Attacker:
    """Sees all messages of a network of two, and attacks the second.

    Parameters
    ----------
    policy : Policy
        What the two play, with a source.
    kind : type
        The source state that the target's rewards pass.
    inverts : bool
        Whether to look for a key of which SplitMix64 makes the noise; takes a tenth of a second.
    """

    def __init__(
        self, policy: cb.Policy, kind: type[SourceState] = SourceState, *, inverts: bool = False
    ) -> None:
        self.policy, self.kind, self.inverts = policy, kind, inverts
        self.source: cb.Private = getattr(policy, "source")  # noqa: B009  of both kinds
        told = policy.needs & {"num_agents"}
        views = [NETWORK.local_view(i, num_arms=2, sigma=0.5, needs=told) for i in range(2)]
        self.views = [
            replace(view, random_word=word, secret=bytes(32))
            for view, word in zip(views, WORDS, strict=True)
        ]
        nothing = self._messages(Scripted([0.0] * PULLS))
        columns = [
            self._messages(Scripted([float(i == j) for i in range(PULLS)])) - nothing
            for j in range(PULLS)
        ]
        self.nothing, self.inverse = nothing, np.linalg.pinv(np.array(columns).T)
        assert np.linalg.matrix_rank(np.array(columns)) == PULLS  # nothing is hidden by mixing

    def messages(self, first: float, run: int) -> NDArray[np.float64]:
        """All that is sent where the target's first reward is `first`; `run` draws its secret."""
        view = replace(self.views[TARGET], secret=(run + 1).to_bytes(32, "little"))
        return self._messages(self.kind(view, self.source), first)

    def _messages(self, state: Any, first: float = 0.0) -> NDArray[np.float64]:
        agents: list[Any] = [self.policy.make_agent(view) for view in self.views]
        agents[TARGET].source = state
        for agent in agents:
            agent.observe(1, 0.5)  # some policies are silent until every arm was pulled
        seen = []
        for round_ in range(PULLS + QUIET):
            if round_ < PULLS:
                for i, agent in enumerate(agents):
                    agent.observe(0, rewards(first)[round_] if i == TARGET else 0.25)
            sent = [agents[0].outgoing(1), agents[1].outgoing(0)]
            seen += [values for values in sent if values is not None]
            for i, agent in enumerate(agents):
                heard = sent[1 - i]
                agent.receive({} if heard is None else {1 - i: heard})
        return np.concatenate(seen)

    def released(self, messages: NDArray[np.float64]) -> NDArray[np.float64]:
        """The noisy sum of the target's rewards after each pull."""
        return np.cumsum(self.inverse @ (messages - self.nothing))

    def ratio(self, messages: NDArray[np.float64]) -> float:
        """The logarithm of how much likelier a first reward of 1 makes what was sent than one of 0.

        Where the noise is known, that is all or nothing.
        """
        sums = self.released(messages)
        for noise in self.known_noise(sums):
            for first in (0.0, 1.0):
                if np.allclose(sums - noise, np.cumsum(rewards(first)), atol=1e-6):
                    return 1e3 * (2.0 * first - 1.0)
        total = 0.0
        for pulls in (1, 2, 4):  # the sums that are one block, with the first pull in it
            rest = sum(rewards(0.0)[:pulls])
            total += abs(sums[pulls - 1] - rest) - abs(sums[pulls - 1] - rest - 1.0)
        return total * self.source.epsilon / LEVELS

    def known_noise(self, sums: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        """What the noise would be if it came from the random word, or from an invertible key."""
        scale = self.source.levels / self.source.epsilon
        keys = [WORDS[TARGET]]
        if self.inverts:  # the third and the fifth pull are blocks of one, and known
            third, fifth = (sums[n] - sums[n - 1] - rewards(0.0)[n] for n in (2, 4))
            keys += keys_of_noise(third, fifth, scale)
        for key in keys:
            yield np.array([noise_by_word(key, 0, n, scale) for n in range(1, PULLS + 1)])


def unmixed(word: Any) -> Any:
    """The number whose SplitMix64 mixture is a word; also of many."""
    word = word ^ (word >> np.uint64(31)) ^ (word >> np.uint64(62))
    word = word * np.uint64(pow(0x94D049BB133111EB, -1, 1 << 64))
    word = word ^ (word >> np.uint64(27)) ^ (word >> np.uint64(54))
    word = word * np.uint64(pow(0xBF58476D1CE4E5B9, -1, 1 << 64))
    return word ^ (word >> np.uint64(30)) ^ (word >> np.uint64(60))


def candidates(uniform: float, slack: int) -> NDArray[np.uint64]:
    """All words that a uniform, known to some units in its last place, may have come from."""
    middle = int(uniform * 2.0**52)
    upper = np.arange(middle - slack, middle + slack + 1, dtype=np.uint64)
    found = (upper[:, None] << np.uint64(12)) + np.arange(4096, dtype=np.uint64)
    return found.astype(np.uint64).ravel()


def words_of_exponentials(exponentials: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The random words whose exponentials these are: SplitMix64 is a bijection."""
    found: NDArray[np.uint64] = (
        unmixed(candidates(math.exp(-exponentials[0]), 8)) - np.uint64(2) * GOLDEN
    )
    for at in range(1, 3):
        drawn = -np.log(uniforms(mix(found + np.uint64(at + 2) * GOLDEN)))
        found = found[np.isclose(drawn, exponentials[at], rtol=1e-9, atol=0.0)]
    return found


def keys_of_noise(third: float, fifth: float, scale: float) -> list[int]:
    """The keys whose Laplace variates of the third and the fifth pull these are, of arm 0."""
    uniform = 0.5 + math.copysign(math.expm1(-abs(third) / scale) / 2.0, third)
    found = unmixed(candidates(uniform, 64)) - np.uint64(3) * GOLDEN
    centres = uniforms(mix(found + np.uint64(5) * GOLDEN)) - 0.5
    drawn = -np.copysign(scale, centres) * np.log1p(-2.0 * abs(centres))
    found = found[abs(drawn - fifth) < 1e-6]
    arms = unmixed(found) - GOLDEN  # from the key of level 0 to that of the arm
    keys: list[int] = (unmixed(arms) - GOLDEN).tolist()
    return keys


def twin_of(seed: int) -> int:
    """Another seed of 128 bits, of which every stream has the same key.

    A key is made of two of the four words that numpy's hash keeps, and each step of the hash can be
    inverted: so a key reveals these two words, from which the keys of all streams follow.
    """
    bits, constants = (1 << 32) - 1, [INIT_A]
    for _ in range(POOL * POOL):
        constants.append(constants[-1] * MULT_A & bits)
    pairs = [(i, j) for i in range(POOL) for j in range(POOL) if i != j]

    def scrambled(value: int, step: int) -> int:
        mixed = (value ^ constants[step]) * constants[step + 1] & bits
        return mixed ^ mixed >> 16

    words = [seed >> 32 * i & bits for i in range(POOL)]
    pool = [scrambled(word, i) for i, word in enumerate(words)]
    for step, (i, j) in enumerate(pairs, POOL):
        mixed = (pool[j] * int(MIX_L) - scrambled(pool[i], step) * int(MIX_R)) & bits
        pool[j] = mixed ^ mixed >> 16
    pool[3] ^= 1  # of which no key is made
    for step, (i, j) in reversed(list(enumerate(pairs, POOL))):
        mixed = pool[j] ^ pool[j] >> 16
        pool[j] = (mixed + scrambled(pool[i], step) * int(MIX_R)) * pow(int(MIX_L), -1, 1 << 32)
        pool[j] &= bits
    found = [value ^ value >> 16 for value in pool]
    for i in range(POOL):
        found[i] = found[i] * pow(constants[i + 1], -1, 1 << 32) & bits ^ constants[i]
    return sum(word << 32 * i for i, word in enumerate(found))


def least_epsilon(one: NDArray[np.float64], other: NDArray[np.float64], error: float) -> float:
    """A lower confidence bound on ε, from what an attacker makes of two databases.

    Thresholds are chosen on the first half of each and counted on the second, where the bounds are
    those of Clopper and Pearson. It is larger than ε with a probability of at most `error`.
    """
    half = one.size // 2
    best, bound = -math.inf, 0.0
    for threshold in np.unique(np.concatenate([one[:half], other[:half]])):
        likely, unlikely = (int((each[:half] >= threshold).sum()) for each in (one, other))
        found = math.log((likely + 0.5) / (unlikely + 0.5)) - 1.0 / math.sqrt(likely + 1)
        if found > best:
            best, chosen = found, threshold
    rest = one.size - half
    likely, unlikely = (int((each[half:] >= chosen).sum()) for each in (one, other))
    low = beta.ppf(error / 2, likely, rest - likely + 1) if likely else 0.0
    high = beta.ppf(1 - error / 2, unlikely + 1, rest - unlikely) if unlikely < rest else 1.0
    if low > 0.0:
        bound = max(0.0, math.log(low / high))
    return bound
