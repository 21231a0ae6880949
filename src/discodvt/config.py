"""Settings of training: the sections that recipes of several stages share. Defaults are the paper's.

A recipe is one TOML file for one training stage. `discodvt.training.assembly.Recipe` joins these sections; each stage
(`discodvt.training.stages`) adds those only it has. Nothing below training knows a recipe. The recipes of the project
ship with the package and are known by name (`paper/wikiplots`).
"""

import shutil
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, model_validator

import discodvt
from discodvt.errors import BadRequest
from discodvt.model.sizes import PAPER
from discodvt.storage import locate

PACKAGE = Path(discodvt.__file__).parent
MOST, MOST_LAYERS = 2**31 - 1, 1000  # beyond, a size is a slip of the keyboard that libraries do not survive


def shipped_recipes() -> dict[str, Path]:
    """Recipes by name: from the package where it was installed, from the folder `recipes` in a checkout."""
    folder = next((path for path in (PACKAGE / "recipes", PACKAGE.parents[1] / "recipes") if path.is_dir()), PACKAGE)
    return {f"{path.parent.name}/{path.stem}": path for path in sorted(folder.glob("*/*.toml"))}


def find_recipe(name: str | Path) -> Path:
    """The file of a recipe: a path, or one that ships by its name or its path in a checkout."""
    path = Path(name)
    known = path.as_posix().removeprefix("recipes/").removesuffix(".toml")
    return path if path.exists() else shipped_recipes().get(known, path)


def read_toml(path: Path, *, give: str, missing: str | None = None) -> dict[str, Any]:
    """The content of a TOML file. `give` says what was asked for; `missing` what to do where there is no such file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        if missing is not None and isinstance(error, FileNotFoundError):
            raise BadRequest(f"{path}: {missing}") from None
        raise BadRequest(f"{path}: {error.strerror}; give {give}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: not a TOML file: {error}") from None


def copy_recipes(name: str, directory: Path) -> list[Path]:
    """Copy a recipe, or a folder of recipes with its scripts, into a directory; nothing is replaced."""
    shipped = shipped_recipes()
    folders = {path.parent.name: path.parent for path in shipped.values()}
    if name in folders:
        sources = sorted(path for path in folders[name].iterdir() if path.is_file())
        pairs = [(source, directory / name / source.name) for source in sources]
    elif name in shipped:
        pairs = [(shipped[name], directory / shipped[name].name)]
    else:
        raise BadRequest(f"{name}: no such recipe; choose one of {', '.join([*sorted(folders), *shipped])}")
    for _, target in pairs:
        if target.exists():
            raise BadRequest(f"{target}: is there already; choose another directory")
    for source, target in pairs:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    return [target for _, target in pairs]


Location = Annotated[Path, AfterValidator(locate), PlainSerializer(str)]  # local, or a URI of a store


class Section(BaseModel):
    """A table of a recipe: every key is checked, none is taken that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Data(Section):
    """What is read: a corpus directory, and how much of each prompt and story is kept."""

    corpus: Location = Field(description="Directory of train.parquet and valid.parquet")
    tokens: Location | None = Field(
        default=None, description="What `discodvt tokenize` made of the corpus; none: the run makes its own"
    )
    prompt_tokens: int = Field(default=16, ge=1, description="Subwords kept of a prompt; 64 for WritingPrompts")
    story_tokens: int = Field(default=512, ge=8, description="Decoder positions: `<s>` and the story's first subwords")
    max_train_stories: int | None = Field(default=None, ge=1)
    max_valid_stories: int | None = Field(default=1000, ge=1)


class Tokenizer(Section):
    """Where subwords come from when a model is built from scratch: a given tokenizer, or one trained on the corpus."""

    source: str | None = Field(default=None, description="Directory or Hub id of a BART tokenizer")
    vocab_size: int | None = Field(
        default=None, ge=270, le=2**22, description="Train a byte-level BPE of this size on the train split"
    )


class BackboneShape(Section):
    """The shape of a BART to be trained from scratch."""

    width: int = Field(default=768, ge=8, le=MOST)
    encoder_layers: int = Field(default=6, ge=1, le=MOST_LAYERS)
    decoder_layers: int = Field(default=6, ge=1, le=MOST_LAYERS)
    heads: int = Field(default=12, ge=1)
    ffn_width: int = Field(default=3072, ge=8, le=MOST)
    positions: int = Field(default=1024, ge=16, le=MOST)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    init_std: float = Field(
        default=0.02, gt=0, description="Of new weights; narrow models stall below 1 / sqrt(width), give them that"
    )

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class Backbone(Section):
    """Where the weights of the language model come from."""

    init: str | None = Field(default=None, description="Checkpoint to start from (directory or Hub id)")
    dropout: float | None = Field(default=None, ge=0, lt=1, description="Instead of the checkpoint's own dropout")


class NewBackbone(Backbone):
    """A checkpoint, or new weights."""

    shape: BackboneShape | None = Field(default=None, description="Instead of `init`: a BART of random weights")
    random_init: bool = Field(default=False, description="Shape and tokenizer of `init`, but random weights")


class Latent(Section):
    """The sizes of the latent, where it is new; where it is not, they must be what the checkpoint has."""

    num_codes: int = Field(default=PAPER.num_codes, ge=2, le=MOST, description="K, the latent vocabulary")
    code_width: int = Field(default=PAPER.code_width, ge=1, le=MOST)
    conv_layers: int = Field(default=PAPER.conv_layers, ge=1, le=6, description="c: a code stands for 2^c tokens")
    conv_channels: int = Field(default=PAPER.conv_channels, ge=1, le=MOST)
    relation_width: int = Field(default=PAPER.relation_width, ge=1, le=MOST)
    bottleneck: str = Field(
        default=PAPER.bottleneck,
        description="gumbel or straight-through: one choice among K; bits: log2 K binary choices; "
        "vq: the nearest of K vectors; fsq: a grid of rounded scalars",
    )
    code_levels: list[int] | None = Field(
        default=PAPER.code_levels, description="Levels of fsq codes, whose product is num_codes; else chosen by it"
    )
    posterior_layers: int | None = Field(
        default=None, ge=1, description="Layers of the backbone that read stories; none: BART's encoder, else half"
    )
    code_logit_gain: float = Field(
        default=PAPER.code_logit_gain, gt=0, description="Scale of the code logits at initialisation"
    )


class TunedBackbone(NewBackbone):
    """A backbone, all of which is trained or the LoRA in it."""

    tune: Literal["all", "lora"] = Field(default="all", description="What is trained: all, or LoRA in every layer")


class LatentModel(NewBackbone, Latent):
    """A backbone, and the latent around it."""

    tune: Literal["all", "lora", "plan", "generator"] = Field(
        default="all",
        description="What is trained: all; lora: LoRA in the language model, and all that is around it; "
        "plan: posterior, codes and convolutions around a frozen language model; "
        "generator: the language model and the up-sampling, under codes that stay as they are",
    )
    prior_layers: int | None = Field(
        default=None, ge=1, description="Layers of the prior that `loss.prior` trains beside a causal model; none: all"
    )


class Lora(Section):
    """Low-rank changes of the language model's linear layers, with `model.tune = "lora"`."""

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0, description="A change counts alpha / rank")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="On the input of the changes, in training")
    target_modules: Literal["all-linear"] | list[str] = Field(
        default="all-linear", description="Names of layers, such as q_proj; all-linear: all but the output layer"
    )


class Optimizer(Section):
    """AdamW and its learning rate."""

    learning_rate: float = Field(default=1e-4, gt=0)
    schedule: Literal["linear", "constant"] = "linear"
    warmup_steps: int = Field(default=0, ge=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    max_gradient_norm: float = Field(default=1.0, gt=0)
    backbone_rate: float = Field(
        default=1.0, gt=0, description="Learning rate of the backbone's weights over that of new ones"
    )
    posterior_rate: float | None = Field(
        default=None, gt=0, description="The same for the posterior, which learns to read both ways; none: as the rest"
    )


class ConstantRate(Optimizer):
    schedule: Literal["linear", "constant"] = "constant"


class Batch(Section):
    """A step is one update of the weights; micro-batches are what fits into memory at once."""

    stories_per_step: int = Field(default=16, ge=1, description="The global batch, over micro-batches and processes")
    stories_per_micro_batch: int = Field(default=4, ge=1)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.stories_per_step % self.stories_per_micro_batch:
            raise ValueError(
                f"stories_per_step {self.stories_per_step} is not a multiple of "
                f"stories_per_micro_batch {self.stories_per_micro_batch}"
            )
        return self


class WordDropout(Section):
    """Tokens masked in the decoder's input while training, so that the generator has to use its plan."""

    rate: float = Field(default=0.0, ge=0, lt=1, description="Share of the tokens")
    until: float | None = Field(
        default=None, gt=0, le=1, description="Share of the run over which `rate` falls to 0; none: it stays"
    )


class Validation(Section):
    """When held-out stories are read, and what chooses the best checkpoint."""

    every_steps: int = Field(default=1000, ge=1)
    select_by: Literal["loss", "bleu-1"] = "loss"
    bleu_stories: int = Field(default=64, ge=1, description="Stories written to measure BLEU-1")
    stories_per_batch: int = Field(default=16, ge=1)


class LossValidation(Validation):
    """Of a stage that has no plans to write from."""

    select_by: Literal["loss"] = "loss"


class Run(Section):
    """How long, how precise, and how often it is saved and shown."""

    steps: int | None = Field(default=None, ge=1, description="Length in steps; or give `epochs`")
    epochs: float | None = Field(default=None, gt=0)
    precision: Literal["auto", "float32", "bf16"] = Field(default="auto", description="auto: bf16 where a GPU has it")
    gradient_checkpointing: bool = False
    torch_compile: bool = Field(default=False, description="Compile transformer layers: faster after a minute's start")
    attn_implementation: Literal["sdpa", "eager"] = Field(
        default="sdpa", description="As of transformers; on CPUs with AMX eager is faster in bf16"
    )
    fsdp: bool = Field(default=False, description="Weights and optimizer cut over the processes (FSDP 2)")
    save_every_steps: int = Field(default=1000, ge=1)
    log_every_steps: int = Field(default=10, ge=1)
    tensorboard: bool = True


class Writing(Section):
    """Least lengths, kept with the model for its writer; the most are those of training, `data`."""

    min_tokens: int | None = Field(default=None, ge=0, description="Subwords of a story; none: 100 of 512 of the most")


class Card(Section):
    """What the model card says of the data; it cannot be measured."""

    data: str | None = None
    license: str | None = None
    language: str = "en"


class LoopSettings(Section):
    """What the training loop itself reads, of whatever stage; a recipe has more."""

    seed: int = Field(default=42, ge=0, lt=2**63)
    batch: Batch = Batch()
    optimizer: Optimizer = Optimizer()
    validation: Validation = Validation()
    run: Run = Run()
