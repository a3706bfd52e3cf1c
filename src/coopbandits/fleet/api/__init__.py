"""The HTTP API of an agent: choose an option, hand in its reward, look at the agent."""

from coopbandits.fleet.api.app import Api
from coopbandits.fleet.api.server import ApiServer

__all__ = ["Api", "ApiServer"]
