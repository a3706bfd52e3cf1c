"""Kinds of problems by name: as tables of an experiment file, and as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import Parameter, isabstract, isclass, signature
from typing import Any, NamedTuple

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.registry import Registry
from coopbandits.core.spelling import make, parse_value
from coopbandits.problems.bernoulli import BernoulliBandit
from coopbandits.problems.bounded import BetaBandit
from coopbandits.problems.exponential import ExponentialBandit
from coopbandits.problems.gaussian import GaussianBandit
from coopbandits.problems.heavy_tails import ParetoBandit, StudentTBandit
from coopbandits.problems.linear import LinearBandit
from coopbandits.problems.logged import LoggedBandit
from coopbandits.problems.mixture import MixtureBandit
from coopbandits.problems.parse import parse_means
from coopbandits.problems.poisson import PoissonBandit
from coopbandits.problems.problem import Problem
from coopbandits.problems.spelled import CHANGES, changed


class Recipe(NamedTuple):
    """A maker of problems, its required keys and its optional keys."""

    maker: Callable[..., Any]
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    form: str = ""

    @classmethod
    def of(cls, maker: Callable[..., Any], form: str = "") -> Recipe:
        """Read the recipe off a signature; a form says how a text is written that is one value."""
        keys = [
            p
            for p in signature(maker).parameters.values()
            if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        ]
        needed = tuple(p.name for p in keys if p.default is p.empty)
        return cls(maker, needed, tuple(p.name for p in keys if p.name not in needed), form)


def _gaussian(means: Any, sigma: Any = 1.0) -> Problem:
    """Return normal rewards of these means; sigma is one standard deviation, or one per arm."""
    return GaussianBandit(_means(means), _means(sigma))


def _bernoulli(means: Any) -> Problem:
    """Return rewards of 0 and 1; means are the probabilities of 1."""
    return BernoulliBandit(_means(means))


def _beta(a: Any, b: Any) -> Problem:
    """Return beta rewards between 0 and 1, with shapes a and b per arm."""
    return BetaBandit(a, b)


def _poisson(means: Any, sigma: float | None = None) -> Problem:
    """Return counts of these means."""
    return PoissonBandit(_means(means), sigma)


def _exponential(means: Any, sigma: float | None = None) -> Problem:
    """Return exponential rewards of these means."""
    return ExponentialBandit(_means(means), sigma)


def _pareto(shapes: Any, cap: float, scale: Any = 1.0, sigma: float | None = None) -> Problem:
    """Return Pareto rewards from scale up, with these exponents of the tail, cut at the cap."""
    return ParetoBandit(_means(shapes), _means(scale), cap=cap, sigma=sigma)


def _student_t(
    means: Any, cap: float, degrees: Any = 3.0, scale: Any = 1.0, sigma: float | None = None
) -> Problem:
    """Return these means and a deviation by Student's t, scaled and cut at ±cap."""
    return StudentTBandit(_means(means), _means(degrees), _means(scale), cap=cap, sigma=sigma)


def _mixture(parts: Any) -> Problem:
    """Return rewards of one of several problems, drawn with these chances at every pull."""
    texts = re.split(r"\+(?=[^:+*]*\*)", parts) if isinstance(parts, str) else parts
    pairs = [_weighted(text) for text in texts]
    return MixtureBandit([weight for weight, _ in pairs], [problem for _, problem in pairs])


def _weighted(text: Any) -> tuple[float, Problem]:
    weight, star, problem = str(text).partition("*")
    if not star or not isinstance(chance := parse_value(weight.strip()), int | float):
        raise InputError(
            f"part {text!r} of a mixture has no weight; write chance*problem, as in "
            "0.9*gaussian:1,0.5"
        )
    return float(chance), parse_problem(problem.strip())


def _logged(
    file: str,
    sigma: float | None = None,
    reading: str | None = None,
    arm: str | None = None,
    reward: str | None = None,
    time: str | None = None,
) -> Problem:
    """Return rewards logged in a file, drawn with replacement from those of the arm."""
    if not isinstance(file, str):
        raise InputError(f"file of logged rewards is {file!r}; give a path in quotes")
    return LoggedBandit.from_file(file, sigma, reading=reading, arm=arm, reward=reward, time=time)


def _linear(
    theta: Any, num_arms: int | None = None, features: Any = "sphere", sigma: float = 1.0
) -> Problem:
    """Return rewards linear in features; theta is one list of coefficients, or 1,0/0,1 per arm.

    So are features: sphere, gaussian, or contexts such as 1,0/1,1, of which one is drawn.
    """
    rows = _rows(theta)
    theta = rows[0] if isinstance(theta, str) and len(rows) == 1 else rows
    drawn = isinstance(features, str) and features[:1].isalpha()
    return LinearBandit(
        theta, num_arms, features=features if drawn else _rows(features), sigma=sigma
    )


def _rows(given: Any) -> Any:
    """Return lists of numbers that may be written as 1,0/0,1."""
    return [parse_means(part) for part in given.split("/")] if isinstance(given, str) else given


def _linear_log(
    file: str,
    context: Any,
    arm: str = "arm",
    reward: str = "reward",
    ridge: float = 1.0,
    sigma: float | None = None,
) -> Problem:
    """Return linear models fitted to a log; context names the columns that are features."""
    names = [name.strip() for name in context.split(",")] if isinstance(context, str) else context
    if not isinstance(file, str) or not isinstance(names, list):
        raise InputError(
            f"file is {file!r} and context {context!r}; give a path, and a list of columns"
        )
    return LinearBandit.from_log(file, names, arm=arm, reward=reward, ridge=ridge, sigma=sigma)


def _means(given: Any) -> Any:
    return parse_means(given) if isinstance(given, str) else given


KINDS: dict[str, Recipe] = {
    "gaussian": Recipe.of(_gaussian),
    "bernoulli": Recipe.of(_bernoulli),
    "beta": Recipe.of(_beta),
    "poisson": Recipe.of(_poisson),
    "exponential": Recipe.of(_exponential),
    "pareto": Recipe.of(_pareto),
    "student-t": Recipe.of(_student_t),
    "mixture": Recipe.of(_mixture, "mixture:CHANCE*PROBLEM+CHANCE*PROBLEM…"),
    "logged": Recipe.of(_logged),
    "linear": Recipe.of(_linear),
    "linear-log": Recipe.of(_linear_log),
}


LISTS = frozenset({"means", "a", "b", "shapes", "theta"})
"""Settings of these that are lists, so that a text with one number is a list of one."""


def _makes_problems(thing: Any) -> bool:
    if isclass(thing):
        return issubclass(thing, Problem) and not isabstract(thing)
    return callable(thing)


PROBLEMS: Registry[Any] = Registry(
    "problem",
    "coopbandits.problems",
    KINDS,
    _makes_problems,
    "a class derived from coopbandits.Problem that writes describe, or a function that returns one",
)

register_problem = PROBLEMS.register


def make_problem(name: str, table: Any) -> Problem:
    """Make a problem from a table, the key `kind` and its settings, or from a text.

    The keys `drift`, `sites` and `subsets` make a world of it; see `spelled`.
    """
    if isinstance(table, str):
        return parse_problem(table)
    if not isinstance(table, dict) or "kind" not in table:
        known = ", ".join(PROBLEMS.names())
        raise InputError(f"problem {name!r} has no kind; choose one of {known}")
    settings = {key: value for key, value in table.items() if key not in CHANGES}
    kind = settings.pop("kind")
    if not isinstance(kind, str) or (":" not in kind and kind not in PROBLEMS.names()):
        raise unknown_name(f"kind of problem {name!r}", str(kind), PROBLEMS.names())
    found, rest = PROBLEMS.find(kind)
    if rest:
        raise InputError(f"kind of problem {name!r} is {kind!r}; give {rest!r} as keys beside it")
    problem = _make(f"problem {name!r}", f" of kind {kind}", found, settings)
    for change in CHANGES:
        if change in table:
            problem = changed(problem, change, table[change])
    return problem


def parse_problem(text: str) -> Problem:
    """Read ``gaussian:means=1,0.8x16,sigma=2``, ``beta:a=2,1,b=1,3`` or ``my_module:MyProblem``.

    Settings are separated by commas. Lists of numbers are written like means, and for a problem of
    one's own a list of one number as ``0.5x1``. The first setting that must be given may be written
    without its name: ``bernoulli:0.1,0.2``.
    """
    found, rest = PROBLEMS.find(text)
    owner = f"problem {PROBLEMS.name_of(found)}"
    settings: dict[str, Any] = {}
    if rest and _recipe(found).form:
        return _make(owner, "", found, {_recipe(found).needed[0]: rest})
    # A comma not followed by `name=` belongs to a list.
    for place, part in enumerate(re.split(r",(?=\s*[A-Za-z_]\w*\s*=)", rest) if rest else ()):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        _, needed, optional, _ = _recipe(found)
        if not equals and place == 0 and needed and key not in (*needed, *optional):
            key, equals, value = needed[0], "=", key
        if not equals or not value:
            raise InputError(f"setting {part!r} of {owner} has no value; write name=value")
        if key in settings:
            raise InputError(f"setting {key} of {owner} is given twice; give it once")
        settings[key] = _value(value)
    for key in LISTS & settings.keys() if isinstance(found, Recipe) else ():
        if isinstance(settings[key], int | float):
            settings[key] = [settings[key]]
    return _make(owner, "", found, settings)


def _recipe(found: Any) -> Recipe:
    return found if isinstance(found, Recipe) else Recipe.of(found)


def _value(text: str) -> Any:
    value = parse_value(text)
    is_list = isinstance(value, str) and re.fullmatch(r"[-+.\d][-+.\d,x×eE\s]*", text)
    return parse_means(text) if is_list else value


def _make(owner: str, of_kind: str, found: Any, settings: Mapping[str, Any]) -> Problem:
    maker, needed, optional, _ = _recipe(found)
    for key in settings:
        if key not in (*needed, *optional):
            if not (needed or optional):
                raise InputError(f"{owner}{of_kind} takes no keys; leave out {key!r}")
            raise unknown_name(f"key of {owner}", key, (*needed, *optional))
    for key in needed:
        if key not in settings:
            raise InputError(f"{owner}{of_kind} has no {key}; give it")
    problem = make(f"{owner}{of_kind}", maker, **settings)
    if not isinstance(problem, Problem):
        raise InputError(f"{owner}{of_kind} is {problem!r}; it must be {PROBLEMS.expected}")
    return problem
