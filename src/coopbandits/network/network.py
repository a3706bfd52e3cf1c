"""The network: who talks to whom, with which weights, and how fast that mixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from coopbandits.core.contract import LocalView
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.mixing import LAMBDA_ZERO, mixing_rounds
from coopbandits.core.spelling import html_facts
from coopbandits.network.adjacency import (
    Attributes,
    GraphLike,
    Labels,
    breadth_first_depths,
    edge_weights,
    node_attributes,
    read_adjacency,
)
from coopbandits.network.from_igraph import as_networkx
from coopbandits.network.positions import positions
from coopbandits.network.specs import parse_graph
from coopbandits.network.spectrum import Spectrum, spectrum
from coopbandits.network.weights import AUTO, BUILDERS, EDGE, own_matrix, weighted_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from coopbandits.core.aggregate import AnyAggregation
    from coopbandits.network.spreading import Spread

EXACT_DIAMETER_LIMIT = 50_000_000
"""Up to this product of agents and entries of P the exact diameter is computed."""

SHOWN_NAMES = 5
"""Names of agents that notebooks show."""


class Network:
    """A connected graph of agents with its gossip matrix P; immutable.

    Parameters
    ----------
    graph : networkx or igraph Graph, scipy sparse array, numpy array or iterable of pairs
        Who talks to whom. Agent i is the i-th node of a graph, row i of an adjacency, or the i-th
        label of an edge list (sorted where labels can be, else as first seen). A nonzero adjacency
        entry is an edge, and so is every edge of a graph.
    weights : {"auto", "max-degree", "metropolis", "edge"} or matrix
        P = I − (D − A)/(δ_max + 1); or P_ij = 1/(1 + max(d_i, d_j)), which agents can compute
        from their neighbours' degrees; or P = I − (D − W)/(δ_max + w_max) of the graph's own edge
        weights W, the attribute `weight` or the entries of an adjacency; or a caller's own matrix,
        dense or sparse, which must be symmetric, doubly stochastic, zero where there is no edge,
        and have λ < 1. "auto" takes edge weights where they differ, else "max-degree".

    Attributes
    ----------
    num_agents, num_edges : int
        N and the number of edges.
    labels : tuple
        The caller's name of every agent.
    attributes : dict of str to tuple
        What a networkx or igraph graph says of every node in one text or number, such as `club`.
    adjacency, matrix : scipy.sparse.csr_array
        A (zeros and ones) and P, canonical, float64 and read-only.
    degrees : array of int
        Number of neighbours of every agent.
    weights : str
        "max-degree", "metropolis", "edge" or "own".
    description : str
        The graph in a few words, or the shorthand it was made from.

    Examples
    --------
    >>> network = Network([(0, 1), (1, 2)])
    >>> network.neighbors(1)
    (0, 2)
    >>> network.mixing_rounds()
    6
    """

    def __init__(self, graph: GraphLike, weights: Any = AUTO) -> None:
        graph = as_networkx(graph)
        adjacency, labels = read_adjacency(graph)
        if not isinstance(weights, str):
            matrix, name = own_matrix(weights, adjacency), "own"
        elif weights not in (AUTO, EDGE, *BUILDERS):
            raise unknown_name("weights", weights, (AUTO, EDGE, *BUILDERS))
        elif weights in BUILDERS or (own := edge_weights(graph, adjacency, labels)) is None:
            name = weights if weights in BUILDERS else "max-degree"
            matrix = BUILDERS[name](adjacency)
        else:
            matrix, name = weighted_matrix(adjacency, own), EDGE
        degrees = np.diff(adjacency.indptr).astype(np.int64)
        degrees.setflags(write=False)
        self.num_agents: Final[int] = len(labels)
        self.num_edges: Final[int] = adjacency.nnz // 2
        self.labels: Final[Labels] = labels
        self.adjacency: Final[sparse.csr_array] = adjacency
        self.matrix: Final[sparse.csr_array] = matrix
        self.degrees: Final[NDArray[np.int64]] = degrees
        self.attributes: Final[Attributes] = node_attributes(graph)
        self.weights: Final[str] = name
        self.description = f"graph of {self.num_agents} agents, {self.num_edges} edges"

    @classmethod
    def from_spec(cls, text: str, weights: Any = AUTO) -> Network:
        """Make a network from a shorthand such as ``cycle:100`` or from a file's name."""
        network = cls(parse_graph(text), weights)
        network.description = text
        return network

    def __repr__(self) -> str:
        return f"<Network {self.description}, {self.weights} weights>"

    def _repr_html_(self) -> str:
        fewest, most = int(self.degrees.min()), int(self.degrees.max())
        names = ", ".join(str(label) for label in self.labels[:SHOWN_NAMES])
        facts = [
            ("agents", self.num_agents),
            ("edges", self.num_edges),
            ("neighbours", fewest if fewest == most else f"{fewest} to {most}"),
            ("weights", self.weights),
            ("names", names + (", …" if self.num_agents > SHOWN_NAMES else "")),
        ]
        return html_facts(f"Network {self.description}", facts)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Distances of the eigenvalues of P from 1 and from −1."""
        return spectrum(self.matrix)

    @cached_property
    def lambda2(self) -> float:
        """Largest |λ_j| over j ≥ 2: a step shrinks disagreement by it; 0 if below 1e-9."""
        value = 1.0 - min(self.spectrum)
        if value >= 1.0:
            raise InputError(
                f"λ of this network of {self.num_agents} agents cannot be told from 1 in double "
                "precision; add edges or give its agents more weight on each other"
            )
        return value if value >= LAMBDA_ZERO else 0.0

    @property
    def spectral_gap(self) -> float:
        """1 − λ, with more digits than subtracting `lambda2` from 1 would leave."""
        return min(self.spectrum) if self.lambda2 > 0.0 else 1.0

    @property
    def smallest_eigenvalue(self) -> float:
        """The smallest eigenvalue λ_N; accurate to 1 % of 1 + λ_N where it does not decide λ."""
        return self.spectrum.lower_gap - 1.0

    @cached_property
    def diameter(self) -> int:
        """Longest distance between two agents; a lower bound unless `diameter_is_exact`."""
        if self._can_search_all:
            return max(self._farthest(i)[1] for i in range(self.num_agents))
        # Sweeps to the farthest agent: exact on trees and complete graphs, rarely low elsewhere.
        start, best = 0, 0
        for _ in range(4):
            start, distance = self._farthest(start)
            best = max(best, distance)
        return best

    @property
    def diameter_is_exact(self) -> bool:
        """Whether `diameter` is the diameter, and not just a lower bound on it."""
        most_edges = self.num_agents * (self.num_agents - 1) // 2
        return self._can_search_all or self.num_edges in (self.num_agents - 1, most_edges)

    @property
    def _can_search_all(self) -> bool:
        return self.num_agents * int(self.matrix.nnz) <= EXACT_DIAMETER_LIMIT

    def _farthest(self, start: int) -> tuple[int, int]:
        depths = breadth_first_depths(self.adjacency, start)
        end = int(depths.argmax())
        return end, int(depths[end])

    def neighbors(self, agent_id: int) -> tuple[int, ...]:
        """Return the neighbours of an agent, ascending."""
        self._check_agent(agent_id)
        start, stop = self.adjacency.indptr[agent_id : agent_id + 2]
        return tuple(self.adjacency.indices[start:stop].tolist())

    @cached_property
    def positions(self) -> NDArray[np.float64]:
        """Where agents are drawn: (x, y) in the unit square, y upwards."""
        return positions(self.adjacency, self.attributes)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """The pairs of neighbours (edge, 2), each with the lower number first."""
        first, second = sparse.triu(self.adjacency).tocoo().coords
        return np.column_stack([first, second]).astype(np.int64)

    @overload
    def plot(
        self,
        values: ArrayLike | str | None = None,
        *,
        labels: bool | None = None,
        title: str = "",
        path: str | Path | None = None,
    ) -> Figure: ...
    @overload
    def plot(
        self,
        values: ArrayLike | str | None = None,
        *,
        labels: bool | None = None,
        title: str = "",
        path: str | Path | None = None,
        ax: Axes,
    ) -> Axes: ...
    def plot(
        self,
        values: ArrayLike | str | None = None,
        *,
        labels: bool | None = None,
        title: str = "",
        path: str | Path | None = None,
        ax: Axes | None = None,
    ) -> Figure | Axes:
        """Draw the network; return the figure, or `ax` where that is given.

        Agents lie where the graph's structure puts them (grids, cycles, paths, stars, complete
        graphs), where their attributes `x` and `y` or `lon` and `lat` say, or else where springs
        pull them. Edges are as wide as their weights in P where these differ.

        Parameters
        ----------
        values : array of numbers or texts, or str, optional
            What agents are coloured by, or the name of one of `attributes`.
        labels : bool, optional
            Whether names of agents are shown; those of up to 40 are.
        title : str
            Above the network.
        path : path, optional
            Where to save it as well; the suffix sets the format.
        ax : matplotlib.axes.Axes, optional
            Where to draw instead of a new figure.
        """
        from coopbandits.network.drawing import draw_network  # imported late: it draws

        return draw_network(self, values, labels=labels, title=title, path=path, ax=ax)

    def animate(
        self,
        source: int = 0,
        *,
        aggregations: Sequence[AnyAggregation | str] | None = None,
        rounds: int | None = None,
        path: str | Path | None = None,
    ) -> Spread:
        """Show how the news of one agent spreads, by several aggregations side by side.

        Parameters
        ----------
        source : int
            The agent that makes the one pull everybody is to hear of.
        aggregations : sequence of AnyAggregation or str, optional
            What is compared; plain mixing, accelerated mixing, a tree and a flood unless given.
        rounds : int, optional
            How long; until accelerated mixing is done unless given, and at most 400.
        path : path, optional
            Where to save it: `.html` is a page that plays, `.gif` a film.

        Returns
        -------
        Spread
            The numbers; a notebook plays it, and its `save` writes it.
        """
        from coopbandits.network.spreading import kind_of, spread  # imported late: it draws

        if path is not None:
            kind_of(Path(path))  # refused before anything is computed
        found = spread(self, source, aggregations, rounds)
        if path is not None:
            found.save(path)
        return found

    def mixing_rounds(self, epsilon: float = 1 / 22, accelerated: bool = True) -> int:
        """Return C, the steps after which every weight lies within (1 ± ε)/N."""
        return mixing_rounds(self.num_agents, self.lambda2, epsilon, accelerated=accelerated)

    def local_view(
        self,
        agent_id: int,
        *,
        num_arms: int,
        sigma: float,
        needs: frozenset[str],
        global_knowledge: Mapping[str, float] | None = None,
    ) -> LocalView:
        """Return what one agent is allowed to know.

        Parameters
        ----------
        agent_id : int
            The agent's number.
        num_arms, sigma : int, float
            K and σ of the problem.
        needs : frozenset of str
            What the policy declares: N is given only with "num_agents" in it, λ only with
            "lambda_bound".
        global_knowledge : mapping, optional
            This agent's numbers that take the whole network to compute.
        """
        own_weight, neighbor_weights = self._row(agent_id)
        return LocalView(
            agent_id=int(agent_id),
            own_weight=own_weight,
            neighbor_weights=neighbor_weights,
            num_arms=num_arms,
            sigma=sigma,
            num_agents=self.num_agents if "num_agents" in needs else None,
            lambda_bound=self.lambda2 if "lambda_bound" in needs else None,
            global_knowledge=dict(global_knowledge or {}),
        )

    def _row(self, agent_id: int) -> tuple[float, dict[int, float]]:
        neighbors = self.neighbors(agent_id)
        start, stop = self.matrix.indptr[agent_id : agent_id + 2]
        columns = self.matrix.indices[start:stop].tolist()
        row = dict(zip(columns, self.matrix.data[start:stop].tolist(), strict=True))
        return row.get(int(agent_id), 0.0), {j: row.get(j, 0.0) for j in neighbors}

    def _check_agent(self, agent_id: int) -> None:
        if not 0 <= agent_id < self.num_agents:
            raise InputError(
                f"agent {agent_id} does not exist; agents are numbered 0 to {self.num_agents - 1}"
            )
