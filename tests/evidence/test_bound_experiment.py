"""The experiment on the bound: its distance between labellings in closed form, and that watching changes no run."""

from dataclasses import replace

import pytest
import torch

from dpmsnc.data import grid_scattered
from dpmsnc.evidence.experiments.ablations import bound
from dpmsnc.evidence.run.experiment import Row, Run
from dpmsnc.plots import figures

pytestmark = pytest.mark.usefixtures("brief_couplings")


def labellings(*entries):
    """Labellings of the two ends of a single edge, as (count, 2, 1)."""
    return torch.tensor(entries).unsqueeze(-1)


def test_the_distance_is_that_of_the_distributions_on_average():
    probabilities = torch.tensor([[0.5, 0.0, 0.0, 0.5], [0.25, 0.25, 0.25, 0.25]])  # of the pairs 00, 01, 10, 11
    exact = (probabilities[0] - probabilities[1]).square().sum().item()
    generator = torch.Generator().manual_seed(0)

    def draw(p):
        pair = torch.multinomial(p, 4 * 20_000, replacement=True, generator=generator).view(4, 20_000)
        return torch.stack([pair // 2, pair % 2], dim=1)  # four labellings of twenty thousand such edges

    assert bound.squared_distance(draw(probabilities[0]), draw(probabilities[1])) == pytest.approx(exact, abs=0.01)
    assert bound.squared_distance(draw(probabilities[0]), draw(probabilities[0])) == pytest.approx(0, abs=0.01)


def test_labellings_that_never_meet_are_two_apart_and_the_same_none():
    same, other = labellings((0, 1), (0, 1)), labellings((0, 0), (0, 0))
    assert bound.squared_distance(same, other) == 2 and bound.squared_distance(same, same) == 0


def test_watching_notes_every_evaluation_and_changes_nothing_else():
    grid = bound.ROWS[bound.PRINTED].build(0, "grid_scattered")
    assert (grid.schedule.num_steps, grid.hidden_channels, grid.training.steps) == (100, 16, bound.STEPS)
    training = replace(grid.training, steps=50, refresh_every=10, initialiser_refreshes=2, evaluate_every=20)
    row = Row("dpm-snc-paper", {"setting": "synthetic", "training": training})
    experiment = replace(
        bound.BOUND, rows={bound.PRINTED: row}, load=lambda _, seed: grid_scattered(columns=20, seed=seed)
    )
    watched = Run(experiment, "grid_scattered", bound.PRINTED, 0).execute()
    alone = Run(replace(experiment, watch=None), "grid_scattered", bound.PRINTED, 0).execute()
    noted = watched["metrics"].pop("training")
    assert [point["step"] for point in noted] == watched["validation_curve"]["steps"] == [20, 40, 50]
    assert alone["metrics"] == watched["metrics"] and alone["validation_curve"] == watched["validation_curve"]
    document = watched | {"row": bound.PRINTED, "metrics": {"training": noted}}
    assert bound.table([document]).rows[0][2] == f"{noted[0]['bound']:.3f}"
    assert [ax.get_title().partition(":")[0] for ax in bound.figure([document]).axes] == ["Scattered grid"] * 2
    assert figures.svg(bound.figure([document])).startswith(b"<?xml")
