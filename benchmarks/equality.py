"""Whether reference and package give the same results: what makes it fair to compare their times.

Without dropout, from the same weights, labels, times and noise: in double precision the loss, all gradients and the y
of samples agree to 1e-6 of their size; in single precision samples give 99.9 % of the nodes the same class.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.ours import Ours
from benchmarks.problem import Problem
from benchmarks.reference import Reference, Shown
from benchmarks.weights import gradients

TOLERANCE, SAME_CLASS = 1e-6, 0.999


class Unequal(Exception):
    """Reference and package disagree, so that their times must not be compared."""


def check_train_step(problem: Problem) -> float:
    """The largest difference of the loss and of any gradient, by their size."""
    problem = replace(problem, dropout=0.0, dtype=torch.float64)
    ours, reference = Ours(problem), Reference(problem)
    trainer = ours.recorded_trainer()
    trainer.update(trainer.source.draw())
    y_0, t, eps = trainer.objective.corrupted[-1]
    known = trainer.source.shown
    shown = [known and Shown(known.mask[:, k : k + 1], known.y[:, k]) for k in range(len(t))]
    loss = reference.descend(y_0.transpose(0, 1), t.tolist(), eps.transpose(0, 1), shown)
    differences = [demand_close("loss", torch.tensor(trainer.loss), torch.tensor(loss))]
    for name, (own, other) in gradients(ours.denoiser, reference.network).items():
        differences.append(demand_close(f"gradient of {name}", own, other))
    return max(differences)


def check_sample(problem: Problem, steps: int | None = None) -> float:
    """The share of nodes with the same class, of the whole reverse process or of a shorter one with so many steps."""
    own, other = both_samples(replace(problem, dtype=torch.float64), steps)
    demand_close("y of a sample", own, other)
    own, other = both_samples(problem, steps)
    same = (own.argmax(dim=-1) == other.argmax(dim=-1)).double().mean().item()
    if same < SAME_CLASS:
        raise Unequal(f"samples agree on {same:.4%} of the nodes in single precision")
    return same


def both_samples(problem: Problem, steps: int | None) -> tuple[Tensor, Tensor]:
    """The last y of package and reference, both (samples, nodes, classes), from the same noise."""
    own, drawn = Ours(problem).recorded_sample(steps)
    replay = iter(drawn)

    def stacked(like: Tensor) -> Tensor:
        z = next(replay).clone()  # drawn in inference mode, which autograd would refuse
        if len(z) < len(problem.train):  # for the projection the package draws noise on known nodes only
            everywhere = z.new_zeros(len(problem.train), *z.shape[1:])
            everywhere[problem.train] = z
            z = everywhere
        return z.transpose(0, 1).reshape(like.shape)

    other = Reference(problem).sample(steps, stacked)
    return own.transpose(0, 1), other


def demand_close(what: str, own: Tensor, other: Tensor) -> float:
    """The largest difference by the largest entry; raise `Unequal` unless it is within the tolerance."""
    difference, size = (own - other).abs().max().item(), other.abs().max().item()
    relative = difference / max(size, TOLERANCE)
    if not relative <= TOLERANCE:
        raise Unequal(f"{what}: package and reference differ by {difference:.2g} where the largest entry is {size:.2g}")
    return relative
