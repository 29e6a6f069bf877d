r"""`training/corrected.py` for tags: a network corrects the log-odds of every tag that its initialiser has,

    log-odds_theta(y_t, t, G, known) = theta + e(y_t) + correction_theta(y_t, t, G, known).

The network sees the known tags of neighbours, and how tags go together, which the initialiser, tag by tag, does not.
Weights are chosen by the likelihood of all tags of a validation node, and the initialiser is one of the choices.
"""

from __future__ import annotations

from torch import Tensor

from dpmsnc.training.corrected import Corrected


class CorrectedTags(Corrected):
    """The source of Algorithm 1 on labellings of tags."""

    def log_likelihood(self, log_odds: Tensor, y: Tensor) -> Tensor:
        return -self.target.loss(log_odds, y.to(log_odds))

    def likelihood(self) -> float:
        """Geometric mean of the calibrated probabilities of tags, those that are there and those that are not."""
        return super().likelihood() ** (1 / self.target.channels)

    def exam_answers(self) -> Tensor:
        return self.exam_outputs()
