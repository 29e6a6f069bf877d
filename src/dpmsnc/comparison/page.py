"""A comparison as one page: what to take, the leaderboard, the recommended method class by class, and the graph."""

from __future__ import annotations

from math import inf

from dpmsnc.comparison.leaderboard import METRICS, Comparison
from dpmsnc.plots import figures
from dpmsnc.plots.diagrams import plot_intervals, plot_reliability
from dpmsnc.plots.html import Page, Picture


def comparison_page(found: Comparison, title: str = "Which method suits this graph") -> Page:
    """The page, not written yet."""
    page = Page(title, broad=True).lead(found.recommendation)
    if found.on_diffusion:
        page.paragraph(found.on_diffusion)
    page.heading("Leaderboard").table(found.header, found.cells).notes(found.notes)
    page.figures(*pictures(found))
    add_classes(page, found)
    page.heading("Methods").notes([f"{row.name}: {row.contestant.what or 'as asked for'}" for row in found.rows])
    page.paragraph(f"To fit the recommended one: dpmsnc fit ... {found.choice.contestant.flags}")
    page.heading("Graph").preformatted(str(found.graph.summary()))
    return page


def pictures(found: Comparison) -> list[Picture]:
    """Intervals of the figure that the recommendation goes by, and what probabilities are worth."""
    shown = METRICS[found.by]
    estimates = {row.name: row.estimate(found.by) for row in found.ranked}
    means = {name: shown.scale * estimate.mean for name, estimate in estimates.items()}
    reaches = [shown.scale * estimate.reach for estimate in estimates.values()]
    unit = f"{shown.title}, %" if shown.scale == 100 else shown.title
    intervals = plot_intervals(means, reaches, unit, (0, 100) if shown.scale == 100 else (0, inf))
    proba, truth = found.answers([found.recommended, found.best.name])
    return [
        Picture(figures.svg(intervals), f"{unit} of every method with its interval", "Means with 95 % intervals."),
        Picture(
            figures.svg(plot_reliability(proba, truth)),
            "Reliability diagram",
            "How often answers are right, against their probability. On the dashed line the two agree.",
        ),
    ]


def add_classes(page: Page, found: Comparison) -> None:
    """The recommended method class by class."""
    report = found.report()
    page.heading(f"Class by class: {found.recommended}")
    rows = [
        [name, *(f"{100 * row[key]:.1f}" for key in ("precision", "recall", "f1")), f"{row['nodes']:,}"]
        for name, row in report.by_class.items()
    ]
    page.table(["class", "precision, %", "recall, %", "F1, %", "labels"], rows)
    page.note(f"The most frequent class alone would have an accuracy of {100 * report.majority.value:.1f} %.")
    page.figures(Picture(figures.svg(report.plot()), "Confusion matrix", "Labels of all splits, each asked for once."))
