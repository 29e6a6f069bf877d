"""Networks whose rows are edges; each file is one, and importing this package registers them all."""

from dpmsnc.nn.edges import ends, energy, gine, ponder, recurrent, triples  # noqa: F401 (they register themselves)
from dpmsnc.nn.edges.base import EDGE_DENOISERS, EdgeDenoiser
from dpmsnc.nn.edges.tensors import EdgeTensors

__all__ = ["EDGE_DENOISERS", "EdgeDenoiser", "EdgeTensors"]
