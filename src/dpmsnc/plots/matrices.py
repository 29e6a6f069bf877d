"""Matrices of numbers on the edges of a complete graph, along the steps of a reverse process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

SIDE = 1.5
"""Inches of a matrix."""


def draw_trajectories(trajectories: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Two lines for every run by name: attributes, answer and estimates from noise to the prediction; their errors.

    A trajectory has `attributes`, `answer` and `prediction`, and `steps` with a time `t` and an `estimate` each.
    """
    if not trajectories:
        return Figure()
    width, height = 3 + max(len(one["steps"]) for one in trajectories.values()), 2 * len(trajectories)
    figure = Figure(figsize=(SIDE * width, SIDE * height), layout="constrained")
    axes = figure.subplots(height, width, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for k, (name, one) in enumerate(trajectories.items()):
        answer = np.asarray(one["answer"])
        shown = [("attributes", one["attributes"]), ("answer", answer)]
        estimates = [(f"t = {step['t']}", step["estimate"]) for step in one["steps"]]
        estimates.append(("prediction", one["prediction"]))
        scale = {"vmin": answer.min(), "vmax": answer.max(), "cmap": "viridis"}
        for ax, (title, matrix) in zip(axes[2 * k], shown + estimates):
            ax.imshow(np.asarray(matrix), **scale)
            ax.set_title(title, fontsize=8)
        for ax, (_, matrix) in zip(axes[2 * k + 1][len(shown) :], estimates):
            error = np.asarray(matrix) - answer
            ax.imshow(np.abs(error), vmin=0, vmax=np.ptp(answer) / 4 or 1, cmap="Reds")
            ax.set_title(f"mse {np.square(error).mean():.5f}", fontsize=8)
        axes[2 * k + 1][0].text(0, 0.5, name, fontsize=8, transform=axes[2 * k + 1][0].transAxes)
    return figure
