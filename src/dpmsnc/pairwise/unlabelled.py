r"""Components of a graph in which no label is known.

Couplings are learned where other labels are known, which hold them in check. Where none is, propagation with a strong
coupling turns the faintest preference of the unaries into certainty about a whole component, although nothing says
which class it has. So components without a known label have potentials of their own, without couplings and with unaries
learned with no label given, which are the marginals there. A joint labelling is drawn in two steps,

    p(y) = p(y_r) p(y_rest | y_r),

first the label of the surest node r of each such component from its marginal, then the rest as if that label were
known, with the couplings of the others. Where features say little, whole components change their labels together from
one sample to the next. Away from r, shares of labels in samples may differ from the marginals.

On another graph these marginals also count where few labels of a component are known (`dpmsnc.pairwise.few_labels`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn.functional import one_hot

from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.sampler import Noise
from dpmsnc.graph import Graph
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.few_labels import Trust, pooled, share_known
from dpmsnc.pairwise.gibbs import SWEEPS, Gibbs
from dpmsnc.pairwise.learning import Folds, asking_iterations, descend
from dpmsnc.pairwise.potentials import LEAST, Potentials
from dpmsnc.pairwise.propagation import Propagation, cut

ENOUGH = 0.015
"""Nats a label by which potentials without couplings have to be better on the graph that was fitted, where base models
have seen the nodes."""
LEAST_NODES = 30
"""Nodes of a component of the fitted graph from which on this is for it: a faint preference adds up over many nodes."""

FAINT = 0.1
"""Nats a node below which marginals that differ within a component are taken to say nothing of joint labellings."""


def uncoupled(potentials: Potentials, folds: Folds, edges: Edges, steps: int) -> Potentials:
    """Potentials without couplings, from folds that give no label."""
    result = Potentials.like(potentials, "none")
    with torch.no_grad():
        result.J.zero_()
        result.R.zero_()
    return descend(result, folds, edges, steps).requires_grad_(False)


@torch.no_grad()
def score(potentials: Potentials, folds: Folds, edges: Edges) -> float:
    """Mean log-likelihood of the labels that are asked for, none being given."""
    beliefs = folds.beliefs(potentials, edges, asking_iterations(edges, folds.num_classes))
    return folds.log_likelihood(beliefs).mean().item()


def components(graph: Graph) -> NDArray[np.int64]:
    """The component of every node."""
    return graph.cached("components", lambda: connected_components(graph.adjacency, directed=False)[1].astype(np.int64))


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """The components of a graph that have no known label: the marginals of their nodes, and joint labellings.

    On another graph than the fitted one the marginals also count where few labels of a component are known.
    """

    component: Tensor
    """Of every node (nodes,)."""
    rows: Tensor
    """Nodes of such components (nodes,)."""
    logits: Tensor
    """Of marginals (nodes, classes), which count on these rows."""
    couplings: tuple[Propagation, Gibbs] | None
    """Those on the graph of these rows alone, if there are any."""
    trust: Trust | None = None
    """In couplings, by the share of labels known in a component. With it, the marginals are those of all rows."""

    def pooled_with(self, logits: Tensor, known: Known, evidence: Tensor) -> Tensor:
        """Logits (nodes, batch, classes), with those of its own where nothing in a component is known, or little.

        `evidence` is log p(y_t | y) of that shape.
        """
        alone = self.logits.unsqueeze(1) + evidence
        if self.trust is not None:
            logits = pooled(logits, alone, self.trust.at(share_known(self.component, known.mask, evidence)))
        nothing = self.rows.unsqueeze(1) & (share_known(self.component, known.mask) == 0)
        return torch.where(nothing.unsqueeze(-1), alone, logits)

    def begin(self, known: Known, count: int, noise: Noise, logits: Tensor | None = None) -> Known:
        """Known labels of so many samples, with the labels that these components have in each of them.

        `logits` (nodes, classes) are those of other marginals, such as a network's, in place of its own.
        """
        if self.couplings is None:
            return known
        marginals = (self.logits if logits is None else logits.to(self.logits))[self.rows]
        sizes = [part.stop - part.start for part in cut(count, len(self.couplings[0].edges) * marginals.shape[-1])]
        log_p = marginals.log_softmax(dim=-1)
        labels = torch.cat([self.drawn(log_p, size, noise, *self.couplings) for size in sizes], dim=1)
        rows = self.rows.to(known.mask.device)
        mask, y = known.mask.expand(-1, count).clone(), known.y.expand(-1, count, -1).clone()
        mask[rows], y[rows] = True, one_hot(labels, known.y.shape[-1]).to(y)
        return Known(mask, y)

    @torch.no_grad()
    def drawn(self, log_p: Tensor, count: int, noise: Noise, propagation: Propagation, sampler: Gibbs) -> Tensor:
        """Joint labellings of the rows (rows, count) from the logarithms of their marginals (rows, classes); at
        temperature 0 the most probable label of each."""
        if noise.temperature == 0:
            return log_p.argmax(dim=-1, keepdim=True).expand(-1, count)
        roots = self.surest(log_p)
        first = log_p[roots].unsqueeze(1).expand(-1, count, -1)
        gumbel = -noise.uniform(first).log().neg().log()
        label = (first + noise.temperature * gumbel).argmax(dim=-1)
        given = log_p.new_zeros(len(log_p), *first.shape[1:]).index_copy(
            0, roots, one_hot(label, first.shape[-1]).to(first)
        )
        theta, messages = propagation.balanced(self.unary(log_p).unsqueeze(1).expand(-1, count, -1))
        most = asking_iterations(propagation.edges, theta.shape[-1])
        beliefs = propagation.beliefs(theta, given, most, messages)
        return sampler.sample(theta, beliefs, given, SWEEPS, noise.generator)

    def surest(self, log_p: Tensor) -> Tensor:
        """The node of each component with the largest probability of a class; of equals the first."""
        doubt = -log_p.amax(dim=-1).numpy().round(6)
        component = self.component[self.rows].numpy()
        order = np.lexsort((doubt, component))
        return torch.from_numpy(order[np.unique(component[order], return_index=True)[1]])

    def unary(self, log_p: Tensor) -> Tensor:
        """theta of joint labellings (rows, classes): none in components whose marginals hardly differ from their mean.

        A faint preference would count once for every node of the component, and decide all of their labels together.
        """
        component, count = self.component[self.rows], int(self.component.max()) + 1
        size = component.bincount(minlength=count).clamp_min(1)
        mean = log_p.new_zeros(count, log_p.shape[-1]).index_add(0, component, log_p.exp()) / size.unsqueeze(1)
        divergence = (log_p.exp() * (log_p - mean.clamp_min(LEAST).log()[component])).sum(dim=-1)
        told = log_p.new_zeros(count).index_add(0, component, divergence) / size
        return log_p * (told >= FAINT)[component].unsqueeze(1)
