"""Search spaces: what a file may say, what a recipe takes, and the paper's own."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from discodvt.errors import BadRequest
from discodvt.experiments.space import Choice, Range, Space, paper_space, read_space, with_values
from discodvt.training.recipes import as_toml, read_recipe

PRETRAIN = Path(__file__).parents[3] / "recipes" / "tiny" / "pretrain.toml"


def written(folder: Path, text: str) -> Path:
    path = folder / "space.toml"
    path.write_text(text)
    return path


def test_lists_and_ranges_are_read(tmp_path):
    text = "[optimizer]\nlearning_rate = [1e-3, 3e-3]\nweight_decay = { low = 1e-4, high = 0.1, log = true }\n"
    space = read_space(written(tmp_path, text + "[model.shape]\nffn_width = { low = 8, high = 9 }"), PRETRAIN)
    assert space.domains == {
        "optimizer.learning_rate": Choice((1e-3, 3e-3)),
        "optimizer.weight_decay": Range(1e-4, 0.1, log=True),
        "model.shape.ffn_width": Range(8, 9),
    }
    assert space.size == float("inf")
    assert Space({"a": Choice((1, 2)), "b": Range(1, 3)}).size == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[optimizer]\nlearning_rat = [1e-3]",
            "learning_rat is no key of a pretrain recipe; did you mean optimizer.le",
        ),
        ("[loss]\nrelation = [0.1]", "loss.relation is no key"),
        ("[optimizer]\nlearning_rate = [1e-3, -1.0]", "learning_rate = -1.0 does not fit the recipe"),
        ("[batch]\nstories_per_step = [8, 9]", "= 9 does not fit the recipe: .*not a multiple"),
        ("[validation]\nevery_steps = [1, 2]", "the same for all trials"),
        ("stage = ['seq2seq']", "the same for all trials"),
        ("[optimizer]\nlearning_rate = 1e-3", "expected a list"),
        ("[optimizer]\nlearning_rate = { low = 1.0, high = 0.1 }", "low < high"),
        ("[optimizer]\nlearning_rate = { low = 0.0, high = 0.1, log = true }", "low above 0"),
        ("", "no keys"),
        ("[optimizer", "not a TOML file"),
    ],
)
def test_what_is_wrong_with_a_space_is_one_line(tmp_path, text, message):
    with pytest.raises(BadRequest, match=message) as caught:
        read_space(written(tmp_path, text), PRETRAIN)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadRequest, match=r"none\.toml: No such file"):
        read_space(tmp_path / "none.toml", PRETRAIN)


def test_epochs_replace_the_steps_of_a_recipe():
    assert with_values(PRETRAIN, [], {"run.epochs": 2}).run.steps is None
    assert with_values(PRETRAIN, [], {"run.steps": 3}).run.steps == 3


def test_the_papers_space_has_what_the_stage_has():
    space = paper_space(
        read_recipe("paper/warm-start", ["model.init=", "model.shape.width=768", "tokenizer.vocab_size=300"])
    )
    assert set(space.domains) == {"optimizer.learning_rate", "run.epochs", "batch.stories_per_step", "model.num_codes"}
    assert space.domains["optimizer.learning_rate"] == Choice((8e-5, 1e-4, 2e-4))
    assert any("data.prompt_tokens is left out" in note for note in space.notes)
    plain = paper_space(read_recipe(PRETRAIN))
    assert "model.num_codes" not in plain.domains


@pytest.mark.parametrize("domain", [Choice((1, 2, 3)), Range(2, 5), Range(1e-4, 1e-1, log=True)])
def test_draws_stay_inside(domain):
    random = np.random.default_rng(0)
    drawn = [domain.draw(random) for _ in range(200)]
    assert min(drawn) >= min(domain.examples)
    assert max(drawn) <= max(domain.examples)
    if isinstance(domain, Range) and domain.log:
        assert 0.3 < np.mean(np.array(drawn) < np.sqrt(1e-4 * 1e-1)) < 0.7  # half below the geometric mean
    else:
        assert len(set(drawn)) >= 3


def test_a_recipe_survives_its_own_toml(tmp_path):
    recipe = read_recipe("paper/wikiplots", ['card.data="stories, \\"quoted\\" and ünïcode"'])
    path = tmp_path / "again.toml"
    path.write_text(as_toml(recipe, "again"), encoding="utf-8")
    assert read_recipe(path) == recipe
    assert "dropout" not in tomllib.loads(path.read_text(encoding="utf-8"))["model"]  # it has no value
