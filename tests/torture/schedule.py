"""What goes wrong in one run, and when: all of it follows from a seed.

A schedule is data: troubles with their times, and the weather, which is what happens to messages
and applications all the time. Troubles can be left out and the weather can be made calmer without
shifting anything else, since every draw is a word at a place of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from coopbandits.core.checks import require_count
from coopbandits.core.draws import stream_key, word_at
from coopbandits.core.errors import InputError
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.config import BanditConfig, ClusterConfig
from coopbandits.fleet.config.bandits import Arm, derived_number
from coopbandits.fleet.config.consistency import half_life_problems
from coopbandits.fleet.config.eligibility import can_widen, require_blind, require_eligible

SECOND = 1_000_000
"""Times are whole microseconds."""

START = 1_800_000_000
EPOCH = START - 1000
ROUNDS_PER_SECOND = 20.0
MAX_PULLS_PER_SECOND = 50.0
MAX_AGENTS = 64
LEAST_HALF_LIFE = 3600.0
ARMS = ("best", "good", "poor")
MAIN = "main"
"""The bandit that all agents have."""

CARRIED = ("flood-ts", "ledger-ts", "tree-ts")
"""Policies that become each other, in this order."""

TROUBLES, WEATHER, PHASES, MESSAGES, PULLS, DISKS, IDENTITIES, LIES, JOINS = range(9)
"""Streams of words."""


@dataclass(frozen=True)
class Setting:
    """What is tortured.

    Attributes
    ----------
    policy : str
        The spelling of a policy that can run in a fleet.
    agents : int
        How many there are, at least 3.
    rounds : int
        For so many rounds of gossip things go wrong; then they heal.
    half_life : float or None
        Seconds after which a pull counts half; None for ever the same.
    bandits : bool or None
        Whether there are two bandits, and arms that come and go; None lets the seed say.
    auto : bool or None
        Whether agents find their neighbours themselves; None lets the seed say.
    forward : bool or None
        Whether applications meet other agents with rewards and units; None lets the seed say.
    eras : bool or None
        Whether the policy changes, and with it eras; None lets the seed say.
    """

    policy: str = "flood-ts"
    agents: int = 8
    rounds: int = 200
    half_life: float | None = None
    bandits: bool | None = None
    auto: bool | None = None
    forward: bool | None = None
    eras: bool | None = None

    def __post_init__(self) -> None:
        require_count("agents", self.agents, least=3)
        require_count("rounds", self.rounds, least=1)

    @property
    def trouble_time(self) -> int:
        """Microseconds until everything heals."""
        return int(self.rounds / ROUNDS_PER_SECOND * SECOND)

    def check(self) -> None:
        """Refuse a policy that cannot do what is asked for."""
        require_eligible("--policy", parse_policy(self.policy))
        require_blind("--policy", parse_policy(self.policy))
        if self.bandits and not _can_widen(self.policy):
            raise InputError(
                f"--policy is {self.policy!r}, and with --bandits arms come and go; choose one on "
                "flooded-totals, tree-sums or ledger-sums, such as flood-ts"
            )
        if self.auto and not self.is_robust:
            raise InputError(
                f"--policy is {self.policy!r}, whose agents wait for each other, and with --auto "
                "neighbours come and go; choose a robust one, such as flood-ts"
            )
        if self.eras and not self.has_eras:
            raise InputError(
                f"--policy is {self.policy!r}, and with --eras it changes among "
                f"{', '.join(CARRIED)}; choose one of these, without --half-life"
            )
        if self.half_life is None:
            return
        for problem in half_life_problems(self.bandit(), self.half_life):
            raise InputError(problem)
        if self.half_life < LEAST_HALF_LIFE:
            raise InputError(
                f"--half-life is {self.half_life:g} s; clocks jump by minutes here, and may differ "
                "by an eighth of it: give at least 1h"
            )

    @property
    def has_eras(self) -> bool:
        """Whether its policy can become another one."""
        return self.policy in CARRIED and self.half_life is None

    def bandit_in(self, era: int) -> BanditConfig:
        """Return the bandit in some era."""
        if not era:
            return self.bandit()
        policy = CARRIED[(CARRIED.index(self.policy) + era) % len(CARRIED)]
        return replace(self.bandit(), policy=policy, era=era)

    @property
    def is_robust(self) -> bool:
        """Whether rounds end by the clock."""
        return not self.bandit().is_synchronous

    def bandit(self) -> BanditConfig:
        """Return the bandit that all agents have from the start."""
        cluster = ClusterConfig(
            "torture",
            EPOCH,
            rounds_per_second=ROUNDS_PER_SECOND,
            max_pulls_per_second=MAX_PULLS_PER_SECOND,
            max_agents=MAX_AGENTS,
        )
        needs = parse_policy(self.policy).needs
        return BanditConfig(
            MAIN,
            derived_number(MAIN),
            cluster,
            tuple(Arm(arm, arm) for arm in ARMS),
            policy=self.policy,
            reward_range=(0.0, 1.0),
            half_life=self.half_life,
            num_agents=self.agents if "num_agents" in needs else None,
            lambda_bound=0.95 if "lambda_bound" in needs else None,
        )


@cache
def _can_widen(policy: str) -> bool:
    return can_widen(parse_policy(policy))


class Trouble(NamedTuple):
    """One thing that goes wrong: when, what, whom it hits, for how long, and how exactly."""

    at: int
    kind: str
    agent: int
    length: int
    word: int

    def __str__(self) -> str:
        return (
            f"{self.at / SECOND:9.6f} s  {self.kind:<9} n{self.agent}, {self.length / SECOND:.6f} "
            f"s, {self.word:#018x}"
        )


class Weather(NamedTuple):
    """What happens to messages all the time, in shares of 1024, and times in microseconds."""

    lost: int
    twice: int
    swapped: int
    split: int
    delay: int
    thinking: int
    forgotten: int

    @property
    def calm(self) -> Weather:
        """The weather in which nothing happens."""
        return Weather(0, 0, 0, 0, 1000, self.thinking, 0)


@dataclass(frozen=True)
class Schedule:
    """Everything that one run needs.

    Attributes
    ----------
    seed, setting : int and Setting
        What it was made of.
    durability : {"process", "power"}
        That of all agents.
    weather, troubles : Weather and tuple of Trouble
        What goes wrong all the time, and what at one time.
    bandits, auto, forward, eras : bool
        Whether there are two bandits, whether agents find their neighbours themselves, whether
        applications meet other agents, and whether the policy changes.
    """

    seed: int
    setting: Setting
    durability: str
    weather: Weather
    troubles: tuple[Trouble, ...]
    bandits: bool = False
    auto: bool = False
    forward: bool = False
    eras: bool = False


ANY_MODE = {
    "kill": 6, "power": 3, "kill-op": 6, "power-op": 4, "kill-all": 1, "cut": 4, "hush": 3,
    "break": 3, "pause": 2, "flip": 2, "full": 2, "fail": 4, "slow": 2, "jump": 2, "burst": 1,
    "document": 3, "drain": 2,
}  # fmt: skip
"""Kinds of trouble that any fleet must get over, with weights."""

ROBUST_ONLY = {"lose": 2, "rollback": 2, "rewire": 2, "liar": 4}
"""Kinds after which a synchronous fleet may stand still until a new epoch."""


ARMS_ONLY = {"declare": 8}
"""Kinds that take two bandits, and arms that come and go."""

ERAS_ONLY = {"migrate": 8}
"""Kinds that take a policy that may change."""

SHARE = 4
"""Where nothing is said of it, one seed in so many has two bandits, one finds neighbours, and one
changes its policy."""


def make_schedule(seed: int, setting: Setting) -> Schedule:
    """Return the schedule of a seed."""
    require_count("seed", seed, least=0)
    key = stream_key(seed, TROUBLES)
    robust = setting.is_robust
    bandits = _drawn(setting.bandits, word_at(key, 3), possible=_can_widen(setting.policy))
    auto = _drawn(setting.auto, word_at(key, 4), possible=robust)
    forward = _drawn(setting.forward, word_at(key, 5), possible=True)
    eras = _drawn(setting.eras, word_at(key, 7), possible=setting.has_eras)
    durability = "power" if word_at(key, 0) % 3 == 0 else "process"
    kinds = dict(ANY_MODE)
    if robust:
        kinds |= ROBUST_ONLY
    elif durability == "process":
        del kinds["power"], kinds["power-op"]  # mass may be lost then, which is documented
    if bandits:
        kinds |= ARMS_ONLY
    if auto:
        del kinds["rewire"]  # there are no lists
    if eras:
        kinds |= ERAS_ONLY
    bag = [kind for kind, weight in kinds.items() for _ in range(weight)]
    count = 1 + word_at(key, 1) % max(1, setting.rounds // 25)
    made = [_trouble(key, 8 * (i + 1), bag, setting) for i in range(count)]
    weather = make_weather(seed, robust)
    troubles = tuple(sorted(made))
    return Schedule(seed, setting, durability, weather, troubles, bandits, auto, forward, eras)


def _drawn(asked: bool | None, word: int, *, possible: bool) -> bool:
    return possible and word % SHARE == 0 if asked is None else asked


def _trouble(key: int, at: int, bag: Sequence[str], setting: Setting) -> Trouble:
    when, kind, agent, length, word = (word_at(key, at + i) for i in range(5))
    longest = setting.trouble_time // 4
    return Trouble(
        when % setting.trouble_time,
        bag[kind % len(bag)],
        agent % setting.agents,
        1000 + length % longest,
        word,
    )


def make_weather(seed: int, robust: bool) -> Weather:
    """Return how bad the network and the applications of a seed are."""
    key = stream_key(seed, WEATHER)
    lost, twice, swapped, split, delay, thinking, forgotten = (word_at(key, i) for i in range(7))
    if not robust:  # links carry bytes in order, or break; only robust messages may also vanish
        lost = twice = swapped = 0
    return Weather(
        lost % 200 * (lost >> 32 & 1),
        twice % 100 * (twice >> 32 & 1),
        swapped % 200 * (swapped >> 32 & 1),
        split % 100,
        1000 << delay % 8,
        SECOND // 5 << thinking % 4,
        forgotten % 100,
    )
