"""Links bring HELLO first, and treat the rest as the weather says."""

from __future__ import annotations

from coopbandits.fleet.protocol.frames import BANDIT
from tests.torture.network import Link
from tests.torture.schedule import Weather

ENDS = (0, 1)
CALM = Weather(0, 0, 0, 0, 1000, 1000, 0)


def carried(weather: Weather, seed: int) -> list[bytes]:
    link = Link(seed, *ENDS)
    link.open()
    arrivals = []
    for i in range(40):
        arrivals += link.post(ENDS, bytes([i]), weather, 1000 * i)
        if i == 0:
            arrived = link.take(ENDS, weather)
    return arrived + [part for _ in arrivals[1:] for part in link.take(ENDS, weather)]


def test_in_calm_weather_all_arrives_in_order() -> None:
    assert carried(CALM, 1) == [bytes([i]) for i in range(40)]


def test_messages_are_lost_repeated_and_swapped_but_hello_is_first() -> None:
    for seed in range(20):
        found = carried(CALM._replace(lost=200, twice=200, swapped=200), seed)
        assert found[0] == b"\0"
        numbers = [data[0] for data in found]
        assert len(set(numbers)) < 40, "some are lost"
        assert len(numbers) > len(set(numbers)), "some come twice"
        assert numbers != sorted(numbers), "some are swapped"


def test_greetings_about_bandits_arrive_in_order() -> None:
    link, weather = Link(3, *ENDS), CALM._replace(lost=500, twice=500, swapped=500)
    link.open()
    link.post(ENDS, b"hello", weather, 0)
    link.take(ENDS, weather)
    greetings = [bytes([0, 0, 0, BANDIT, i]) for i in range(100)]
    for greeting in greetings:
        assert len(link.post(ENDS, greeting, weather, 0)) == 1
    assert [link.take(ENDS, weather) for _ in greetings] == [[each] for each in greetings]


def test_a_message_is_split_anywhere() -> None:
    link = Link(3, *ENDS)
    link.open()
    parts = []
    for _ in range(50):
        link.post(ENDS, b"0123456789", CALM, 0)
        parts.append(link.take(ENDS, CALM._replace(split=1024)))
    assert all(b"".join(part) == b"0123456789" and len(part) == 2 for part in parts)
    assert len({len(part[0]) for part in parts}) > 5


def test_what_is_under_way_is_lost_with_the_link() -> None:
    link = Link(3, *ENDS)
    link.open()
    link.post(ENDS, b"hello", CALM, 0)
    generation = link.generation
    link.close()
    link.open()
    assert link.take(ENDS, CALM) == []
    assert link.generation != generation
