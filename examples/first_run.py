"""Twenty agents on a ring, four arms: do they learn faster together than alone?"""

import networkx as nx

import coopbandits as cb

problem = cb.GaussianBandit(means=[1.0, 0.8, 0.8, 0.5], sigma=1.0)
network = cb.Network(nx.cycle_graph(20))
print(f"λ = {network.lambda2:.4f}, C = {network.mixing_rounds()} rounds")

result = cb.simulate(
    problem,
    network,
    policies=[cb.DDUCB(), cb.IndependentUCB()],
    horizon=2000,
    runs=10,
    seed=0,
)
print(result.summary())
result.plot(path="out/first-run/regret.png")
