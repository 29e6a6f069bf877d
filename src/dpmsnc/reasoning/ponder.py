r"""PonderNet (Banino et al. 2021), the "programmatic" baseline of table 5, with real halting.

    L = sum_n p_n |y - y_n|^2 + .01 KL(p || q),        q_n proportional to .2 (.8)^(n-1),  n = 1 .. N

where p_n is the probability that a graph is answered in round n, and q a geometric distribution that ends at the last
round. Every edge has the KL of its graph. At temperature 0 the answer is the expectation sum_n p_n y_n; at any other a
round is drawn for every graph. Du et al. 2022 average the error over all rounds in their code for graphs, where nothing
halts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpmsnc.config import LIMITS, check_number
from dpmsnc.diffusion.objective import Estimate, Objective
from dpmsnc.estimators.edge_regressor import DirectEdgeRegressor
from dpmsnc.nn.edges import EdgeTensors
from dpmsnc.nn.process import threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpmsnc.diffusion.posterior import Posterior
    from dpmsnc.diffusion.sampler import Callback

PRIOR_HALTS = 0.2
"""lambda_p: the probability to halt in a round under the prior."""
KL_WEIGHT = 0.01


def unpacked(output: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """The answers (rows, batch, rounds, channels) and log p_n (rows, batch, rounds) of a `PonderNetwork`."""
    rounds = output.shape[-1] // (channels + 1)
    answers, log_p = output.split([rounds * channels, rounds], dim=-1)
    return answers.unflatten(-1, (rounds, channels)), log_p


def log_prior(rounds: int) -> Tensor:
    """log q_n of a geometric distribution that ends after so many rounds."""
    q = PRIOR_HALTS * (1 - PRIOR_HALTS) ** torch.arange(rounds, dtype=torch.double)
    return (q / q.sum()).log()


def drawn_rounds(log_p: Tensor, u: Tensor) -> Tensor:
    """The rounds (rows, samples) in which numbers u (rows, samples) of [0, 1) halt, by log p_n (rows, 1, rounds)."""
    reached = log_p.softmax(dim=-1).cumsum(dim=-1)
    return (u.unsqueeze(-1) >= reached[..., :-1]).sum(dim=-1)


def uniform_by_graph(graph: EdgeTensors, count: int, generator: torch.Generator) -> Tensor:
    """Uniform numbers (rows, count), the same for all edges of a graph."""
    drawn = torch.rand(graph.part.num_graphs, count, generator=generator)
    return graph.part.to_rows(drawn.to(graph.device))[: graph.num_rows]


@dataclass(frozen=True)
class Pondering(Objective):
    """The expected loss and the divergence from the prior; the estimate is the expectation."""

    def loss(self, output: Tensor, y_0: Tensor, eps: Tensor, t: Tensor) -> Tensor:
        answers, log_p = unpacked(output, self.target.channels)
        p = log_p.exp()
        expected = (p * self.target.loss(answers, y_0.unsqueeze(2))).sum(dim=-1)
        return expected + KL_WEIGHT * (p * (log_p - log_prior(p.shape[-1]).to(p))).sum(dim=-1)

    def estimate(self, output: Tensor, y_t: Tensor, t: Tensor | int) -> Estimate:
        answers, log_p = unpacked(output, self.target.channels)
        return super().estimate((log_p.exp().unsqueeze(-1) * answers).sum(dim=2), y_t, t)


class PonderRegressor(DirectEdgeRegressor):
    """Regression in rounds, in any of which a graph may be answered; its network is "ponder"."""

    def _objective(self) -> Objective:
        return Pondering(self.schedule, self.parameterisation, self.training.weighting, self.process, self._modelled)

    def _draw(
        self,
        asked: Any,
        num_samples: int,
        temperature: float,
        seed: int | torch.Generator | None,
        clamp_known: bool = True,
        callback: Callback | None = None,
    ) -> NDArray[Any]:
        if temperature == 0:
            return super()._draw(asked, num_samples, temperature, seed, clamp_known, callback)
        check_number("num_samples", num_samples, 1, LIMITS["num_samples"], whole=True)
        check_number("temperature", temperature, 0)
        said = self._said(asked)
        with threads(self.threads), torch.no_grad():
            posterior = self._posterior(asked, said=said)
            drawn = said + self._of_drawn_rounds(posterior, num_samples, temperature, self._generator(seed))
        if clamp_known:
            drawn[:, asked.known] = asked.y[asked.known]
        return drawn

    def _of_drawn_rounds(
        self, posterior: Posterior, num_samples: int, temperature: float, generator: torch.Generator
    ) -> NDArray[Any]:
        """Answers (num_samples, rows) of rounds that are drawn by p_n, a round for every graph."""
        denoiser: Any = posterior.denoiser
        graph: Any = posterior.context.graph
        shown = posterior.known if denoiser.shows_known else None
        output = denoiser(torch.zeros_like(posterior.known.y), self.schedule.num_steps, posterior.context, shown)
        answers, log_p = unpacked(output, self.target_.channels)
        u = uniform_by_graph(graph, num_samples, generator)
        rounds = drawn_rounds(log_p / temperature, u).unsqueeze(-1).expand(-1, -1, self.target_.channels)
        return self._modelled.nearest(answers.squeeze(1).gather(1, rounds)).T.cpu().numpy()
