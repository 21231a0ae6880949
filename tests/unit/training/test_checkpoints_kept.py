"""Which checkpoints a run keeps, so that a killed one returns to its last and still knows its best."""

from pathlib import Path

import pytest

from discodvt.training.outputs import Checkpoints


def written(directory: Path, *names: str) -> Checkpoints:
    for name in names:
        (directory / name).mkdir()
    return Checkpoints(directory)


@pytest.mark.parametrize(
    ("there", "new", "kept"),
    [
        (["best-5", "last-7"], "best-10", ["best-10", "best-5", "last-7"]),  # a resumed run is at step 7
        (["best-5", "last-7", "best-10"], "best-12", ["best-12", "best-5", "last-7"]),
        (["best-5", "last-7", "best-10"], "last-14", ["best-10", "last-14"]),
        (["best-5"], "best-10", ["best-10"]),
    ],
)
def test_the_best_of_the_last_checkpoint_stays_until_the_next(tmp_path, there, new, kept):
    written(tmp_path, *there, new)._drop_superseded(new.partition("-")[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == kept


def test_a_resumed_run_forgets_what_came_after_its_last_checkpoint(tmp_path):
    checkpoints = written(tmp_path, "best-20", "last-20", "best-35")
    checkpoints.return_to_last()
    assert checkpoints.newest("best") == tmp_path / "best-20"
    (tmp_path / "last-20").rmdir()
    checkpoints.return_to_last()
    assert checkpoints.newest("best") is None
