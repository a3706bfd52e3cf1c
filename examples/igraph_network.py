"""A graph of igraph: names of vertices become names of agents."""

import igraph

import coopbandits as cb

graph = igraph.Graph.Ring(8)
graph.vs["name"] = ["Lyon", "Turin", "Genoa", "Nice", "Aix", "Nimes", "Valence", "Vienne"]
graph.vs["country"] = ["fr", "it", "it", "fr", "fr", "fr", "fr", "fr"]
network = cb.Network(graph)
problem = cb.GaussianBandit([1.0, 0.7, 0.5])
result = cb.simulate(problem, network, cb.DDUCB(), horizon=500, runs=5, keep="agents")
print(network.labels)
print(result.pulls.sel(agent="Genoa").mean("run").to_series())
print(result.pulls.groupby("country").mean().mean("run").to_series())
