"""The state machine by itself: what it does when told, and what nobody can make it do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.fleet.overlay.hyparview import (
    IMPROVE_TICKS,
    LAST_RECALL,
    LISTEN_TICKS,
    LOST_SIZE,
    MERCY,
    MOST_HEARD,
    MOST_ROUTES,
    PASSIVE_SIZE,
    SAME_ADDRESS_TICKS,
    SHUFFLE_TICKS,
    WELCOME_TICKS,
    Action,
    Call,
    Chance,
    Close,
    HyParView,
    PassiveView,
    Send,
    bond,
)
from coopbandits.fleet.overlay.messages import (
    MOST_CONTACTS,
    WALK,
    Ask,
    Contact,
    ForwardJoin,
    Goodbye,
    Message,
    Refused,
    Sample,
    Shuffle,
    decode,
    encode,
)
from tests.torture.words import words_of

DEGREE = 3


def contact(name: str) -> Contact:
    return Contact(name, f"{name}:7400")


def machine(*neighbors: str, seed: int = 0, seeds: tuple[str, ...] = ()) -> HyParView:
    made = HyParView("me", DEGREE, Chance(words_of(seed).__next__))
    made.seeds = list(seeds)
    for name in neighbors:
        assert made.asked(contact(name), Ask.MORE) is None
    return made


def done(view: HyParView) -> list[Action]:
    """Return what is to be done, as whoever does it."""
    actions, view.actions = view.actions, []
    return actions


def calls(view: HyParView) -> list[Call]:
    return [action for action in done(view) if isinstance(action, Call)]


def by_bond(number: int) -> list[str]:
    """Return names from the weakest to the strongest bond."""
    return sorted((f"n{at}" for at in range(number)), key=lambda name: bond("me", name))


def test_a_bond_is_the_same_at_both_ends() -> None:
    assert bond("a", "b") == bond("b", "a") != bond("a", "c")
    assert bond("ab", "c") != bond("a", "bc")


# Joining


def test_whoever_knows_nobody_joins_by_one_seed_after_the_other_and_ever_more_rarely() -> None:
    view = machine(seeds=("s:1", "t:1"))
    at: list[int] = []
    for _ in range(100):
        view.tick()
        for call in calls(view):
            assert call.ask is Ask.JOIN
            assert call.address in ("s:1", "t:1")
            at.append(view.time)
            view.failed(call)
    assert at[0] == 1
    assert 12 <= len(at) < 40, "again and again, but not every second"
    assert not view.lost, "seeds are kept, and need not be remembered"


def test_an_agent_that_is_its_own_seed_notices() -> None:
    view = machine(seeds=("s:1",))
    view.tick()
    (call,) = calls(view)
    view.reached_itself(call)
    for _ in range(50):
        view.tick()
    assert not done(view)


def test_a_newcomer_is_announced_to_all_neighbours_and_walks_on_from_there() -> None:
    view = machine("a", "b")
    assert view.asked(contact("new"), Ask.JOIN) is None
    assert done(view) == [Send(name, ForwardJoin(contact("new"), WALK)) for name in ("a", "b")]
    walk = machine("a", "b")
    walk.heard("a", ForwardJoin(contact("new"), 3))
    assert done(walk) == [Send("b", ForwardJoin(contact("new"), 2))]
    assert "new" in walk.passive, "half-way it is remembered"
    walk.heard("a", ForwardJoin(contact("end"), 0))
    assert calls(walk) == [Call("end", "end:7400", Ask.MORE, welcome=True)]


def test_who_is_refused_asks_those_who_were_named() -> None:
    view = machine(seeds=("s:1",))
    view.tick()
    (call,) = calls(view)
    view.refused(call, "seed", [contact("a"), contact("b")])
    for _ in range(20):
        view.tick()
        for call in calls(view):
            view.accepted(call, call.name or "seed")
    assert {"a", "b"} <= view.active.keys()


# Room


def test_the_weakest_bond_gives_way_to_a_stronger_one_and_to_no_other() -> None:
    weakest, *others, strongest = by_bond(DEGREE + 2)
    view = machine(*others, weakest)
    assert len(view.active) == DEGREE + 1
    assert view.asked(contact(strongest), Ask.MORE) is None
    assert view.active.keys() == {*others, strongest}
    assert done(view) == [Send(weakest, Goodbye(leaving=False)), Close(weakest)]
    answer = view.asked(contact(weakest), Ask.MORE)
    assert isinstance(answer, Refused)
    assert {each.name for each in answer.contacts} <= view.active.keys()
    assert weakest in view.passive


def test_whoever_is_in_need_is_a_guest_until_the_next_one() -> None:
    first, second, *others = by_bond(DEGREE + 3)
    view = machine(*others)
    assert isinstance(view.asked(contact(first), Ask.MORE), Refused)
    assert view.asked(contact(first), Ask.AGAIN) is None
    assert len(view.active) == DEGREE + 2
    assert isinstance(view.asked(contact(second), Ask.AGAIN), Refused), "not before its time"
    for _ in range(MERCY):
        view.tick()
    done(view)
    assert view.asked(contact(second), Ask.AGAIN) is None
    assert view.active.keys() == {*others, second}


def test_a_guest_stays_when_there_is_room() -> None:
    first, second, *others = by_bond(DEGREE + 3)
    view = machine(*others)
    view.asked(contact(second), Ask.AGAIN)
    view.broken(others[0])
    assert view.guest == ""
    assert view.asked(contact(first), Ask.AGAIN) is None, "the place for guests is free again"
    assert second in view.active


# Failures


def test_a_lost_neighbour_is_replaced_at_once_and_called_again_ever_more_rarely() -> None:
    view = machine("a", "b", "c")
    view.passive.add([contact("d")], "a")
    view.broken("a")
    view.tick()
    (call,) = calls(view)
    assert call == Call("d", "d:7400", Ask.MORE)
    view.accepted(call, "d")
    at = []
    for _ in range(600):
        view.tick()
        for call in calls(view):
            assert call == Call("a", "a:7400", Ask.AGAIN)
            at.append(view.time)
            view.failed(call)
    gaps = [later - now for now, later in pairwise(at)]
    assert gaps[0] <= 8
    assert LAST_RECALL // 2 <= gaps[-1] <= LAST_RECALL


def test_a_contact_that_does_not_answer_is_no_longer_told_to_others() -> None:
    view = machine("a")
    view.passive.add([contact("gone")], "a")
    view.tick()
    (call,) = calls(view)
    view.failed(call)
    assert "gone" not in view.passive
    assert not view.lost, "nobody ever saw it"
    view.refused(Call("full", "full:7400", Ask.MORE), "full", [])
    view.failed(Call("full", "full:7400", Ask.MORE))
    assert "full" not in view.passive
    assert view.lost == {"full": "full:7400"}


def test_made_up_newcomers_push_nobody_out_of_the_lost_or_move_their_addresses() -> None:
    view = machine("a", "b", "c")
    view.broken("c")
    for at in range(20 * LOST_SIZE):
        view.tick()
        view.heard("a", ForwardJoin(Contact("c" if at % 3 else f"x{at}", f"false:{at}"), 0))
        for call in calls(view):
            view.failed(call)
    assert view.lost == {"c": "c:7400"}


def test_goodbye_to_make_room_is_remembered_and_goodbye_for_good_is_not() -> None:
    view = machine("a", "b")
    view.heard("a", Goodbye(leaving=False))
    view.heard("b", Goodbye(leaving=True))
    assert not view.active
    assert "a" in view.passive
    assert "b" not in view.passive
    assert not view.lost
    assert done(view) == [Close("a"), Close("b")]


def test_leaving_says_so_to_all() -> None:
    view = machine("a", "b")
    view.leave()
    goodbye = Goodbye(leaving=True)
    assert done(view) == [Send("a", goodbye), Close("a"), Send("b", goodbye), Close("b")]
    assert not view.active


# Shuffles


def test_a_shuffle_walks_and_its_answer_comes_back_the_same_way() -> None:
    view = machine("a", "b")
    view.heard("a", Shuffle(7, WALK, [contact("x")]))
    passed = Shuffle(7, WALK - 1, [contact("a"), contact("x")])
    assert done(view) == [Send("b", passed)], "with where its neighbour knows the sender to be"
    assert "x" not in view.passive
    answer = Sample(7, [contact("y")])
    view.heard("b", answer)
    assert done(view) == [Send("a", answer)]
    view.heard("b", answer)
    assert not done(view), "once"


def test_the_end_of_a_walk_answers_with_whom_the_sender_has_strong_bonds() -> None:
    view = machine("a")
    view.passive.add([contact(f"p{at}") for at in range(PASSIVE_SIZE)], "a")
    view.heard("a", Shuffle(7, 1, [contact("far")]))
    (action,) = done(view)
    assert isinstance(action, Send)
    assert isinstance(action.message, Sample)
    told = [each.name for each in action.message.contacts]
    strongest = sorted(
        (f"p{at}" for at in range(PASSIVE_SIZE)), key=lambda name: bond("far", name), reverse=True
    )
    assert len(told) == MOST_CONTACTS
    assert set(strongest[:3]) < set(told)
    assert "far" in view.passive


def test_own_shuffles_take_an_answer_over_the_link_that_was_asked() -> None:
    view = machine("a", "b")
    for _ in range(SHUFFLE_TICKS):
        view.tick()
    (send,) = (each for each in done(view) if isinstance(each, Send))
    assert isinstance(send.message, Shuffle)
    other = ({"a", "b"} - {send.peer}).pop()
    view.heard(other, Sample(send.message.nonce, [contact("lie")]))
    view.heard(send.peer, Sample(send.message.nonce, [contact("x")]))
    view.heard(send.peer, Sample(send.message.nonce, [contact("again")]))
    assert "x" in view.passive
    assert "lie" not in view.passive
    assert "again" not in view.passive


# Liars


def test_what_one_neighbour_brings_is_taken_in_now_and_then() -> None:
    view = machine("a", "b")
    for at in range(MOST_HEARD):
        view.heard("a", Shuffle(at, 1, [contact(f"x{at}")]))
    assert set(view.passive.entries) == {"x0"}
    for _ in range(LISTEN_TICKS + IMPROVE_TICKS):
        view.tick()
    assert not view._listens_from, "what is over is not remembered"
    view.heard("a", Shuffle(99, 1, [contact("y")]))
    assert "y" in view.passive


def test_who_says_too_much_is_not_answered() -> None:
    view = machine("a", "b")
    for at in range(100):
        view.heard("a", Shuffle(at, 1, []))
    assert len(done(view)) == MOST_HEARD
    view.heard("b", Shuffle(101, 1, []))
    assert len(done(view)) == 1, "others are"
    view.heard("a", Goodbye(leaving=True))
    assert "a" not in view.active, "a goodbye always is"


def test_walks_have_few_called_and_one_address_rarely() -> None:
    view = machine("a", "b")
    at: list[int] = []
    for number in range(MOST_HEARD * 3 * SAME_ADDRESS_TICKS):
        if number % MOST_HEARD == 0:
            view.tick()
        address = "target:1" if view.time < 2 * SAME_ADDRESS_TICKS else f"{number}:1"
        view.heard("a", ForwardJoin(Contact(f"x{number}", address), 0))
        for call in calls(view):
            at += [view.time] * call.welcome
            view.failed(call)
    assert sum(time < 2 * SAME_ADDRESS_TICKS for time in at) == 2
    assert all(later - now >= WELCOME_TICKS for now, later in pairwise(at))
    assert len(at) <= 3 + SAME_ADDRESS_TICKS // WELCOME_TICKS
    view.heard("b", ForwardJoin(contact("new"), 0))
    assert calls(view) == [Call("new", "new:7400", Ask.MORE, welcome=True)], "others may, too"
    assert len(view._welcomes_from) <= 2
    assert len(view._welcomes_at) <= 8


def test_a_newcomer_that_does_not_answer_keeps_nobody_from_calling_or_being_taken_in() -> None:
    view = machine("a", seeds=("s:1",))
    view.heard("a", ForwardJoin(contact("silent"), 0))
    (silent,) = calls(view)
    view.heard("a", ForwardJoin(contact("another"), 0))
    assert not calls(view), "one at a time"
    view.passive.add([contact("b"), contact("c")], "b")
    view.tick()
    found = calls(view)
    assert len(found) == DEGREE - 1
    for call in found:
        view.accepted(call, call.name or "seed")
    before = view._next_look
    view.failed(silent)
    assert view._next_look == before, "the next look does not wait for it"
    view.heard("a", ForwardJoin(contact("silent"), 0))
    assert view.asked(contact("d"), Ask.MORE) is None


def test_seeds_are_asked_whatever_walks_name() -> None:
    view = machine("a", "b", "c", seeds=("s:1",))
    asked = 0
    for at in range(600):
        view.tick()
        view.heard("a", ForwardJoin(Contact(f"x{at}", f"silent:{at}"), 0))  # never answers
        for call in calls(view):
            if not call.name:
                asked += 1
                view.refused(call, "seed", [])
    assert asked >= 2


def test_strangers_are_not_listened_to() -> None:
    view = machine("a", "b")
    view.heard("stranger", Shuffle(1, 1, [contact("x")]))
    view.heard("a", Refused([contact("x")]))
    view.heard("a", Sample(1, [contact("x")]))
    assert not done(view)
    assert not len(view.passive)


NAMES = st.sampled_from([f"n{at}" for at in range(40)])
CONTACTS = st.lists(st.builds(Contact, NAMES, NAMES), max_size=MOST_CONTACTS)
STEPS, NONCES = st.integers(0, WALK), st.integers(0, 200)
MESSAGES = st.one_of(
    st.builds(ForwardJoin, st.builds(Contact, NAMES, NAMES), STEPS),
    st.builds(Shuffle, NONCES, STEPS, CONTACTS),
    st.builds(Sample, NONCES, CONTACTS),
    st.builds(Refused, CONTACTS),
    st.builds(Goodbye, st.booleans()),
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("hear"), NAMES, MESSAGES),
        st.tuples(st.just("ask"), NAMES, st.sampled_from(Ask)),
        st.tuples(st.sampled_from(["tick", "break", "accept", "refuse", "fail"]), NAMES, st.none()),
    ),
    max_size=150,
)


@given(EVENTS, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_whatever_happens_views_stay_bounded_and_work_is_not_multiplied(
    events: list[tuple[str, str, Message | Ask | None]], seed: int
) -> None:
    view = machine(seed=seed, seeds=("s:1",))
    pending: list[Call] = []
    for what, name, detail in events:
        before = len(view.active)
        match what:
            case "hear":
                view.heard(name, detail)  # type: ignore[arg-type]  # a message
            case "ask" if name not in view.active:
                view.asked(contact(name), detail)  # type: ignore[arg-type]  # an ask
            case "tick":
                view.tick()
            case "break":
                view.broken(name)
            case "accept" | "refuse" | "fail" if pending:
                call = pending.pop()
                who = call.name or "seed"
                if what == "accept" and who not in view.active:
                    view.accepted(call, who)
                elif what == "refuse":
                    view.refused(call, who, [contact(name)])
                else:
                    view.failed(call)
        actions = done(view)
        pending += [action for action in actions if isinstance(action, Call)]
        assert {call.key for call in pending} == view.calling.keys()
        assert len(view.active) <= DEGREE + 2
        assert view.guest == "" or view.guest in view.active
        assert "me" not in view.active
        assert len(view.passive) <= PASSIVE_SIZE
        assert not view.active.keys() & view.passive.entries.keys()
        assert not view.active.keys() & view.lost.keys()
        assert len(view.lost) <= LOST_SIZE
        assert len(view._routes) <= MOST_ROUTES
        assert len(view._shuffles) <= MOST_ROUTES
        assert len(view.calling) <= 2 * DEGREE
        assert len(actions) <= max(DEGREE + 2, before + 2)


def test_who_called_while_it_was_called_in_vain_is_not_lost() -> None:
    view = machine()
    view.passive.add([contact("a")], "a")
    view.tick()
    (call,) = [action for action in done(view) if isinstance(action, Call)]
    view.asked(contact("a"), Ask.MORE)
    view.failed(call)
    assert "a" in view.active
    assert not view.lost


# What is remembered of agents that are no neighbours.


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


# What agents tell each other of members, as bytes.


FRIEND = Contact("shop-2", "10.0.0.2:7400")


@pytest.mark.parametrize(
    "message",
    [
        ForwardJoin(FRIEND, WALK),
        Shuffle(2**62 - 1, 1, [FRIEND] * MOST_CONTACTS),
        Sample(0, []),
        Refused([FRIEND]),
        Goodbye(leaving=True),
    ],
)
def test_messages_read_back(message: Message) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        ForwardJoin(FRIEND, WALK + 1),
        ForwardJoin(FRIEND, -1),
        ForwardJoin(Contact("Shop 2\n", "x"), 1),
        ForwardJoin(Contact("x" * 64, "x"), 1),
        ForwardJoin(Contact("x", "x" * 260), 1),
        Shuffle(-1, 1, []),
        Sample(0, [FRIEND] * (MOST_CONTACTS + 1)),
    ],
)
def test_what_nobody_honest_sends_is_refused(message: Message) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(encode(message))
