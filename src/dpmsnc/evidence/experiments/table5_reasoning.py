"""Table 5: algorithmic reasoning with values on edges; the paper's figures, which no experiment reproduces yet."""

from __future__ import annotations

from dpmsnc.evidence.show.paper import Printed, columns

# element-wise squared error on graphs of 10 nodes (mse) and of 15 (mse_large)
PAPER = Printed(
    number=5,
    columns=columns(("edge_copy", "connected_components", "shortest_path"), ("mse", "mse_large")),
    seeds=None,
    digits=4,
    rows={
        ("feedforward", None): "0.3016 0.3124 0.1796 0.3460 0.1233 1.4089",
        ("recurrent", None): "0.3015 0.3113 0.1794 0.2766 0.1259 0.1083",
        ("programmatic", None): "0.3053 0.4409 0.2338 3.1381 0.1375 0.1290",
        ("iterative-feedforward", None): "0.6163 0.6498 0.4908 1.2064 0.4588 0.7688",
        ("irem", None): "0.0019 0.0019 0.1424 0.2171 0.0274 0.0464",
        ("dpm-snc", None): "0.0011 0.0038 0.0724 0.1884 0.0138 0.0286",
    },
)
