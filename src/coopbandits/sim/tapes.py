"""The two tapes: all the chance in a run, as a pure function of (seed, run, agent, pull number).

Rewards: one word per pull, turned into a variate and by the pulled arm into a reward; all policies
of one call see the same tape, so comparisons are paired. Decisions: one word per pull, handed to
`choose`. A word depends on its place alone, so chunks, threads and horizons change nothing.
Where arms are shuffled, their order is a function of (seed, run) in the same way, and so is the one
word of its own that an agent may be given when it is made.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Vector
from coopbandits.core.draws import Words, normals, stream_key, uniforms, words, words_of

REWARDS = 0
DECISIONS = 1
ARM_ORDER = 2
IDENTITY = 4


def agent_keys(seed: int, stream: int, run: int, num_agents: int) -> Words:
    """Return the key of every agent's tape in one run."""
    return words(stream_key(seed, stream, run), np.arange(num_agents, dtype=np.uint64))


def arm_order(seed: int, run: int, num_arms: int) -> NDArray[np.int64]:
    """Return the arm that stands at each place in one run: all orders are equally likely."""
    return np.argsort(agent_keys(seed, ARM_ORDER, run, num_arms))  # keys are never equal


def identity_words(seed: int, run: int, num_agents: int) -> list[int]:
    """Return the random word that every agent is given when it is made."""
    words_of_agents: list[int] = agent_keys(seed, IDENTITY, run, num_agents).tolist()
    return words_of_agents


def tape_words(keys: Words, first: int, pulls: int) -> Words:
    """Return the words of pulls first … first + pulls − 1, one row per agent."""
    return words_of(keys[:, None], np.arange(first, first + pulls, dtype=np.uint64)[None, :])


def variates(kind: str, tape: Words) -> Vector:
    """Return the words as "normal" or "uniform" variates."""
    return normals(tape) if kind == "normal" else uniforms(tape)
