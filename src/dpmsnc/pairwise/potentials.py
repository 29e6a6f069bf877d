r"""The pairwise model

    p(y | G) ~ prod_i exp(theta_i(y_i)) prod_{i-j} exp(s_ij H(y_i, y_j)),

    theta_i(c) = sum_m a_m log p_mi(c) + b_c,    H = J (I - 1/C) + R,  R symmetric,    s_ij = (d_i d_j / g)^(-gamma/2),

with p_mi the class probabilities of base models m that look at every node on its own. J alone says how much neighbours
agree (J > 0) or differ (J < 0); R is the rest of the compatibilities of C classes. With J = R = 0 nodes are independent
and what is left is a logarithmic pool of the base models, calibrated by a and b.

Base models that smooth over neighbours know most of what couplings would say, and together they say it twice.
*Balanced* couplings, with H = J (I - 1/C), say nothing that base models did not know. From the unaries are subtracted
the messages of neighbours that are as the base models have them (`dpmsnc.pairwise.propagation`), so that the beliefs
are softmax(theta_i) given the labels that base models learned from. Any other known label changes its neighbours by as
much as it surprises.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Coupling = Literal["none", "one", "balanced", "full"]
LEAST = 1e-6
"""Probabilities of the base model below count as this: it may rule no class out."""
SURE = 1e6
"""Logit of a label that is known: more than all neighbours of a hub together may say against it."""


class Potentials(nn.Module):
    """a, b, J, R and gamma, all learned unless `coupling` leaves them out."""

    def __init__(
        self, num_classes: int, coupling: Coupling = "one", J: float = 0.0, gamma: float = 0.5, num_bases: int = 1
    ) -> None:
        super().__init__()
        self.num_classes, self.coupling = num_classes, coupling
        self.a = nn.Parameter(torch.full((num_bases,), 1 / num_bases))
        self.b = nn.Parameter(torch.zeros(num_classes))
        self.J = nn.Parameter(torch.tensor(float(J)), requires_grad=coupling != "none")
        self.gamma = nn.Parameter(torch.tensor(float(gamma)), requires_grad=coupling != "none")
        self.R = nn.Parameter(torch.zeros(num_classes, num_classes), requires_grad=coupling == "full")

    @classmethod
    def like(cls, other: Potentials, coupling: Coupling) -> Potentials:
        """The same values with another kind of coupling."""
        result = cls(other.num_classes, coupling, num_bases=len(other.a))
        result.load_state_dict(other.state_dict())
        return result

    def unary(self, log_p: Tensor) -> Tensor:
        """theta (nodes, ..., classes) of log-probabilities (bases, nodes, ..., classes)."""
        return torch.tensordot(self.a, log_p, dims=1) + self.b

    @property
    def H(self) -> Tensor:
        eye = torch.eye(self.num_classes, device=self.J.device)
        return self.J * (eye - 1 / self.num_classes) + self.rest

    @property
    def rest(self) -> Tensor:
        """R, symmetric."""
        return (self.R + self.R.T) / 2

    @property
    def has_rest(self) -> bool:
        return self.coupling == "full"
