"""What is measured, by names such as `cora/gcn/train_step`: a data set, a network, and the work it is given."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

Work = Literal["train_step", "one_sample", "five_samples", "few_step"]

BACKBONES = {"gcn": "gcn(improved=True)", "gat": "gat", "gcnii": "gcnii(time=False)"}
"""The package's name of each backbone, in the variant that the authors use."""

AUTHORS_CPU_S = {"cora/gcn/train_step": 0.52, "cora/gcn/one_sample": 2.9, "cora/gcn/five_samples": 15.0}
"""What the authors' own code costs on the machine of `latest.json`."""
HONEST_WITHIN = 0.25

_GRAPHS = ("cora/gcn", "citeseer/gcn", "pubmed/gcn", "amazon_photo/gcn", "cora/gat", "cora/gcnii")
NAMES = (
    "cora/gcn/train_step",
    "cora/gcn/one_sample",
    "cora/gcn/five_samples",
    "cora/gcn/few_step",
    "cora/gcn-amortised/train_step",
    "cora/gcn-amortised/one_sample",
    *(f"{graph}/{work}" for graph in _GRAPHS[1:] for work in ("train_step", "one_sample", "few_step")),
)


@dataclass(frozen=True)
class Case:
    """One name, taken apart.

    Example:
        >>> Case("cora/gcn-amortised/one_sample").backbone, Case("cora/gcn/few_step").amortised
        ('gcn(improved=True)', True)
    """

    name: str

    @property
    def data(self) -> str:
        return self.name.split("/")[0]

    @property
    def backbone(self) -> str:
        return BACKBONES[self.name.split("/")[1].removesuffix("-amortised")]

    @property
    def work(self) -> Work:
        return self.name.split("/")[2]  # type: ignore[return-value]

    @property
    def amortised(self) -> bool:
        """Whether the network is shown known labels; a few-step prediction always is."""
        return self.work == "few_step" or self.name.split("/")[1].endswith("-amortised")

    @property
    def num_samples(self) -> int:
        return 5 if self.work == "five_samples" else 1

    @property
    def check_steps(self) -> int | None:
        """Reverse steps in the check of equality: all of them for a GCN on Cora, four where they would take long."""
        return None if self.name.startswith("cora/gcn") and self.num_samples == 1 and "gcnii" not in self.name else 4

    @property
    def reference(self) -> str:
        """The case whose reference this one is compared with: a few-step prediction stands for a guided sample."""
        return self.name.replace("few_step", "one_sample")


def chosen(patterns: list[str]) -> list[Case]:
    """The cases whose names match one of the patterns, in their order."""
    return [Case(name) for name in NAMES if any(fnmatch(name, pattern) for pattern in patterns)]


def honest(reference: str, cpu_s: float) -> bool | None:
    """Whether a reference costs what the authors' code costs; None where that is not known.

    A reference that is slower flatters the package, and one that is faster is not the paper's way of doing it: in both
    cases the ratio says nothing.
    """
    authors = AUTHORS_CPU_S.get(reference)
    return None if authors is None else abs(cpu_s - authors) <= HONEST_WITHIN * authors
