"""Schedules against the paper's numbers."""

import math

import numpy as np
import pytest
from unit.training.test_stages import feed

from discodvt.config import WordDropout
from discodvt.training.feeds import DropoutSchedule, Noise
from discodvt.training.loop import learning_rate
from discodvt.training.stages.reconstruct import Relaxation, TemperatureSchedule


def test_linear_rate_ends_at_zero_and_constant_stays():
    rates = [learning_rate(step, 10, peak=1.0, linear=True, warmup=0) for step in range(11)]
    assert rates[0] == 1.0
    assert rates[10] == 0.0
    assert rates == sorted(rates, reverse=True)
    assert learning_rate(9, 10, peak=1.0, linear=False, warmup=0) == 1.0


def test_warm_up_meets_the_peak():
    rates = [learning_rate(step, 100, peak=1.0, linear=True, warmup=10) for step in range(12)]
    assert rates[:11] == sorted(rates[:11])
    assert rates[10] == 1.0 > rates[11]


def test_the_papers_temperature_reaches_its_floor_after_21972_micro_batches():
    temperature = TemperatureSchedule.over(30_000, Relaxation())
    steps = 21_972 // 4
    assert temperature(0) == 0.9
    assert temperature(1000) == pytest.approx(0.9 * math.exp(-0.4))
    assert temperature(steps - 2) > 0.1
    assert temperature(steps + 2) == 0.1


def test_a_short_run_scales_the_rate():
    temperature = TemperatureSchedule.over(
        100, Relaxation(temperature=1.0, min_temperature=0.3, min_temperature_at=0.6)
    )
    assert temperature(59) > 0.3
    assert temperature(60) == pytest.approx(0.3)


def test_noise_comes_after_its_share_of_the_run():
    late = feed(noise=Noise(8, 6, from_step=25))
    assert ["noise" in late.batch(np.arange(4), step=step) for step in (0, 24, 25)] == [False, False, True]


def test_dropped_words_fade_over_their_share_of_the_run():
    fading = DropoutSchedule.over(100, WordDropout(rate=0.4, until=0.5))
    assert [fading(step) for step in (0, 25, 50, 99)] == [0.4, 0.2, 0, 0]
    constant = DropoutSchedule.over(100, WordDropout(rate=0.4))
    assert [constant(step) for step in (0, 99)] == [0.4, 0.4]
