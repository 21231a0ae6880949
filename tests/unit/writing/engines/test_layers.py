"""Layers of decoding: right on CPUs whose int8 kernel saturates, and where PyTorch has no such kernel."""

from collections.abc import Iterator

import pytest
import torch

from discodvt.writing.engines import layers

ENGINES = [engine for engine in torch.backends.quantized.supported_engines if engine != "none"]


@pytest.fixture
def engine(request) -> Iterator[str]:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = request.param
    yield request.param
    torch.backends.quantized.engine = before


@pytest.fixture(autouse=True)
def every_layer_is_large(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(layers, "LARGE", 1)
    monkeypatch.setattr(layers, "LARGE_INT8", 1)
    layers.int8_levels.cache_clear()
    layers.has_half_kernel.cache_clear()
    yield
    layers.int8_levels.cache_clear()
    layers.has_half_kernel.cache_clear()


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_int8_gets_the_largest_products_right(engine):
    """On x86 without VNNI the kernel saturates with weights of 8 bits: 0.504 instead of 64."""
    for sign in (1.0, -1.0):
        layer = layers.linear(torch.full((64, 64), sign), torch.zeros(64), int8=True)
        product = layer(torch.ones(3, 64))
        torch.testing.assert_close(product, torch.full_like(product, 64.0 * sign), rtol=0.01, atol=0.0)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_int8_is_close_to_float32(engine):
    generator = torch.Generator().manual_seed(0)
    weight, bias, x = (torch.randn(*size, generator=generator) for size in ((96, 128), (96,), (5, 128)))
    exact, close = (layers.linear(weight, bias, int8=int8)(x) for int8 in (False, True))
    assert (exact - close).norm() < 0.02 * exact.norm()


@pytest.mark.parametrize("sums", [0.504, float("nan")])
def test_a_kernel_that_is_wrong_is_not_used(monkeypatch, sums):
    monkeypatch.setattr(layers.Int8Dense, "__call__", lambda self, x: torch.full((len(x), 64), sums))
    monkeypatch.setattr(layers.HalfDense, "__call__", lambda self, x: torch.full((len(x), 64), sums))
    for int8 in (False, True):
        assert isinstance(layers.linear(torch.ones(64, 64), torch.zeros(64), int8=int8), layers.Dense)


def test_without_a_quantized_engine_weights_stay_float32(monkeypatch):
    """As in builds of PyTorch without FBGEMM and QNNPACK."""

    def missing(*arguments):
        raise RuntimeError("Didn't find engine for operation quantized::linear_prepack NoQEngine")

    monkeypatch.setattr(torch.ops.quantized, "linear_prepack", missing)
    monkeypatch.setattr(torch.ops.quantized, "linear_prepack_fp16", missing)
    for int8 in (False, True):
        assert isinstance(layers.linear(torch.ones(64, 64), torch.zeros(64), int8=int8), layers.Dense)
