r"""The noise schedule of the forward process (paper, section 4, "Parameterization").

    q(y_t | y_{t-1}) = N(y_t; sqrt(1 - beta_t) y_{t-1}, beta_t I),        t = 1 .. T
    alpha_t = 1 - beta_t,     alpha_bar_t = prod_{i<=t} alpha_i,           alpha_bar_0 = 1
    q(y_t | y_0)  = N(y_t; sqrt(alpha_bar_t) y_0, (1 - alpha_bar_t) I)

The paper asks for beta_1 < ... < beta_T = 1. With beta_T = 1 the reverse mean divides by sqrt(alpha_T) = 0, so the
last beta is held at `beta_max`; the first ones are held at `beta_min`, without which a label would be denoised
with almost no noise in it. All arrays have length T + 1 and are indexed by t itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpmsnc.config import LIMITS, check_choices, check_range
from dpmsnc.errors import InputError

Array = NDArray[Any]


@dataclass(frozen=True)
class Schedule:
    """Noise levels of a diffusion with `num_steps` steps.

    Example:
        >>> schedule = Schedule(num_steps=80)
        >>> schedule.alpha_bar[0], bool(schedule.alpha_bar[80] < 1e-5)
        (1.0, True)
    """

    num_steps: int = 80
    """T, the number of steps of the forward process."""
    kind: Literal["cosine", "linear"] = "cosine"
    """Cosine (Nichol and Dhariwal 2021) as the authors use it, or linear in beta (Ho et al. 2020, rescaled to T)."""
    offset: float = 0.015
    """s of the cosine schedule: keeps beta_1 away from zero. The authors' value."""
    beta_min: float = 1e-3
    """The smallest beta."""
    beta_max: float = 0.999
    """The named clamp at T: the paper's beta_T = 1 divides by zero."""
    variance: Literal["beta", "posterior"] = "beta"
    """sigma_t^2 of the reverse step: beta_t as in the paper, or the variance of q(y_{t-1} | y_t, y_0)."""

    def __post_init__(self) -> None:
        check_choices(self)
        check_range(self, num_steps=(2, LIMITS["num_steps"]), offset=(0, np.inf))
        if not 0 < self.beta_min < self.beta_max < 1:
            raise InputError(f"need 0 < beta_min < beta_max < 1, got {self.beta_min} and {self.beta_max}")

    @cached_property
    def beta(self) -> Array:
        T = self.num_steps
        if self.kind == "cosine":
            f = np.cos((np.arange(T + 1) / T + self.offset) / (1 + self.offset) * np.pi / 2) ** 2
            beta = 1 - f[1:] / f[:-1]
        else:
            beta = np.linspace(0.1 / T, min(20 / T, self.beta_max), T)
        return np.concatenate([[0.0], np.clip(beta, self.beta_min, self.beta_max)])

    @cached_property
    def alpha(self) -> Array:
        return 1 - self.beta

    @cached_property
    def alpha_bar(self) -> Array:
        return np.cumprod(self.alpha)

    @cached_property
    def signal(self) -> Array:
        """sqrt(alpha_bar_t): how much of y_0 is left in y_t."""
        return np.sqrt(self.alpha_bar)

    @cached_property
    def noise(self) -> Array:
        """sqrt(1 - alpha_bar_t): standard deviation of the noise in y_t."""
        return np.sqrt(1 - self.alpha_bar)

    @cached_property
    def sigma(self) -> Array:
        """Standard deviation of the reverse step from t to t - 1."""
        if self.variance == "beta":
            return np.sqrt(self.beta)
        posterior = np.zeros(self.num_steps + 1)
        posterior[2:] = self.beta[2:] * (1 - self.alpha_bar[1:-1]) / (1 - self.alpha_bar[2:])
        posterior[1] = posterior[2]  # zero by the formula, which would make the last step a point mass
        return np.sqrt(posterior)

    @cached_property
    def bound_weight(self) -> Array:
        r"""beta_t^2 / (2 sigma_t^2 alpha_t (1 - alpha_bar_t)): what the exact bound multiplies the squared error of
        epsilon at t with. For T = 80 it runs from 499 at t = T down to .04 in the middle; the paper sets it to 1.
        """
        weight = np.zeros(self.num_steps + 1)
        t = slice(1, None)
        weight[t] = self.beta[t] ** 2 / (2 * self.sigma[t] ** 2 * self.alpha[t] * (1 - self.alpha_bar[t]))
        return weight

    def grid(self, steps: int | None = None) -> list[int]:
        """The times T = t_0 > t_1 > ... > 0 that a sampler with `steps` evaluations visits, evenly spaced."""
        steps = self.num_steps if steps is None else steps
        if not 1 <= steps <= self.num_steps:
            raise InputError(f"steps must lie between 1 and num_steps={self.num_steps}, got {steps}")
        return [int(t) for t in np.round(np.linspace(self.num_steps, 0, steps + 1))]
