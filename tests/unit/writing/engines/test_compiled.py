"""Compiled steps: their kernels compute what PyTorch does, with the same bits in any company; when they are used."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from unit.writing.toy_writer import save_causal_model, save_writer

from discodvt.writing import Request, SamplingParams, StoryWriter
from discodvt.writing.engines import compiled
from discodvt.writing.engines.engine import WINDOW, KVStore
from discodvt.writing.engines.layers import Dense, HalfDense

kernels = pytest.importorskip("discodvt.writing.engines.kernels", reason="numba is not installed", exc_type=ImportError)
PROMPTS = ("The fox who lost his hat", "Ann", "Once there was a very long prompt, and it went on and on, and on.")


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def product(x: torch.Tensor, matrix: "kernels.Matrices") -> np.ndarray:
    out = np.empty((len(x), matrix.biases.shape[1]), dtype=np.float32)
    kernels.multiply(x.numpy(), matrix.panels[0], matrix.scales[0], matrix.biases[0], out)
    return out


def read(codes: np.ndarray) -> np.ndarray:
    """What the kernels make of 16 bits."""
    return ((codes.astype(np.int32) << kernels.SHIFT) & np.int32(kernels.MASK)).view(np.float32)


def test_16_bits_hold_every_half_below_128_and_nothing_is_rounded():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    small = halves[np.abs(halves) < 128].astype(np.float32)[None]
    for scale in (1.0, 2.0**-11):
        codes, scales, exactly = compiled.in_16_bits(small * np.float32(scale))
        assert exactly
        np.testing.assert_array_equal(read(codes) * scales[:, None], small * np.float32(scale))
    two = np.array([[1.0, -0.5], [0.0, 0.0]], dtype=np.float32)  # each matrix has its own scale
    codes, scales, exactly = compiled.in_16_bits(two)
    assert exactly
    np.testing.assert_array_equal(read(codes) * scales[:, None], two)
    for others in ([1.0, 1e-9], [1.0, 1 / 3], [1.0, 2.0**-60], [1.0, np.inf], [1.0, np.nan]):
        with np.errstate(invalid="ignore"):
            assert not compiled.in_16_bits(np.array([others], dtype=np.float32))[2]


@pytest.mark.parametrize("layer", [Dense, HalfDense])
def test_products_are_those_of_pytorch_with_the_same_bits_for_any_number_of_rows(layer):
    weight, bias, x = random(107, 45).half().float(), random(107, seed=1), random(32, 45, seed=2)
    (matrix,) = compiled.packed([layer(weight, bias)])
    assert matrix.panels.dtype == np.int16
    (whole,) = compiled.packed([layer(weight, bias), Dense(random(107, 45), bias)])
    assert whole.panels.dtype == np.float32  # one that is no half, and all are float32
    expected = F.linear(x, weight, bias).numpy()
    found = product(x, matrix)
    np.testing.assert_allclose(found[:, :107], expected, atol=2e-5)
    np.testing.assert_array_equal(product(x, whole), found)
    for rows in (1, 4, 6, 8, 10, 14, 16):
        np.testing.assert_array_equal(product(x[:rows].contiguous(), matrix), found[:rows])


@pytest.mark.parametrize("width", [6, 16, 48])
@pytest.mark.parametrize("heads", [2, 6])  # of queries, on two of keys
def test_attention_is_that_of_pytorch_with_the_same_bits_alone_and_in_company(width, heads):
    lengths = [5, 2 * WINDOW + 9, WINDOW, 1]
    many = KVStore(1, 2, width, queries=heads, rows=4, length=99, like=torch.zeros(0))
    many.ensure(4, max(lengths))
    for row, length in enumerate(lengths):
        keys, values = random(2, 2, length, width, seed=row)
        alone = KVStore(1, 2, width, queries=heads, rows=1, length=1, like=torch.zeros(0))
        alone.ensure(1, length)
        found = []
        for store, place in ((many, row), (alone, 0)):
            arrays = [each[0].numpy() for each in store.states]
            for position in range(length):
                new = (each[:, position].flatten().numpy() for each in (keys, values))
                kernels.write(*arrays, place, position, *new)
            stored_keys, stored_values = store.row(0, place)
            assert torch.equal(stored_keys[:, :length], keys)
            assert torch.equal(stored_values[:, :length], values)
            query, out = random(heads * width, seed=9), np.full(heads * width, np.nan, dtype=np.float32)
            kernels.attend(*arrays, place, length, query.numpy(), out)
            found.append(out)
        expanded = (each.repeat_interleave(heads // 2, 0) for each in (keys, values))
        expected = F.scaled_dot_product_attention(query.view(heads, 1, width), *expanded).flatten()
        np.testing.assert_allclose(found[0], expected.numpy(), atol=2e-6)
        np.testing.assert_array_equal(found[0], found[1])


def test_activations_are_those_of_pytorch():
    x = torch.linspace(-100, 100, 20_001).view(1, -1)
    for number, function in enumerate((F.gelu, F.relu, F.silu)):
        found = x.numpy().copy()
        kernels.activate(found, number)
        exact = function(x.double()).numpy()  # in single precision PyTorch's own are off by 1e-6 on AVX-512
        np.testing.assert_allclose(found, exact, atol=1e-6, rtol=1e-6)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(compiled, "BUSY", 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_row_has_the_same_logits_alone_in_company_and_in_threads(tmp_path, monkeypatch, dtype):
    engine = StoryWriter.from_pretrained(save_writer(tmp_path, dtype=dtype)).generator_engine
    assert engine.step.compile()

    def logits(rows: int) -> torch.Tensor:
        cache = engine.new_cache(rows, 8)
        for row in range(rows):
            cache.add_row(row, [0, 5 + row, 2], None, (), 8)
        cache.step([0] * rows, [0] * rows)
        return cache.step([7 + row for row in range(rows)], [1] * rows)

    expected = logits(13)
    assert torch.equal(logits(1), expected[:1])
    assert torch.equal(logits(4), expected[:4])
    before = torch.get_num_threads()
    monkeypatch.setattr(compiled, "SINGLE_THREAD", 1)
    try:
        torch.set_num_threads(3)
        assert torch.equal(logits(13), expected)
    finally:
        torch.set_num_threads(before)


def test_an_engine_goes_over_when_it_is_busy(tmp_path, monkeypatch):
    writer = StoryWriter.from_pretrained(save_writer(tmp_path))
    monkeypatch.setattr(compiled, "BUSY", 20)
    params = SamplingParams(min_tokens=15, max_tokens=15)
    list(writer.write_many([Request(PROMPTS[0])], params))
    assert not writer.generator_engine.step.compiled
    (second,) = writer.write_many([Request(PROMPTS[1])], params)
    assert writer.generator_engine.step.compiled
    assert list(writer.write_many([Request(PROMPTS[1])], params)) == [second]


def test_a_step_with_other_logits_is_not_used(tmp_path, monkeypatch, at_once):
    writer = StoryWriter.from_pretrained(save_causal_model(tmp_path, "llama"))
    step = kernels.llama_step
    for wrong in (lambda *given: step(*given) + 0.01, lambda *given: step(*given) * np.float32(np.nan)):
        monkeypatch.setattr(kernels, "llama_step", wrong)
        engine = StoryWriter.from_pretrained(tmp_path).generator_engine
        with pytest.warns(UserWarning, match="not PyTorch's"):
            assert not engine.step.compile()
        assert not engine.step.compile()  # and is not tried again
    monkeypatch.setattr(kernels, "llama_step", step)
    assert writer.generator_engine.step.compile()


def test_what_cannot_be_compiled_is_said_and_left_to_pytorch(tmp_path, monkeypatch, at_once):
    def missing(*given):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(kernels, "bart_step", missing)
    writer = StoryWriter.from_pretrained(save_writer(tmp_path))
    with pytest.warns(UserWarning, match="no locator"):
        assert writer.write(PROMPTS[0], max_tokens=9).text


@pytest.mark.parametrize("kept", ["int8", "large", "no numba"])
def test_models_that_stay_with_pytorch(tmp_path, monkeypatch, at_once, kept):
    if kept == "large":
        monkeypatch.setattr(compiled, "SINGLE_THREAD", 1)
    if kept == "no numba":
        monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    writer = StoryWriter.from_pretrained(save_writer(tmp_path), int8=kept == "int8")
    assert writer.write(PROMPTS[0], max_tokens=9).text
    assert not writer.generator_engine.step.compiled
