"""`dpmsnc tune`: a search for the settings of a method on a data set, by validation labels alone.

Every trial is scored on the same seeds, which no table reports (100 and up), by the weights that each fit keeps
(`scored_by`); of equals the cheaper one wins. Test labels of these splits are out of reach (`VisibleTask`), but where
splits are drawn on one graph, what the search sees may be test labels of a reported split.

The first trial is the method's defaults, from the initialiser and with the fixed settings that all trials have: a
search cannot end below it. Then come `Search.first`, of which a short search learns most. Each further trial is drawn
by TPE from the finished ones, with a seed of its own: a search that was stopped goes on as if it had not been. Trials
live in a sqlite file of numbers and JSON (nothing is pickled), and count once they are finished or pruned.

What wins on one seed is partly luck. Where final seeds are given, the defaults and the best trials are fitted again on
each of those, and the mean over all seeds decides. Who fills the first buffer is not searched for: a few hundred
validation nodes do not tell initialisers apart by accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmsnc.data import Task, load
from dpmsnc.errors import InputError
from dpmsnc.evidence.run.document import Cost, versions
from dpmsnc.evidence.run.estimators import backbone_of
from dpmsnc.evidence.run.settings import flat
from dpmsnc.evidence.search.config_files import Config
from dpmsnc.evidence.search.search import Search
from dpmsnc.evidence.search.trial import VisibleTask, import_optuna, mean_score, prepared, validation_score
from dpmsnc.plots.html import make_folder

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

WARM_UP = 300
"""Training steps before which no trial is pruned."""
TRIES = 1000
"""Random draws in search of a trial that was not run yet; where a space is used up, one is run twice."""
FINALISTS = 5
"""How many trials are scored on further seeds, beside the default."""


def tune(
    search: Search,
    trials: int = 20,
    results: Path = Path("results"),
    out: Path = Path("configs"),
    load: Callable[..., Task] = load,
) -> Path:
    """Run the trials that are missing, and write the best configuration of the first `trials` that finished to the
    folder `out`; the study lies in `results` under `tune`."""
    if trials < 1:
        raise InputError(f"a search of {trials} trials finds nothing; ask for at least 1")
    import_optuna()  # complains before anything is made, as the space does
    space_size = len(search.space)
    visible = {seed: VisibleTask.of(load(search.dataset, seed=seed)) for seed in search.seeds}
    study = open_study(search, results / "tune" / search.path.with_suffix(".sqlite"))
    done = len(finished(study))
    print(f"{search.path.with_suffix('')}: {min(done, trials)} of {trials} trials finished, {space_size} settings vary")
    try:
        while done < trials:
            number = next_trial(search, study, visible)
            done = len(finished(study))
            print(f"[{done}/{trials}] {outcome(search, study.trials[number])}", flush=True)
        counted = finished(study)[:trials]
        scores = final_scores(search, study, counted, load)
    except KeyboardInterrupt:
        print(f"\ninterrupted: {done} of {trials} trials are finished; the same command goes on from here")
        raise
    config = result(search, scores, counted)
    path = config.write(out)
    gain = 100 * (config.validation_score - config.default_validation_score)
    best = f"validation {search.score} {100 * config.validation_score:.2f} %"
    print(f"best: {best}, {gain:+.2f} points over the first trial, in {path}")
    return path


def open_study(search: Search, path: Path) -> Study:
    """The study of a search in a sqlite file, made where it is missing."""
    optuna = import_optuna()
    from sqlalchemy.exc import SQLAlchemyError

    make_folder(path.parent)
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=WARM_UP)
        return optuna.create_study(
            storage=storage, study_name=search.name, direction="maximize", pruner=pruner, load_if_exists=True
        )
    except SQLAlchemyError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} cannot hold the trials ({reason}); remove it or name another folder") from error


def finished(study: Study) -> list[FrozenTrial]:
    """Trials that have a score or were pruned, in the order of their start; one that was killed is neither."""
    return [trial for trial in study.trials if trial.state.name in ("COMPLETE", "PRUNED")]


def next_trial(search: Search, study: Study, visible: dict[int, VisibleTask]) -> int:
    """Run one more trial to its end; its number."""
    optuna = import_optuna()
    tried = [trial.params for trial in finished(study)]
    first = [chosen for chosen in search.first if chosen not in tried]
    if first and not any(trial.state.name == "WAITING" for trial in study.trials):
        study.enqueue_trial(first[0])
    trial = draw(search, study)
    try:
        models = [prepared(search, seed, trial.params, seen) for seed, seen in visible.items()]
        with Cost() as cost:
            score = mean_score(models, list(visible.values()), trial)
    except optuna.TrialPruned:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    except BaseException:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        raise
    else:
        trial.set_user_attr("cpu_s", round(cost.cpu_s, 2))
        study.tell(trial, score)
    return trial.number


def draw(search: Search, study: Study) -> Trial:
    """The next trial: TPE's proposal, or where that was tried before, a random one that was not. It is seeded by what
    is finished, and blind to trials that were killed, so that these are drawn again."""
    optuna = import_optuna()
    tried = [trial.params for trial in finished(study)]
    rng = np.random.default_rng([search.seed, len(tried)])
    study.sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**32)), constant_liar=False)
    space = {name: optuna.distributions.CategoricalDistribution(choices) for name, choices in search.space.items()}
    trial = study.ask(space)
    chosen = trial.params
    for _ in range(TRIES):
        if chosen not in tried:
            break
        chosen = {name: choices[rng.integers(len(choices))] for name, choices in search.space.items()}
    if chosen != trial.params:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)  # not counted
        study.enqueue_trial(chosen)
        trial = study.ask(space)
    return trial


def final_scores(
    search: Search, study: Study, trials: Sequence[FrozenTrial], load: Callable[..., Task] = load
) -> dict[int, float]:
    """The mean scores over all seeds by number of trial: first of the default, then of the best trials, the cheaper one
    before its equals. Without final seeds, those of all trials that have a score."""
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    if not search.final_seeds:
        return {trial.number: trial.value or 0.0 for trial in complete}
    finalists = complete[:1]
    for trial in sorted(complete, key=lambda trial: (-(trial.value or 0.0), trial.user_attrs["cpu_s"])):
        if len(finalists) <= FINALISTS and trial.params not in [other.params for other in finalists]:
            finalists.append(trial)
    scores = {trial.number: [trial.value or 0.0] * len(search.seeds) for trial in finalists}
    for seed in search.final_seeds:
        seen = VisibleTask.of(load(search.dataset, seed=seed))
        for trial in finalists:
            scores[trial.number].append(final_score(search, study, trial, seed, seen))
    return {number: fmean(values) for number, values in scores.items()}


def final_score(search: Search, study: Study, trial: FrozenTrial, seed: int, seen: VisibleTask) -> float:
    """Of a trial on one more seed; kept with the study, so that nothing is fitted twice."""
    name = f"trial {trial.number} on seed {seed}"
    if name not in study.user_attrs:
        score = validation_score(prepared(search, seed, trial.params, seen), seen)
        study.set_user_attr(name, score)
        print(f"[final] seed {seed}: {search.score} {100 * score:.2f} %: {search.described(trial.params)}", flush=True)
    return float(study.user_attrs[name])


def result(search: Search, scores: dict[int, float], trials: Sequence[FrozenTrial]) -> Config:
    """The best of those that were scored, of which the first is the default; of equals the cheaper one."""
    scored = [trial for trial in trials if trial.number in scores]
    best = max(scored, key=lambda trial: (scores[trial.number], -trial.user_attrs["cpu_s"]))
    return Config(
        method=search.method,
        backbone=backbone_of(search.default(0)),
        dataset=search.dataset,
        settings=search.settings(best.params),
        validation_score=round(scores[best.number], 6),
        default_validation_score=round(next(iter(scores.values())), 6),
        trials=len(trials),
        seeds=list(search.seeds),
        final_seeds=list(search.final_seeds),
        score=search.score,
        fixed=list(flat(search.fixed)),
        tried=[entry(search, trial, scores.get(trial.number)) for trial in trials],
        versions=versions(),
    )


def entry(search: Search, trial: FrozenTrial, over_all_seeds: float | None) -> dict[str, Any]:
    """What a configuration keeps of a trial, so that others can see what was tried."""
    kept: dict[str, Any] = {"changed": search.changed(trial.params)}
    if trial.state.name == "PRUNED":
        return kept | {"pruned_at": trial.last_step}
    kept |= {"validation_score": round(trial.value or 0.0, 6), "cpu_s": trial.user_attrs["cpu_s"]}
    if search.final_seeds and over_all_seeds is not None:
        kept["over_all_seeds"] = round(over_all_seeds, 6)
    return kept


def outcome(search: Search, trial: FrozenTrial) -> str:
    """A finished trial in a line."""
    settings = search.described(trial.params)
    if trial.state.name == "PRUNED":
        return f"pruned at step {trial.last_step}: {settings}"
    score, cost = 100 * (trial.value or 0.0), trial.user_attrs["cpu_s"]
    return f"{search.score} {score:.2f} %, {cost:.0f} CPU-seconds: {settings}"
