"""What is remembered of agents that are no neighbours."""

from __future__ import annotations

from collections import Counter

from coopbandits.fleet.overlay.hyparview import Chance, PassiveView
from coopbandits.fleet.overlay.messages import Contact
from tests.torture.words import words_of


def view(size: int = 10) -> PassiveView:
    """Return one of an agent whose bond with `b7` is 7."""
    chance = Chance(words_of(1).__next__)
    return PassiveView(size, lambda name: int(name[1:]), lambda name: name == "me", chance)


def told(*numbers: int) -> list[Contact]:
    return [Contact(f"b{number}", f"host-{number}:1") for number in numbers]


def test_the_first_address_stays_until_it_was_tried() -> None:
    passive = view()
    passive.add([Contact("b1", "right:1")], "a")
    passive.add([Contact("b1", "wrong:1")], "liar")
    assert passive.draw() == Contact("b1", "right:1")
    passive.forget("b1")
    passive.add([Contact("b1", "wrong:1")], "liar")
    assert passive.draw() == Contact("b1", "wrong:1")


def test_an_agent_itself_knows_better_where_it_is_than_others() -> None:
    passive = view()
    passive.add([Contact("b1", "wrong:1")], "liar")
    assert not passive.is_proved("b1")
    passive.add([Contact("b1", "right:1")], "b1")
    passive.add([Contact("b1", "wrong:1")], "liar")
    assert passive.address_of("b1") == "right:1"
    assert passive.is_proved("b1")
    assert passive.address_of("b2") is None


def test_an_agent_does_not_remember_itself() -> None:
    passive = view()
    passive.add([Contact("me", "x:1")], "a")
    assert not len(passive)
    assert passive.draw() is passive.strongest() is None


def test_whoever_told_most_loses_its_weakest() -> None:
    passive = view(size=6)
    passive.add(told(1, 2), "a")
    passive.add(told(3, 4), "b")
    passive.add(told(*range(10, 30)), "liar")
    assert sorted(passive.entries) == sorted(f"b{n}" for n in (1, 2, 3, 4, 28, 29))


def test_contacts_are_drawn_by_who_told_of_them() -> None:
    passive = view(size=30)
    passive.add(told(1), "a")
    passive.add(told(*range(2, 30)), "liar")
    drawn = Counter(each.name for _ in range(1000) if (each := passive.draw()))
    assert 430 < drawn["b1"] < 570, "half of the time, although it is one of many"
    strongest = [passive.strongest() for _ in range(50)]
    assert {each.name for each in strongest if each} == {"b1", "b29"}
    assert passive.draw(but={f"b{n}" for n in range(2, 30)}) == told(1)[0]


def test_samples_are_different_contacts() -> None:
    passive = view(size=30)
    passive.add(told(*range(20)), "a")
    assert len({each.name for each in passive.sample(7)}) == 7
    assert len(passive.sample(50)) == 20
