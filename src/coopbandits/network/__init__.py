"""The world between agents: graphs, gossip matrices and their spectra."""

from coopbandits.network.network import Network
from coopbandits.network.report import GraphReport, describe
from coopbandits.network.specs import parse_graph

__all__ = ["GraphReport", "Network", "describe", "parse_graph"]
