"""Documents as the store would hold them, of runs that nobody made."""

from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.run.experiment import Run


def document(run, accuracy, version=None, last=None, drop=()):
    """What the store would hold of a run."""
    subgraph = {"subgraph_accuracy": accuracy / 2, "subgraph_accuracy_known": accuracy / 2}
    scores = {"accuracy": accuracy, **subgraph, "validation_accuracy": accuracy - 0.1}
    key = run.key
    return {
        "experiment": key.experiment,
        "dataset": key.dataset,
        "method": key.method,
        "method_version": key.method_version if version is None else version,
        "seed": key.seed,
        "config": {name: value for name, value in key.config.items() if name not in drop},
        "metrics": {"selected": scores, "last": last and {**scores, "accuracy": last}},
        "stability": None,
        "cpu_s": 3.0,
        "timestamp": "2026-01-01T00:00:00+00:00",
    }


def run(row, seed, dataset="cora", experiment="homophilic"):
    return Run(registry.EXPERIMENTS.find(experiment), dataset, row, seed)
