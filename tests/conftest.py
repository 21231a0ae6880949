"""What several tests share: the shared data folder beside the repository, and one loaded annotator."""

from pathlib import Path

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
