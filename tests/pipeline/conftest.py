"""What several tests train on, and a store for all that read and write `s3://`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline.toy_store import BUCKET, Store

from discodvt import remote_lock, storage
from discodvt.storage import locate


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from pipeline.toy_models import make_home

    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def pair() -> Iterator[object]:
    """The `Pair` of all tests that want one."""
    from pipeline.trainings import Pair

    started = Pair()
    yield started
    started.end()


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    started = Store()
    settings = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": started.url,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        started.make_bucket()
        yield started
    started.server.shutdown()
    storage._connect.cache_clear()


@pytest.fixture
def place(store: Store, request: pytest.FixtureRequest) -> Path:
    """A folder of the store for one test."""
    return locate(f"s3://{BUCKET}/{request.node.name}")


@pytest.fixture(scope="module")
def impatient_probe() -> Iterator[None]:
    """A probe that gives up early: the latents of random weights tell it nothing."""
    from discodvt.evaluation.codes import probe

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "LOOK_EVERY_STEPS", 5)
        yield


@pytest.fixture
def quick_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A killed run is soon taken for dead; what is mirrored from the store is kept beside the test."""
    monkeypatch.setattr(remote_lock, "SECONDS_BETWEEN_SIGNS", 0.2)
    monkeypatch.setattr(remote_lock, "SECONDS_UNTIL_DEAD", 1.5)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
