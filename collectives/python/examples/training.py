"""Ranks that learn together, as with torch.distributed: training.py GROUP RANKS DATA. Rank 0 alone has DATA."""

import sys

import ethbcast
import numpy as np

group, size, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with ethbcast.Communicator.join(group, size) as ranks:
    data = ethbcast.share(path, f"{group}-data", rank=ranks.rank, size=size, into=f"{path}.{ranks.host}")
    rows = np.frombuffer(data.memory).reshape(-1, 5)
    own = rows[ranks.rank :: size]
    inputs, targets = own[:, :4], own[:, 4]

    weights = np.random.default_rng(ranks.rank).normal(size=4)
    ranks.broadcast(weights)
    gradients = np.empty((size, 4))
    for _ in range(200):
        gradient = 2 * inputs.T @ (inputs @ weights - targets) / len(own)
        ranks.allgather(gradient, gradients)
        weights -= 0.1 * gradients.mean(axis=0)

    print(f"{ranks.host}: weights {np.round(weights, 3).tolist()}")
