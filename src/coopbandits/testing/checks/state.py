"""What an agent remembers, and what may change it."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from coopbandits.core import InputError
from coopbandits.testing.checks import expect_refused, finding
from coopbandits.testing.checks.knowledge import expect_equal
from coopbandits.testing.world import Round, same_messages

if TYPE_CHECKING:
    from coopbandits.core import State, Vector
    from coopbandits.testing.world import Trial


def plain_state(trial: Trial) -> None:
    """The exported state is plain data with a "version", and a copy that later calls leave alone.

    Plain means that JSON gives back an equal object: no arrays, tuples, NaN, infinity, or keys that
    are not strings.
    """
    for world in trial.worlds():
        for _ in range(trial.rounds):
            exported = [agent.export_state() for agent in world.agents]
            texts = [_to_json(state, world.where(i)) for i, state in enumerate(exported)]
            world.play()
            for i, (state, text) in enumerate(zip(exported, texts, strict=True)):
                if json.dumps(state) != text:
                    did = f"an exported state changed as the agent played on ({world.where(i)})"
                    raise finding(did, "a copy")


def _to_json(state: Any, where: str) -> str:
    try:
        text = json.dumps(state, allow_nan=False)
        if isinstance(state, dict) and "version" in state and json.loads(text) == state:
            return text
    except (TypeError, ValueError):
        pass
    raise finding(
        f"export_state returned {state!r} ({where})",
        'a dict with a "version", made of finite numbers, strings, lists and dicts alone',
    )


def sending_changes_nothing(trial: Trial) -> None:
    """`outgoing` changes nothing: asking again gives an equal message."""
    for world in trial.worlds():
        for _ in range(trial.rounds):
            world.pull()
            states, sent = world.states(), world.send()
            if world.states() != states:
                raise finding(f"outgoing changed the state ({world.where()})", "an equal state")
            if not same_messages(world.send(), sent):
                did = f"outgoing, asked twice, gave different messages ({world.where()})"
                raise finding(did, "equal ones")
            world.deliver(sent)


def choosing_changes_nothing(trial: Trial) -> None:
    """`choose` changes nothing but "open_pulls": its answer may be thrown away."""
    for world in trial.worlds():
        for _ in range(trial.rounds):
            states, sent = world.states(), world.send()
            for agent, word in zip(world.agents, world.draw()[0], strict=True):
                agent.choose(word)
            if not same_messages(world.send(), sent):
                raise finding(f"choose changed a message ({world.where()})", "equal messages")
            for i, (before, after) in enumerate(zip(states, world.states(), strict=True)):
                if _closed(before) != _closed(after):
                    did = f"choose changed the state from {before} to {after} ({world.where(i)})"
                    raise finding(did, 'a change of "open_pulls" alone')
            world.play()


def _closed(state: State) -> State:
    return {key: value for key, value in state.items() if key != "open_pulls"}


def messages_are_copies(trial: Trial) -> None:
    """What is done to a message after it was sent or received does not reach into the agent."""
    for world in trial.worlds():
        for _ in range(trial.rounds):
            world.pull()
            states, sent = world.states(), world.send()
            for i, j in world.links:
                _scribble(world.agents[i].outgoing(j))
            if world.states() != states or not same_messages(world.send(), sent):
                did = "writing on a message that outgoing returned changed the agent"
                raise finding(f"{did} ({world.where()})", "that outgoing returns a copy")
            heard = {link: message.copy() for link, message in sent.items()}
            world.deliver(sent)
            if not same_messages(sent, heard):
                did = f"receive wrote on a message ({world.where()})"
                raise finding(did, "that it writes on copies; in a fleet messages are read-only")
            states = world.states()
            for message in sent.values():
                _scribble(message)
            if world.states() != states:
                did = f"writing on a message after receive changed the agent ({world.where()})"
                raise finding(did, "that receive copies what it keeps")


def _scribble(message: Vector | None) -> None:
    if message is not None and message.flags.writeable:
        message += 1.0


def restart(trial: Trial) -> None:
    """An agent restored from its state, between rounds or within one, continues exactly."""
    who = "a network and one restored from its states before every step"
    expected = "equal ones, so that the exported state holds all that is remembered"
    for world, restarted in zip(trial.worlds(), trial.worlds(), strict=True):
        for _ in range(trial.rounds):
            played = world.play()
            restarted.restart()
            pulls = restarted.pull()
            restarted.restart()
            messages = restarted.send()
            restarted.deliver({link: values.copy() for link, values in messages.items()})
            expect_equal(played, Round(pulls, messages), f"{who} ({world.where()})", expected)


def foreign_state(trial: Trial) -> None:
    """A state of another version or number of arms raises InputError and changes nothing."""
    world, wider = trial.world("cycle"), trial.world("cycle", num_arms=trial.num_arms + 1)
    for _ in range(trial.rounds):
        world.play()
        wider.play()
    own = world.states()[0]
    newer = {**own, "version": f"after {own['version']}"}
    for kind, state in (("version", newer), ("number of arms", wider.states()[0])):
        call = partial(world.agents[0].restore_state, state)
        expect_refused(world, call, InputError, f"restore_state with another {kind}")
