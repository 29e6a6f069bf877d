from benchmarks.files_crossed import FilesCrossed, measure

from dpmsnc.config import check_number


def test_a_file_counts_once_one_of_its_functions_runs():
    with FilesCrossed() as crossed:
        check_number("n", 1, 0)
        check_number("n", 2, 0)
    check_number("n", 1, 0)
    assert crossed.files == {"config.py"}


def test_a_function_outside_the_step_does_not_count():
    with FilesCrossed("update") as crossed:
        check_number("n", 1, 0)
    assert crossed.files == set()


def test_a_prediction_samples_and_a_step_learns():
    prediction, step = (set(files) for files in measure().values())
    shared = {"nn/denoiser.py", "nn/backbones/gcn.py", "diffusion/objective.py"}
    assert shared | {"estimators/node_classifier.py", "diffusion/sampler.py"} <= prediction
    assert shared | {"training/optimiser.py", "training/gradient.py"} <= step
    assert "baselines/crf.py" in prediction  # the initialiser is asked again
    assert not any(name.startswith(("training", "evidence")) for name in prediction)
    assert not any(name.startswith(("estimators", "baselines", "evidence")) for name in step)
