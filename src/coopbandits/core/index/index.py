"""The contract of an index: small functions in plain Python on floats, from totals to an arm.

For every choice, in this order::

    prepare(estimate, word, numbers, scratch)       once; fills `scratch` with what all arms share
    value(arm, estimate, word, numbers, scratch)    once per arm; the largest value is played
    pick(values, estimate, word, numbers, scratch)  only where the largest is not what is played

They are static, so that nothing is read but the arguments: `numbers` are the settings as floats,
`word` is the choice's 64 random bits (`core.draws` makes variates of them), `scratch` has the size
that `scratch_size` declares, and starts with anything in it. The reference engine and agents in a
fleet call these functions; compiled engines are made of the same ones, so they keep to what numba
compiles: floats, ints, loops, `math`, tuples of constants, and functions that do the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from coopbandits.core.checks import require_count, to_float
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.spelling import AUTO, Named
from coopbandits.core.statistic import ArmSums, Statistic

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView, Vector

Floats = Any
"""A list of floats in plain Python, an array of float64 in compiled engines."""

Support = tuple[float, float]
ANY_REWARDS: Support = (-math.inf, math.inf)
UNIT_REWARDS: Support = (0.0, 1.0)


class Draws(NamedTuple):
    """Independent random values, one per arm, of which the largest is played.

    Attributes
    ----------
    family : {"normal", "beta"}
        Their distribution.
    first, second : Vector
        Means and standard deviations of normals; the two parameters of betas.
    """

    family: str
    first: Vector
    second: Vector


class Index(Named, ABC):
    """What is played on an estimate; as a frozen dataclass its fields are its settings.

    Attributes
    ----------
    random : bool
        Whether the word plays a part. An index that says no is handed the word 0.
    prepare_reads : {"word", "arms", "time"}
        What `prepare` looks at: everything; no word; or neither word nor arms, but the time, the
        number of agents, and numbers that are the same for all agents. Compiled engines then call
        it less often, for all agents that have the same of it.
    pick : function or None
        Replaces "the largest value"; −∞ marks arms that must not be picked.
    bound : function or None
        Called as `value` is, cheaper, and never below it: compiled engines then compute the value
        of those arms alone that can win.
    bonus : function or None
        Where the value is (s + √(a n + c))/n, or +∞ for an arm without information: returns (a, c)
        from (estimate, numbers, scratch). With `prepare_reads` "time", compiled engines then
        choose without roots and divisions.
    values : function or None
        Called as (estimate, word, numbers), with arrays in the estimate: returns what `value` does,
        as one array for all arms, or None where that is no faster. Plain Python then does without
        `prepare` and `value`, unless there is a `pick`.
    support : (float, float)
        The smallest and the largest reward that the index is made for, ±∞ where there is none.
        `simulate` and fleets reject it where rewards may lie outside.

    `bound`, `bonus` and `values` are shortcuts to the same arms; `check_policy` holds them to
    `value`. A class that overrides `prepare`, `value` or `pick`, itself or by a mixin, inherits
    none of them, nor `draws` and what its parent declared of `random` and `prepare_reads`: those
    were about other functions.
    """

    random: ClassVar[bool] = True
    prepare_reads: ClassVar[str] = "word"
    pick: Any = None
    bound: Any = None
    bonus: Any = None
    values: Any = None
    support: Any = ANY_REWARDS

    def __init_subclass__(cls, **more: Any) -> None:
        """Forget what a class declared of functions that are no longer its own.

        They may come from any class, a mixin as well: what counts is who is asked first.
        """
        super().__init_subclass__(**more)
        prepare = _place(cls, "prepare")
        functions = min(prepare, _place(cls, "value"), _place(cls, "pick"))
        for name in ("random", "bound", "bonus", "values", "draws"):
            if _place(cls, name) > functions:
                setattr(cls, name, getattr(Index, name))
        if _place(cls, "prepare_reads") > prepare:
            cls.prepare_reads = Index.prepare_reads

    @property
    def needs(self) -> frozenset[str]:
        """What must be told beyond the row of P, as in `Policy.needs`."""
        return frozenset()

    @property
    def statistic(self) -> Statistic:
        """What must be added up."""
        return ArmSums()

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """Return the settings as floats, for an agent with this view."""
        return ()

    def scratch_size(self, num_arms: int) -> int:
        """Return how many floats `prepare` fills."""
        return 1

    def outlook(self, estimate: Estimate, numbers: Floats) -> tuple[Vector, Vector]:
        """Return what is expected of every arm in its context, and the deviation of that."""
        raise InputError(f"index {self.spelling} does not tell what it expects in a context")

    def draws(self, estimate: Estimate, numbers: Floats) -> Draws | None:
        """Return the distribution of the arms' values; None unless they are independent draws.

        Off-policy evaluation integrates it for the exact probability of every arm.
        """
        return None

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Compute what all arms share."""

    @staticmethod
    @abstractmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Return the index of one arm; +∞ to play it first, never a NaN."""


def _place(cls: type, name: str) -> int:
    """Return the place of the class that defines a name, among those that are asked in turn."""
    return next(place for place, each in enumerate(cls.__mro__) if name in vars(each))


LONGEST = 1e100
"""Horizons end here, so that floats hold them and their squares."""


def require_horizon(horizon: Any) -> None:
    """Check that the horizon is None or a whole number of rounds."""
    if horizon is not None:
        require_count("horizon", horizon)
        if horizon > LONGEST:
            # Python does not print whole numbers of some thousand digits.
            raise InputError(f"horizon is above {LONGEST:g}; give a smaller number of rounds")


FAMILIES = (AUTO, "gaussian", "bernoulli")
"""Families of rewards. "bernoulli" accepts any rewards in [0, 1]. `Named.suited` replaces "auto" by
what is known of the rewards; where nothing is known, "auto" is Gaussian."""


def read_support(index: Index) -> Support:
    """Return the support of an index as floats; reject anything but an interval."""
    given = index.support
    ends = tuple(given) if isinstance(given, tuple | list) else ()
    if len(ends) == 2 and all(isinstance(each, Real) for each in ends):
        low, high = map(to_float, ends)
        if low < high and not any(isinstance(each, bool) for each in ends):
            return low, high
    raise InputError(
        f"support of index {index.spelling} is {given!r}; give two different numbers, the smaller "
        "first: the ends of the rewards that it is made for, such as (0.0, 1.0)"
    )


def require_family(family: str) -> None:
    if family not in FAMILIES:
        raise unknown_name("family of rewards", str(family), FAMILIES)


def family_support(family: str) -> Support:
    """Return the rewards that a family is made for."""
    return UNIT_REWARDS if family == "bernoulli" else ANY_REWARDS
