"""What a model that is being trained would answer, so that weights are chosen by the answers that users get."""

from __future__ import annotations

import torch
from torch import Tensor

from dpmsnc.diffusion.posterior import Posterior
from dpmsnc.metrics import Metric, best_threshold
from dpmsnc.targets import Tags


def answered(posterior: Posterior, labels: Tensor, validation: Tensor, generator: torch.Generator) -> Tensor:
    """The labels (rows, ...) that are answered; tags are those above the threshold that suits validation rows best."""
    temperature = posterior.sampling.temperature
    if not isinstance(posterior.target, Tags):
        return posterior.sample(1, temperature, generator).squeeze(1)
    marginals = posterior.marginals(1, temperature, generator).double()
    threshold, _ = best_threshold(marginals.cpu().numpy(), labels.cpu().numpy(), validation.cpu().numpy())
    return (marginals > threshold).long()


def gain_of_marginals(
    metric: Metric, posterior: Posterior, labels: Tensor, validation: Tensor, generator: torch.Generator
) -> float:
    """A metric of the marginals of validation rows, the higher the better."""
    marginals = posterior.marginals(1, posterior.sampling.temperature, generator).double()
    return metric.gain(*(part.cpu().numpy() for part in (marginals, labels, validation)))
