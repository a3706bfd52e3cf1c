"""The two tapes: all randomness of a run, as a pure function of (seed, run, agent, pull number).

Rewards: one word per pull becomes a variate, which the pulled arm turns into a reward; all policies
of one call see the same tape, so comparisons are paired. Decisions: one word per pull, passed to
`choose`. Where rewards depend on features, these come from a tape of their own. A word depends only
on its place, so chunks, threads and horizons change nothing. In the same way the order of shuffled
arms is a function of (seed, run), the identity word that an agent may be given one of (seed, run,
agent), and its secret one of (seed, policy, run, agent, life): an agent that lost its memory gets
another.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Vector
from coopbandits.core.draws import (
    Words,
    normals,
    stream_key,
    stream_keys,
    uniforms,
    words,
    words_of,
)

REWARDS = 0
DECISIONS = 1
ARM_ORDER = 2
IDENTITY = 4
CONTEXTS = 7
SECRETS = 10


def agent_keys(seed: int, stream: int, run: int, num_agents: int) -> Words:
    """Return the key of every agent's tape in one run."""
    return words(stream_key(seed, stream, run), np.arange(num_agents, dtype=np.uint64))


def keys_of_runs(seed: int, stream: int, runs: range, num_agents: int) -> Words:
    """Return the same for some runs, one row each: a microsecond per run."""
    keys = stream_keys(seed, stream, runs)
    return words_of(keys[:, None], np.arange(num_agents, dtype=np.uint64)[None, :])


def arm_order(seed: int, run: int, num_arms: int) -> NDArray[np.int64]:
    """Return the arm at each place in one run; all orders are equally likely."""
    return np.argsort(agent_keys(seed, ARM_ORDER, run, num_arms))  # keys are distinct


def identity_words(seed: int, run: int, num_agents: int) -> list[int]:
    """Return the random word that every agent is given when it is made."""
    words_of_agents: list[int] = agent_keys(seed, IDENTITY, run, num_agents).tolist()
    return words_of_agents


def secret_of(seed: int, policy: str, run: int, agent: int, life: int) -> bytes:
    """Return the secret of one agent after it lost its memory `life` times.

    It is a hash of the whole seed. The keys of the streams above would not do: messages reveal
    identity words, and both SplitMix64 and numpy's hash can be inverted, so one word gives the keys
    of all streams, with 64 bits of the seed. Policies of one call have secrets of their own, since
    noise that is used for the rewards of two hides neither.
    """
    return blake2b(repr((int(seed), policy, run, agent, life)).encode(), digest_size=32).digest()


def tape_words(keys: Words, first: int, pulls: int) -> Words:
    """Return the words of pulls first … first + pulls − 1, one row per agent."""
    return words_of(keys[:, None], np.arange(first, first + pulls, dtype=np.uint64)[None, :])


def variates(kind: str, tape: Words) -> Vector:
    """Return the words as "normal" or "uniform" variates."""
    return normals(tape) if kind == "normal" else uniforms(tape)
