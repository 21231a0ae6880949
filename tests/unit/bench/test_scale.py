"""The simulator against closed forms, and the rows of the bench against runs whose costs are known."""

import json
from pathlib import Path

import pytest

from discodvt.bench import scale, scale_model
from discodvt.bench.scale_model import MeasuredStage, Prices, StageRates, project, simulate
from discodvt.cli.bench import scale as scale_command

RATES = StageRates(driver_start=5.0, worker_start=3.0, story=0.01, shard=0.001, join=0.0001, stories_per_shard=50)


def test_one_process_pays_for_everything_itself() -> None:
    run = simulate(RATES, stories=1000, workers=1, in_driver=True)
    assert run.seconds == pytest.approx(5 + 1000 * 0.01 + 20 * 0.001 + 1000 * 0.0001)
    assert run.cpu_seconds == run.seconds


def test_workers_share_shards_and_the_driver_joins_alone() -> None:
    one, two = (simulate(RATES, stories=1000, workers=workers) for workers in (1, 2))
    assert one.seconds == pytest.approx(8 + 20 * (0.5 + 0.001) + 0.1)
    assert two.seconds == pytest.approx(8 + 10 * (0.5 + 0.001) + 0.1, abs=0.02)
    assert two.cpu_seconds == pytest.approx(one.cpu_seconds + 3)
    many = simulate(RATES, stories=1000, workers=500)  # of which twenty have a shard
    assert many.seconds == pytest.approx(8 + 0.5 + 20 * 0.001 + 0.1)


def test_a_slow_driver_bounds_the_run() -> None:
    slow = StageRates(1.0, 1.0, story=0.001, shard=0.1, join=0.0, stories_per_shard=10)
    run = simulate(slow, stories=10_000, workers=64)
    assert run.bound_by == "driver"
    assert run.seconds == pytest.approx(1000 * 0.1, rel=0.05)
    assert simulate(RATES, stories=10_000, workers=2).bound_by == "workers"


@pytest.mark.parametrize("workers", [3, 2000])
def test_a_long_run_is_the_played_one(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    played = simulate(RATES, stories=2_000_000, workers=workers)
    monkeypatch.setattr(scale_model, "PLAYED", 10_000)
    extended = simulate(RATES, stories=2_000_000, workers=workers)
    assert extended.seconds == pytest.approx(played.seconds, rel=0.02)
    assert extended.cpu_seconds == pytest.approx(played.cpu_seconds)


def test_money_is_cores_and_requests_and_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = MeasuredStage(RATES, bytes_a_story=1000, puts_a_shard=2, gets_a_shard=5)
    monkeypatch.setitem(scale_model.MEASURED, "it", stage)
    prices = Prices(core_hour=1.0, gigabyte_month=2.0, thousand_puts=3.0, thousand_gets=4.0)
    found = project("it", stories=1_000_000, workers=9, prices=prices)
    assert found.core_hours == pytest.approx(found.hours * 10)
    assert (found.gigabytes, found.puts, found.gets) == (1.0, 40_000, 100_000)
    assert found.dollars == pytest.approx(found.core_hours + 120 + 400)
    assert found.dollars_a_month == 2.0


def test_rows_of_the_bench_are_kept_by_linear_runs_and_broken_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    power, disturbed = 1.0, 0

    def cost(place: Path, stage: str, *words: object) -> float:
        nonlocal disturbed
        disturbed -= 1
        workers = int(str(words[-1]))
        named = next(Path(str(word)) for word in words if str(word).startswith(str(place)))
        stories = int(named.stem)
        assert named.exists()
        started = min(workers, -(-stories // 64)) if workers > 1 else 0
        return 4.0 + 0.02 * stories**power + 2.0 * started + 10.0 * (disturbed == 0)

    monkeypatch.setattr(scale, "cpu_seconds", cost)
    rows = list(scale.bench_scale(scale=0.05))
    assert [row.kept for row in rows] == [True] * 6
    assert rows[0].note == "20.00 ms a story, 4.0 s to start, 2.0 a worker"
    assert [row.ratio for row in rows] == [pytest.approx(1.0)] * 6
    disturbed = 3  # the first 5,000 that count
    assert [row.kept for row in scale.bench_scale(scale=0.05, stages=["annotate"])] == [True] * 3
    power = 1.3
    assert next(scale.bench_scale(scale=0.05, stages=["generate"])).kept is False


def test_the_tables_of_the_page_are_those_of_the_model() -> None:
    page = (Path(__file__).parents[3] / "docs" / "scale.md").read_text(encoding="utf-8")
    rows = [
        project(stage, stories=stories, workers=workers)
        for stage in scale_model.MEASURED
        for stories, workers in ((10**6, 100), (10**8, 1000), (10**9, 10_000))
    ]
    for row in scale_model.projection_table(rows):
        assert f"| {' | '.join(row)} |" in page


def test_a_projection_is_of_the_stage_asked_for(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    scale_command(project=10, stage="annotate", json=True)
    assert [each["stage"] for each in json.loads(capfdbinary.readouterr().out)] == ["annotate"]
