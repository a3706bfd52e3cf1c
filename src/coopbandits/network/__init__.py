"""The network between agents: graphs, gossip matrices, their spectra, faults."""

from coopbandits.network.faults import Faults, parse_faults
from coopbandits.network.network import Network
from coopbandits.network.report import GraphReport, describe
from coopbandits.network.specs import parse_graph

__all__ = ["Faults", "GraphReport", "Network", "describe", "parse_faults", "parse_graph"]
