"""What several tests share: the shared data folder beside the repository, one loaded annotator, one picture."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from program import start_server, stay

from discodvt.discourse import Annotator

torch.set_num_threads(1)  # `make test` runs a process on every core
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # tests fork
ROOT = Path(__file__).resolve().parent.parent


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a quarter of the time tests wait, for browsers, stores and clusters."""
    return len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of the Ray cluster come first: they take minutes in one process, and others help it with the rest."""
    items.sort(key=lambda item: item.path.name != "test_ray.py")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where a test will want the server of `program`, it is made before any test has run."""
    items = [] if session.config.option.collectonly else session.items
    wanted = {"warm_workers", "pair"}
    if any(hasattr(item.module, "Started") or wanted & {*item.fixturenames} for item in items):  # type: ignore[attr-defined]
        start_server()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of corpora beside the repository; tests that need it are skipped where it is not."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the shared data folder beside the repository")
    return folder


@pytest.fixture
def warm_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes come from the server of `program`; they know as little of this process as those of users."""
    from discodvt.executors import local
    from discodvt.experiments.grid_run import _context

    monkeypatch.setattr(local, "get_context", lambda method: _context())
    monkeypatch.setattr(local, "end_with", stay)


@pytest.fixture(scope="session")
def annotator() -> Annotator:
    return Annotator()


@pytest.fixture(scope="session", autouse=True)
def _curves_are_drawn_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A training in a test takes less time than its `training.png`: all have that of the first.

    It is kept in a file, for the processes that tests fork.
    """
    if "discodvt.training.run" not in sys.modules:  # no test here trains
        yield
        return
    from discodvt.training import outputs, run

    kept = tmp_path_factory.mktemp("pictures") / "training.png"

    def plot(directory: Path) -> Path:
        if not kept.exists():
            outputs.plot(directory).replace(kept)
        return Path(shutil.copy(kept, directory / "training.png"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "plot", plot)
        yield
