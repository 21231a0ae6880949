"""The watchdog sees what a falling loss hides."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from discodvt.training.loop import without_gradient
from discodvt.training.validation import Watchdog, WatchdogLimits, code_usage

DOG = Watchdog(WatchdogLimits(), grace_steps=10)
HEALTHY = {"code_perplexity": 40.0, "codes_dead": 3.0, "swap_gap": 0.5}


def test_usage_closed_forms():
    assert code_usage(torch.tensor([5, 5, 5, 5, 0, 0])) == pytest.approx(
        {"codes_used": 4, "codes_dead": 2, "code_perplexity": 4.0}
    )
    assert code_usage(torch.tensor([0, 7]))["code_perplexity"] == pytest.approx(1.0)


def test_it_is_silent_about_a_healthy_run_and_during_grace():
    assert DOG.alarms(20, HEALTHY) == []
    assert DOG.alarms(5, HEALTHY | {"swap_gap": 0.0}) == []


def test_collapse_and_deafness_are_told_with_advice():
    (collapse,) = DOG.alarms(20, HEALTHY | {"code_perplexity": 1.5})
    assert "loss.entropy" in collapse
    (deaf,) = DOG.alarms(20, HEALTHY | {"swap_gap": 0.001})
    assert "ignores the plan" in deaf
    assert "relaxation.noise_free" in deaf


def test_codes_made_of_bits_are_not_advised_to_restart():
    bits = replace(DOG, restartable=False)
    told = HEALTHY | {"code_perplexity": 1.5}
    assert "restart_dead_codes" in DOG.alarms(20, told)[0]
    assert "restart_dead_codes" not in bits.alarms(20, told)[0]
    assert "loss.batch_entropy" in bits.alarms(20, told)[0]


def test_parameters_without_gradient_are_named():
    used, unused, zero, frozen = (nn.Linear(2, 2, bias=False) for _ in range(4))
    model = nn.ModuleDict({"used": used, "unused": unused, "zero": zero, "frozen": frozen})
    frozen.requires_grad_(False)
    (used(torch.ones(1, 2)) + 0 * zero(torch.ones(1, 2))).sum().backward()
    assert without_gradient(model.named_parameters()) == ["unused.weight", "zero.weight"]
