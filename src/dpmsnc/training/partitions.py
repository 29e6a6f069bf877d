"""Parts of a graph, for training where a step on all of it does not fit (Cluster-GCN; Chiang et al. 2019).

METIS cuts the graph once into clusters with few edges between them, a few times as many as parts. Each time round, the
clusters are joined into parts anew at random, so that an edge between two clusters, which is lost while they are apart,
comes back whenever they meet ("stochastic multiple partitions").
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData, ClusterLoader

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.structure import structure_features
from dpmsnc.nn.operator import GraphTensors

CLUSTERS_PER_PART = 5
METIS_SEED = 0


class Clusters(ClusterData):
    """PyG's clusters of a graph, cut by pymetis, which installs from a wheel where pyg-lib and torch-sparse do not."""

    def __init__(self, graph: Graph, count: int) -> None:
        edges = torch.from_numpy(np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1))
        data = Data(edge_index=edges, num_nodes=graph.num_nodes, node=torch.arange(graph.num_nodes))
        if graph.edge_weight is not None:
            data.edge_weight = torch.from_numpy(np.concatenate([graph.edge_weight, graph.edge_weight]))
        super().__init__(data, count, log=False)

    def _metis(self, edge_index: Tensor, num_nodes: int) -> Tensor:
        try:
            import pymetis
        except ImportError as error:
            raise InputError('to train on parts of a graph, install METIS: pip install "dpmsnc[scale]"') from error
        neighbours = sp.csr_array((np.ones(edge_index.shape[1], dtype=bool), edge_index.numpy()), shape=[num_nodes] * 2)
        adjacency = pymetis.CSRAdjacency(neighbours.indptr, neighbours.indices)
        _, cluster = pymetis.part_graph(self.num_parts, adjacency, options=pymetis.Options(seed=METIS_SEED))
        return torch.from_numpy(np.asarray(cluster, dtype=np.int64))


class Parts:
    """A graph in `count` parts, other ones each time round."""

    def __init__(self, whole: GraphTensors, count: int) -> None:
        self.whole, self.count = whole, count
        self.clusters = Clusters(whole.graph, min(CLUSTERS_PER_PART * count, whole.graph.num_nodes))
        self.filled = self.clusters.partition.partptr.diff().nonzero().flatten()
        if len(self.filled) < count:
            raise InputError(f"{whole.graph.num_nodes} nodes cannot be cut into {count} parts; ask for fewer")
        self.loader = ClusterLoader(self.clusters)

    def draw(self, generator: torch.Generator) -> list[list[int]]:
        """The parts of one time round, each a list of clusters."""
        shuffled = self.filled[torch.randperm(len(self.filled), generator=generator)]
        return [part.tolist() for part in shuffled.tensor_split(self.count)]

    def join(self, clusters: list[int]) -> tuple[Tensor, GraphTensors]:
        """The nodes of some clusters (nodes of the part,), and the subgraph that they induce."""
        data = self.loader.collate_fn(clusters)
        nodes, edges, whole = data.node.numpy(), data.edge_index.numpy(), self.whole.graph
        once = edges[0] < edges[1]
        part = Graph(
            num_nodes=len(nodes),
            edge_index=edges[:, once],
            x=None if whole.x is None else whole.x[nodes],
            y=whole.y[nodes],
            target=whole.target,
            ids=whole.ids[nodes],
            edge_weight=None if whole.edge_weight is None else data.edge_weight.numpy()[once],
            weight_unit=whole.weight_unit,
        )
        if (walk := self.whole.features.longest_walk) is not None:  # the structure around a node is that of the whole
            columns = structure_features(whole, walk)[nodes]
            part.cached(f"structure/{walk}", lambda: columns)
        tensors = GraphTensors(part, self.whole.features, self.whole.device, self.whole.dtype)
        return data.node.to(self.whole.device), tensors
