"""How long to remember, against the formula and its limits."""

from __future__ import annotations

import math

import pytest

from coopbandits.core import InputError
from coopbandits.theory import memory


def test_one_agent_has_the_discount_of_garivier_and_moulines() -> None:
    """1 − γ = √(Υ/T)/(4R), rewards in [0, R], σ = R/2."""
    for horizon, changes, reach in ((10_000, 3, 1.0), (3000, 1, 2.0)):
        found = memory(horizon, changes, sigma=reach / 2)
        assert 1 - found.discount == pytest.approx(math.sqrt(changes / horizon) / (4 * reach))
        assert found.window == math.ceil(1 / (1 - found.discount) - 1e-9)


def test_more_agents_may_forget_faster_and_sampling_remembers_longer() -> None:
    alone, many = memory(3000, 1), memory(3000, 1, num_agents=20)
    assert alone.rounds / many.rounds == pytest.approx(math.sqrt(20))
    assert many.discount == pytest.approx(0.9796, abs=1e-4)
    drawn = memory(3000, 1, num_agents=20, sampling=True)
    assert drawn.discount == pytest.approx(0.995, abs=2e-4)
    assert memory(10, 10).discount == 0.75
    assert memory(2, 10).rounds == 2.0  # at least the last two rounds


def test_what_forgets_faster_than_it_hears_is_refused() -> None:
    assert memory(3000, 1, num_agents=20, delay=10).rounds > 40
    with pytest.raises(InputError, match=r" 3000 .* 49 .* 13 .* 52 "):
        memory(3000, 1, num_agents=20, delay=13)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"horizon": 0}, "horizon is 0"),
        ({"changes": 0}, r"changes.* 0\b"),
        ({"num_agents": 0}, "num_agents is 0"),
        ({"sigma": -1.0}, "sigma is -1.0"),
    ],
)
def test_bad_arguments(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        memory(**({"horizon": 100, "changes": 1} | settings))  # type: ignore[arg-type]  # it is refused
