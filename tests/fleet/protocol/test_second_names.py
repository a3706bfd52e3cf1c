"""Certificates with several ids, and those that are renewed: who is believed as whom."""

from __future__ import annotations

import shutil
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.aggregate.entries import HEADER, entry_number
from coopbandits.fleet.identity.certs import renew, request, sign_requests
from coopbandits.fleet.identity.notary import FINGERPRINT
from coopbandits.fleet.transport import Arrival
from tests.torture.world import World

from .test_entries import BANDIT, LIAR, exchange, known, number, row, settle, tell

SECOND = 6
"""The number of the second id in the liar's certificate; no agent of the world has it."""


@pytest.fixture
def folder(certificates: Path, tmp_path: Path) -> Path:
    """Certificates of which the liar's has a second id."""
    copied = Path(shutil.copytree(certificates, tmp_path / "copy"))
    request(f"n{LIAR}", copied, [f"n{SECOND}"])
    requests = [copied / f"n{LIAR}.csr"]
    sign_requests(copied, requests, also=[f"n{SECOND}"], force=True)
    return copied


def agents_believed(world: World, agent: int) -> set[float]:
    """Return the numbers of which an agent holds an entry with pulls."""
    machine = exchange(world, agent).machine
    return {each for each in machine.held() if known(world, agent, each)[HEADER:].any()}  # type: ignore[index]  # it is held


def test_one_key_is_one_author(folder: Path) -> None:
    """The first id that is believed stays, and nobody loses a link over the second one."""
    world = World(BANDIT, nx.path_graph(4), certificates=folder)
    for agent in world.graph:
        world.pull(agent, agent, 1.0)
    settle(world)
    second = float(entry_number(SECOND, 0))
    before = agents_believed(world, 0)
    assert len(before) == 4
    for victim in (0, 2):
        tell(world, victim, row(second, 3.0))
    settle(world)
    for agent in (0, 2, 3):
        assert agents_believed(world, agent) == before
        assert not world.node(agent).refusals
        np.testing.assert_allclose(world.totals(agent), world.acknowledged)


def test_a_key_that_was_believed_by_its_second_id_has_no_first_one(folder: Path) -> None:
    """Agents may believe different ids; those who pass the other one on are no liars."""
    world = World(BANDIT, nx.path_graph(4), certificates=folder)
    for other in world.graph.neighbors(LIAR):
        world.cut_link(LIAR, other)  # before it has told anything
    for _ in range(5):
        world.step()
    second = float(entry_number(SECOND, 0))
    tell(world, 3, row(second, 3.0), sender=2)
    world.step()
    assert agents_believed(world, 3) == {second}
    world.heal()
    world.pull(LIAR, 5, 1.0)
    settle(world)
    first = float(number(world, LIAR))
    assert agents_believed(world, 0) == {first}
    assert agents_believed(world, 2) == agents_believed(world, 3) == {second}
    world.crash(3)  # the journal has it, too
    settle(world)
    assert agents_believed(world, 3) == {second}
    assert not any(world.node(agent).refusals for agent in (0, 2, 3))


def test_a_certificate_is_revoked_with_any_of_its_ids(folder: Path, tmp_path: Path) -> None:
    revoked = tmp_path / "revoked.txt"
    revoked.write_text("")
    world = World(BANDIT, nx.complete_graph(4), certificates=folder, revoked=revoked)
    for agent in world.graph:
        world.pull(agent, agent, 1.0)
    settle(world)
    liars = float(number(world, LIAR))
    assert liars in agents_believed(world, 0)
    revoked.write_text(f"n{SECOND}\n")
    settle(world)
    for agent in (0, 2, 3):
        assert liars not in agents_believed(world, agent)
        assert len(agents_believed(world, agent)) == 3
    node = world.node(0)
    node.link_down("n2", "cut", world.now)
    node.link_up("n2", world.now, Arrival(names=frozenset({"n2", f"n{SECOND}"})))
    assert node.refusals["revoked"] == 1
    assert node.peers["n2"].closing


def test_a_renewed_certificate_proves_what_was_said_before(
    certificates: Path, tmp_path: Path
) -> None:
    """Without another pull, and for agents that are no neighbours: else an authority could never
    be removed."""
    copied = Path(shutil.copytree(certificates, tmp_path / "copy"))
    world = World(BANDIT, nx.path_graph(4), certificates=copied)
    for agent in world.graph:
        world.pull(agent, agent, 1.0)
    settle(world)
    renew(copied, everything=True, days=200)
    settle(world)
    latest = {exchange(world, agent).signer.notary.fingerprint for agent in world.graph}
    for agent in world.graph:
        own = float(number(world, agent))
        kept = {
            each: of.proof[:FINGERPRINT] for each, of in exchange(world, agent).book.known.items()
        }
        kept.pop(own, None)
        assert len(kept) == 3
        assert set(kept.values()) < latest, agent
        np.testing.assert_allclose(world.totals(agent), world.acknowledged)
        assert not world.node(agent).refusals
    bystander = world.node(3)
    sent = bystander.peers["n2"].frames["sent"]
    settle(world, 10)
    assert bystander.peers["n2"].frames["sent"] <= sent + 1, "it comes to rest"
