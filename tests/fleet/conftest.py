"""Certificates, made once for all tests of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from coopbandits.fleet.identity.certs import init_authority, issue

from .transport.nodes import NODES


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority and certificates for NODES, and for the agents of a `World`."""
    folder = tmp_path_factory.mktemp("certificates")
    init_authority(folder)
    issue(folder, [*NODES, *(f"n{agent}" for agent in range(8))])
    return folder


@pytest.fixture(scope="session")
def other_certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same names by another authority."""
    folder = tmp_path_factory.mktemp("other-certificates")
    init_authority(folder)
    issue(folder, NODES)
    return folder
