"""How many files of the package a reader meets on the way of a prediction and of a training step.

`python -m benchmarks.files_crossed` fits a small classifier, records with a profiler which files have functions that
run during `predict(known=...)` and during a training step, and prints both lists. What is imported or fitted before
does not count.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import dpmsnc
from dpmsnc import NodeClassifier, Sampling, Training
from dpmsnc.data.grids import grid_scattered

PACKAGE = Path(dpmsnc.__file__).parent
STEP = ("draw", "update")
"""What a training step consists of: where it is not part of the update, drawing what the network is given."""


class FilesCrossed:
    """Inside the block, collects the files of the package whose functions run; of imports, only what they call.

    With `during`, only while functions of those names in the folder `training` run, the last call of each.
    """

    def __init__(self, *during: str) -> None:
        self.during = during
        self._found: dict[str, set[str]] = {"": set()}
        self._outermost: FrameType | None = None

    @property
    def files(self) -> set[str]:
        return set().union(*self._found.values())

    def __enter__(self) -> FilesCrossed:
        sys.setprofile(self._notice)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)

    def _notice(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "return" and frame is self._outermost:
            self._outermost = None
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PACKAGE):
            return
        name, function = str(path.relative_to(PACKAGE)), frame.f_code.co_name
        if self._outermost is None and function in self.during and name.startswith("training"):
            self._outermost, self._found[function] = frame, set()
        if not self.during:
            self._found[""].add(name)
        elif self._outermost is not None:
            self._found[self._outermost.f_code.co_name].add(name)


def measure() -> dict[str, list[str]]:
    """The files crossed by each of the two, sorted."""
    task = grid_scattered(columns=20)
    clf = NodeClassifier(training=Training(steps=4, refresh_every=2, evaluate_every=2), sampling=Sampling(steps=2))

    def fit() -> None:
        clf.fit(task.graph, validation=task.validation)

    fit()  # imports what is imported when first used
    with FilesCrossed(*STEP) as step:
        fit()
    known = {task.graph.ids[node]: task.graph.classes[task.truth[node]] for node in task.test.nonzero()[0][:3]}
    with FilesCrossed() as prediction:
        clf.predict(known=known)
    return {"predict(known=...)": sorted(prediction.files), "a training step": sorted(step.files)}


def main() -> None:
    for work, files in measure().items():
        print(f"{work} crosses {len(files)} files:", *files, sep="\n  ")


if __name__ == "__main__":
    main()
