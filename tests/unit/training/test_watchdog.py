"""The watchdog sees what a falling loss hides."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from discodvt.training.loop import without_gradient
from discodvt.training.validation import USES_CODES, USES_PLAN, Watchdog, WatchdogLimits, code_usage

NOTHING = dict.fromkeys((*USES_PLAN, *USES_CODES), 0.0)
DOG = Watchdog(WatchdogLimits(), grace_steps=10, settings=NOTHING)
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


def test_advice_goes_beyond_the_recipe():
    """It never names a value below the recipe's, and says what the recipe has."""
    ignored = HEALTHY | {"swap_gap": 0.001}
    has = NOTHING | {"relaxation.noise_free": 0.5, "model.code_logit_gain": 4.0, "word_dropout.rate": 0.3}
    (alarm,) = replace(DOG, settings=has).alarms(20, ignored)
    assert "noise_free" not in alarm
    assert "word_dropout" not in alarm
    assert "model.code_logit_gain=20 (now 4)" in alarm
    (alarm,) = replace(DOG, settings=dict.fromkeys(NOTHING, 99.0)).alarms(20, ignored)
    assert "train longer" in alarm
    collapsed = HEALTHY | {"code_perplexity": 1.5}
    assert (
        "raise loss.entropy (now 0.7)"
        in replace(DOG, settings=NOTHING | {"loss.entropy": 0.7}).alarms(20, collapsed)[0]
    )
    restarting = replace(DOG, limits=WatchdogLimits(restart_dead_codes=True))
    assert "restart_dead_codes" not in restarting.alarms(20, collapsed)[0]


def test_what_is_of_no_use_to_a_bottleneck_is_not_advised():
    known = replace(DOG, settings={"word_dropout.rate": 0.0}, restartable=False)
    collapse, deaf = known.alarms(20, {"code_perplexity": 1.5, "codes_dead": 3.0, "swap_gap": 0.0})
    assert collapse.endswith("choose a lower model.num_codes")
    assert deaf.endswith("set word_dropout.rate=0.3 (now 0)")


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
