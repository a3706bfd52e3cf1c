"""What is asked of a reward function of one's own, before anything is played."""

from __future__ import annotations

import itertools
import math
import pickle  # noqa: TID251  as executors do
from typing import Any

import numpy as np
import pytest

from coopbandits import (
    BernoulliBandit,
    GaussianBandit,
    InputError,
    LinearBandit,
    MixtureBandit,
    Problem,
    simulate,
)
from coopbandits.core import draws, word_at, word_of


class Mine(Problem):
    """Arm k pays 2 with chance mean/2."""

    def __init__(self, means: Any, sigma: float = 1.0, **more: Any) -> None:
        super().__init__(means, sigma, **more)

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return 2.0 if variate < numbers[0] / 2.0 else 0.0

    def describe(self) -> dict[str, Any]:
        return {"problem": "mine", "means": self.means.tolist()}


def test_a_problem_in_ten_lines() -> None:
    problem = Mine([0.5, 1.5])
    assert problem.rewards([0, 0, 1, 1], [0.2, 0.3, 0.7, 0.8]).tolist() == [2.0, 0.0, 2.0, 0.0]
    assert problem.variate == "uniform"
    assert problem.bounds is None
    assert problem.rewards(np.zeros((2, 0), int), np.zeros((2, 0))).shape == (2, 0)
    assert problem == Mine([0.5, 1.5]) != Mine([0.5, 1.0])
    assert pickle.loads(pickle.dumps(problem)) == problem  # noqa: S301  our own bytes
    assert Mine([0.5], bounds=(0.0, 2.0)).bounds == (0.0, 2.0)
    with pytest.raises(InputError, match=r"arm 2\b"):
        problem.rewards([2], [0.5])


def test_an_overridden_array_form_is_refused() -> None:
    with pytest.raises(InputError, match=r"^Odd.*rewards\(\)"):

        class Odd(GaussianBandit):
            def rewards(self, arms: Any, variates: Any) -> Any:
                return np.zeros(np.shape(arms))

    class Mixin:
        def rewards(self, arms: Any, variates: Any) -> Any:
            return np.zeros(np.shape(arms))

    with pytest.raises(InputError, match=r"^Both.*rewards"):

        class Both(Mixin, BernoulliBandit):
            pass


@pytest.mark.parametrize(
    ("base", "name"),
    [(LinearBandit, "reward"), (LinearBandit, "expected"), (MixtureBandit, "reward")],
)
def test_what_no_engine_asks_for_is_refused(base: type[Problem], name: str) -> None:
    with pytest.raises(InputError, match=f"^Odd.*{name}.*{base.__name__}"):
        type("Odd", (base,), {name: staticmethod(lambda *given: 0.0)})


def test_a_method_is_refused() -> None:
    with pytest.raises(InputError, match=r"reward.*Odd.*@staticmethod"):

        class Odd(GaussianBandit):
            def reward(self, numbers: Any, variate: float) -> float:
                return 0.0


def test_a_family_is_not_inherited_with_another_function() -> None:
    class Loud(BernoulliBandit):
        @staticmethod
        def reward(numbers: Any, variate: float) -> float:
            return 2.0 if variate < numbers[0] / 2.0 else 0.0

    assert (BernoulliBandit.family, Loud.family) == ("bernoulli", "gaussian")
    assert Loud([0.5]).bounds is None


def test_a_form_and_numbers_are_one_too_many() -> None:
    form = BernoulliBandit([0.5]).kernel_form()
    with pytest.raises(InputError, match=r"form.*numbers"):
        Mine([0.5], form=form, numbers=[0.5])


@pytest.mark.plays
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_subclass_of_ours_pays_what_its_function_says(engine: str) -> None:
    class Cut(GaussianBandit):
        """Half of the rewards are left out, and the others doubled."""

        @staticmethod
        def reward(numbers: Any, variate: float) -> float:
            away = numbers[1] * variate
            return float(
                numbers[0] + (2.0 * away if away > 0.0 else 0.0) - 2.0 / math.sqrt(math.tau)
            )

    from coopbandits import IndependentUCB, Network

    problem, world = Cut([1.0, 0.5]), (Network.from_spec("cycle:3"), IndependentUCB(), 50)
    paid = simulate(problem, *world, engine=engine, progress=False)
    plain = simulate(GaussianBandit([1.0, 0.5]), *world, engine=engine, progress=False)
    assert not np.allclose(paid.realized_regret, plain.realized_regret)
    assert problem.variate == "normal"
    assert problem.rewards([0], [-3.0])[0] == pytest.approx(1.0 - 2.0 / math.sqrt(math.tau))


class Silent(Problem):
    def describe(self) -> dict[str, Any]:
        return {"problem": "silent"}


class Wrong(Mine):
    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return 2.0 if variate < numbers[0] else 0.0


class Failing(Mine):
    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return float(numbers[7])


class Endless(Mine):
    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return math.inf


class Writing(Mine):
    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        numbers[0] = 1.0
        return 1.0


class Wordy(Mine):
    @staticmethod
    def reward(numbers: Any, variate: float) -> Any:
        return "a lot"


class Moody(Mine):
    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return float(numbers[0] + next(NOISE))


NOISE = itertools.count(0.0, 1e-6)


@pytest.mark.parametrize(
    ("kind", "more", "sentence"),
    [
        (Moody, {}, r"Moody.*arm 0\b"),
        (
            Mine,
            {"bounds": (0.0, 1.0)},
            r"Mine.* 0 to 2 .*arm 0\b.* 0 to 1\b",
        ),
        (Mine, {"bounds": (2.0, 0.0)}, r"bounds.*Mine.*\(2\.0, 0\.0\)"),
        (Mine, {"bounds": 2.0}, r"bounds.*Mine.* 2\.0"),
        (Silent, {"sigma": 1.0}, "Silent"),
        (Wrong, {}, r"Wrong.* 1 .*arm 0\b.* 0\.5"),
        (
            Failing,
            {},
            r"Failing.*arm 0\b.*IndexError",
        ),
        (
            Writing,
            {},
            "Writing.*ValueError: assignment",
        ),
        (Wordy, {}, r"Wordy.*arm 0\b.*ValueError"),
        (Endless, {}, r"Endless.* inf .*arm 0\b"),
        (Mine, {"numbers": [1.0]}, r"numbers.*\(1, 1\).* 2 arms"),
        (
            Mine,
            {"numbers": [[1.0, math.nan], [1.0, 2.0]]},
            r"number 1\b.*arm 0\b.* nan",
        ),
        (Mine, {"numbers": ["a", "b"]}, r"numbers.*\['a', 'b'\]"),
        (Mine, {"variate": "gamma"}, "variate 'gamma'.*normal, uniform"),
    ],
)
def test_refused(kind: Any, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        kind([0.5, 1.5], **more)


def test_a_rare_prize_is_not_taken_for_a_wrong_mean() -> None:
    class Rare(Mine):
        @staticmethod
        def reward(numbers: Any, variate: float) -> float:
            return 1e6 if variate < 1e-6 else 0.0

    assert Rare([1.0], sigma=1e3).means.tolist() == [1.0]


def test_many_arms_are_checked_in_time() -> None:
    assert Mine(np.linspace(0.1, 1.9, 3000)).num_arms == 3000


def test_a_uniform_becomes_a_word() -> None:
    words = draws.words(3, np.arange(1000, dtype=np.uint64))
    made = [word_of(u) for u in draws.uniforms(words).tolist()]
    assert len(set(made)) == 1000
    assert all(0 <= word < 2**64 for word in made)
    assert made == [word_at(int(word) >> 12, 0) for word in words.tolist()]
    assert abs(np.mean([draws.uniform_of(word_at(word, 1)) for word in made]) - 0.5) < 0.04


class Threefold:
    """A reward for other classes to mix in."""

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return 3.0 if variate < numbers[0] / 3.0 else 0.0


@pytest.mark.parametrize("base", [LinearBandit, MixtureBandit])
def test_what_no_engine_asks_for_is_refused_of_a_mixin(base: type[Problem]) -> None:
    with pytest.raises(InputError, match=f"^Odd.*reward.*{base.__name__}"):
        type("Odd", (Threefold, base), {})


def test_a_family_is_not_inherited_with_the_function_of_a_mixin() -> None:
    class Mixed(Threefold, BernoulliBandit):
        pass

    class Later(BernoulliBandit, Threefold):
        pass

    class Declared(Mixed):
        family = "bernoulli"

    assert [cls.family for cls in (Mixed, Declared, Later)] == [
        "gaussian",
        "bernoulli",
        "bernoulli",
    ]


def test_a_method_of_a_mixin_is_refused() -> None:
    class Plain:
        def reward(self, numbers: Any, variate: float) -> float:
            return 0.0

    with pytest.raises(InputError, match=r"reward.*Odd"):
        type("Odd", (Plain, GaussianBandit), {})
