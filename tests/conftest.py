"""What several tests share: the shared data folder beside the repository, one loaded annotator, one picture."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
import torch

from discodvt.discourse import Annotator

torch.set_num_threads(1)  # `make test` runs a process on every core
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of corpora beside the repository; tests that need it are skipped where it is not."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the shared data folder beside the repository")
    return folder


@pytest.fixture(scope="session")
def annotator() -> Annotator:
    return Annotator()


@pytest.fixture(scope="session", autouse=True)
def _curves_are_drawn_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A training in a test takes less time than its `training.png`: journals of the same figures share one picture.

    It is kept in a file, for the processes that tests fork.
    """
    if "discodvt.training.run" not in sys.modules:  # no test here trains
        yield
        return
    from discodvt.training import outputs, run

    pictures = tmp_path_factory.mktemp("pictures")

    def plot(directory: Path) -> Path:
        names = {name for line in outputs.read_metrics(directory / outputs.METRICS) for name in line}
        kept = pictures / f"{crc32(' '.join(sorted(names)).encode())}.png"
        if not kept.exists():
            outputs.plot(directory).replace(kept)
        return Path(shutil.copy(kept, directory / "training.png"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "plot", plot)
        yield
