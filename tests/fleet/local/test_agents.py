from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from coopbandits import InputError, Network
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import read_config
from coopbandits.fleet.local.agents import BANDIT, prepared, require_empty, write_configs
from coopbandits.fleet.local.settings import make_settings


def test_every_configuration_can_be_read(tmp_path: Path) -> None:
    settings = make_settings("star:4", "0.6,0.5x2", policy="dducb")
    with prepared(tmp_path / "fleet", settings) as places:
        write_configs(places, settings, {})
        configs = [read_config(place.config, now=time.time()) for place in places]
    assert [config.id for config in configs] == ["a00", "a01", "a02", "a03"]
    assert [len(config.neighbors) for config in configs] == [3, 1, 1, 1]
    assert configs[1].neighbors == {"a00": configs[0].listen}
    assert len({config.cluster.hash for config in configs}) == 1
    bandit = configs[0].bandits[BANDIT]
    assert [config.bandits for config in configs] == [{BANDIT: bandit}] * 4
    assert [arm.name for arm in bandit.arms] == ["arm-0", "arm-1", "arm-2"]
    assert bandit.reward_range == (0.0, 1.0)
    assert bandit.num_agents == 4
    assert bandit.lambda_bound == Network.from_spec("star:4", weights="metropolis").lambda2


def test_gaussian_arms_and_detours(tmp_path: Path) -> None:
    settings = make_settings("path:2", "1,0.5", sigma=2.0, policy="tree-ts")
    with prepared(tmp_path, settings) as places:
        write_configs(places, settings, {("a01", "a00"): Address("127.0.0.1", 9)})
        one, other = (read_config(place.config, now=time.time()) for place in places)
    bandit = one.bandits[BANDIT]
    assert (bandit.sigma, bandit.reward_range, bandit.num_agents) == (2.0, None, None)
    assert other.neighbors == {"a00": Address("127.0.0.1", 9)}
    assert one.neighbors == {"a01": other.listen}


def test_ports_are_held_for_their_agents(tmp_path: Path) -> None:
    """Nobody else gets them, but who asks for one by its number may listen there."""
    with prepared(tmp_path, make_settings("path:2", "0.5,0.4")) as places, socket.socket() as agent:
        assert places[0].listen.port != places[1].listen.port
        agent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        agent.bind((places[0].listen.host, places[0].listen.port))
        agent.listen()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((places[1].listen.host, places[1].listen.port))


def test_a_long_path_takes_tcp_for_the_api(tmp_path: Path) -> None:
    settings = make_settings("path:2", "0.5,0.4")
    with prepared(tmp_path / ("x" * 90), settings) as places:
        write_configs(places, settings, {})
        assert places[0].api.startswith("127.0.0.1:")
        assert read_config(places[0].config, now=time.time()).id == "a00"


def test_folders_that_are_refused(tmp_path: Path) -> None:
    require_empty(tmp_path)
    require_empty(tmp_path / "new")
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="not empty"):
            require_empty(path)
    settings = make_settings("path:2", "0.5,0.4")
    with (
        pytest.raises(InputError, match="cannot create"),
        prepared(tmp_path / "file" / "below", settings),
    ):
        pass
