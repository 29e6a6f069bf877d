"""Graphs: nodes, edges, features and known labels; reading, cleaning, batching, splitting and describing them."""

from dpmsnc.graph.graph import UNKNOWN, Graph

__all__ = ["UNKNOWN", "Graph"]
