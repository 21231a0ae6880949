"""The recipe: one TOML file, one training stage. Defaults are the paper's; every key is checked, all errors at once.

A recipe is read by `discodvt.recipe_file` and handed to `discodvt.training`; nothing below training knows it.
"""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from discodvt.model.sizes import PAPER

StageName = Literal["pretrain", "warm-start", "reconstruct", "prior", "seq2seq"]
RENAMED = {  # old key of a recipe -> its name now
    "optimiser": "optimizer",
    "loss.usage": "loss.batch_entropy",
    "loss.doubt": "loss.position_entropy",
    "loss.words": "loss.bag_of_words",
    "relaxation.start": "relaxation.temperature",
    "relaxation.floor": "relaxation.min_temperature",
    "relaxation.floor_at": "relaxation.min_temperature_at",
    "relaxation.rate": "relaxation.decay_rate",
    "relaxation.word_dropout": "word_dropout.rate",
    "relaxation.word_dropout_until": "word_dropout.until",
    "denoising.masked": "denoising.mask_ratio",
    "model.codes": "model.num_codes",
    "tokenizer.vocabulary": "tokenizer.vocab_size",
    "card.licence": "card.license",
}
STAGE_DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {  # where a stage of the paper differs from fine-tuning
    "warm-start": {"relaxation": {"decay_rate": 0.0}, "optimizer": {"schedule": "constant"}},
    "prior": {"batch": {"stories_per_step": 1024, "stories_per_micro_batch": 128}},
}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Data(Section):
    """What is read: a corpus directory, and how much of each prompt and story is kept."""

    corpus: Path = Field(description="Directory of train.parquet and valid.parquet")
    prompt_tokens: int = Field(default=16, ge=1, description="Subwords kept of a prompt; 64 for WritingPrompts")
    story_tokens: int = Field(default=512, ge=8, description="Decoder positions: `<s>` and the story's first subwords")
    max_train_stories: int | None = Field(default=None, ge=1)
    max_valid_stories: int | None = Field(default=1000, ge=1)


class Tokenizer(Section):
    """Where subwords come from when a model is built from scratch: a given tokenizer, or one trained on the corpus."""

    source: str | None = Field(default=None, description="Directory or Hub id of a BART tokenizer")
    vocab_size: int | None = Field(
        default=None, ge=270, description="Train a byte-level BPE of this size on the train split"
    )


class Shape(Section):
    """The shape of a BART to be grown from scratch."""

    width: int = Field(default=768, ge=8)
    encoder_layers: int = Field(default=6, ge=1)
    decoder_layers: int = Field(default=6, ge=1)
    heads: int = Field(default=12, ge=1)
    ffn_width: int = Field(default=3072, ge=8)
    positions: int = Field(default=1024, ge=16)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    init_std: float = Field(
        default=0.02, gt=0, description="Of new weights; narrow models stall below 1 / sqrt(width), give them that"
    )

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class Model(Section):
    """Where weights come from, and the sizes of the latent where it is new."""

    init: str | None = Field(
        default=None, description="Checkpoint to start from (directory or Hub id); none: `shape`, random"
    )
    shape: Shape | None = None
    num_codes: int = Field(default=PAPER.num_codes, ge=2, description="K, the latent vocabulary")
    code_width: int = Field(default=PAPER.code_width, ge=1)
    conv_layers: int = Field(default=PAPER.conv_layers, ge=1, le=6, description="c: a code stands for 2^c tokens")
    conv_channels: int = Field(default=PAPER.conv_channels, ge=1)
    relation_width: int = Field(default=PAPER.relation_width, ge=1)
    bottleneck: str = Field(
        default=PAPER.bottleneck,
        description="gumbel or straight-through: one choice among K; bits: log2 K binary choices",
    )
    code_logit_gain: float = Field(
        default=PAPER.code_logit_gain, gt=0, description="Scale of the code logits at initialisation"
    )
    dropout: float | None = Field(default=None, ge=0, lt=1, description="Instead of the checkpoint's own dropout")
    prior_encoder: str | None = Field(
        default=None, description="BART whose encoder starts the prior; none: `init`'s own"
    )


class Optimizer(Section):
    learning_rate: float = Field(default=1e-4, gt=0)
    schedule: Literal["linear", "constant"] = "linear"
    warmup_steps: int = Field(default=0, ge=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    max_gradient_norm: float = Field(default=1.0, gt=0)


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


class Loss(Section):
    """Weights of the paper's lambda terms (section 3.5), and of three more for models grown from scratch."""

    entropy: float = Field(default=0.1, ge=0)
    relation: float = Field(default=0.1, ge=0)
    batch_entropy: float = Field(
        default=0.0, ge=0, description="Entropy of the codes of a whole micro-batch, maximised: use all of them"
    )
    position_entropy: float = Field(
        default=0.0, ge=0, description="Entropy of the code distribution at each position, minimised: be certain"
    )
    bag_of_words: float = Field(default=0.0, ge=0, description="Story tokens predicted from the latent alone")


class Relaxation(Section):
    """How soft and how noisy codes are while they are learned (equation 3)."""

    temperature: float = Field(default=0.9, gt=0, description="At the first step")
    min_temperature: float = Field(default=0.1, gt=0)
    decay_rate: float = Field(
        default=4e-4,
        ge=0,
        description="temperature * exp(-decay_rate * step); the paper's 1e-4 counts micro-batches, 4 a step",
    )
    min_temperature_at: float | None = Field(
        default=None, gt=0, le=1, description="Instead of `decay_rate`: share of the run that ends at min_temperature"
    )
    noise_free: float = Field(
        default=0.0, ge=0, le=1, description="Share of the run, at its start, without Gumbel noise"
    )

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.min_temperature > self.temperature:
            raise ValueError(f"min_temperature {self.min_temperature} is above temperature {self.temperature}")
        return self


class WordDropout(Section):
    """Tokens masked in the decoder's input while training, so that the generator has to use its plan."""

    rate: float = Field(default=0.0, ge=0, lt=1, description="Share of the tokens")
    until: float | None = Field(
        default=None, gt=0, le=1, description="Share of the run over which `rate` falls to 0; none: it stays"
    )


class Denoising(Section):
    """How `pretrain` corrupts a story (BART: text infilling and sentence permutation)."""

    mask_ratio: float = Field(default=0.3, ge=0, lt=1, description="Share of subwords replaced by masks")
    mean_span: float = Field(default=3.0, gt=0, description="Mean of the Poisson length of a masked span")
    permute_sentences: bool = True


class Validation(Section):
    every_steps: int = Field(default=1000, ge=1)
    select_by: Literal["loss", "bleu-1"] = "loss"
    bleu_stories: int = Field(default=64, ge=1, description="Stories written to measure BLEU-1")
    stories_per_batch: int = Field(default=16, ge=1)


class Watchdog(Section):
    min_code_perplexity: float = Field(default=8.0, ge=1, description="Warn below it")
    min_swap_gap: float = Field(
        default=0.02, ge=0, description="Warn when another story's plan costs less than this, in nats"
    )
    grace: float = Field(default=0.3, ge=0, le=1, description="Share of the run before warnings about the plan")
    on_alarm: Literal["warn", "stop"] = "warn"
    restart_dead_codes: bool = False


class Writing(Section):
    """Least lengths, kept with the model for its writer; the most are those of training, `data`."""

    min_tokens: int | None = Field(default=None, ge=0, description="Subwords of a story; none: 100 of 512 of the most")
    min_codes: int | None = Field(default=None, ge=1, description="Codes of a plan (`prior` only); none: 1")


class Run(Section):
    steps: int | None = Field(default=None, ge=1, description="Length in steps; or give `epochs`")
    epochs: float | None = Field(default=None, gt=0)
    precision: Literal["auto", "float32", "bf16"] = Field(default="auto", description="auto: bf16 where a GPU has it")
    gradient_checkpointing: bool = False
    save_every_steps: int = Field(default=1000, ge=1)
    log_every_steps: int = Field(default=10, ge=1)
    tensorboard: bool = True


class Card(Section):
    """What the model card says of the data; it cannot be measured."""

    data: str | None = None
    license: str | None = None
    language: str = "en"


class Recipe(Section):
    """Everything one training stage needs."""

    stage: StageName
    seed: int = Field(default=42, ge=0)
    out: Path | None = Field(default=None, description="Output directory; `--out` comes first")
    data: Data
    tokenizer: Tokenizer = Tokenizer()
    model: Model = Model()
    optimizer: Optimizer = Optimizer()
    batch: Batch = Batch()
    loss: Loss = Loss()
    relaxation: Relaxation = Relaxation()
    word_dropout: WordDropout = WordDropout()
    denoising: Denoising = Denoising()
    validation: Validation = Validation()
    watchdog: Watchdog = Watchdog()
    writing: Writing = Writing()
    run: Run = Run()
    card: Card = Card()

    @model_validator(mode="before")
    @classmethod
    def _with_stage_defaults(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        filled = dict(values)
        for section, defaults in STAGE_DEFAULTS.get(str(values.get("stage")), {}).items():
            given = filled.get(section, {})
            if isinstance(given, dict) and not (section == "batch" and given):  # sizes of a batch go together
                filled[section] = defaults | given
        return filled

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        wrong = []
        if (self.run.steps is None) == (self.run.epochs is None):
            wrong.append("run: give one of steps and epochs")
        if (self.model.init is None) == (self.model.shape is None):
            wrong.append("model: give one of init (a checkpoint) and shape (from scratch)")
        if self.model.init is not None and self.tokenizer.model_fields_set:
            wrong.append("tokenizer: model.init brings its own; leave the section out")
        if self.model.shape is not None:
            if (self.tokenizer.source is None) == (self.tokenizer.vocab_size is None):
                wrong.append("tokenizer: a model from scratch needs one of source and vocab_size")
            longest = max(self.data.story_tokens, self.data.prompt_tokens + 2)
            if longest > self.model.shape.positions:
                wrong.append(f"model.shape.positions: {self.model.shape.positions} is too few for {longest} tokens")
        wrong += self._bottleneck_problems()
        if self.stage == "prior" and self.model.init is None:
            wrong.append("model.init: the prior is trained on the codes of a trained DiscoDVT; give its directory")
        if self.stage in ("pretrain", "seq2seq", "prior") and self.validation.select_by == "bleu-1":
            wrong.append(f"validation.select_by: bleu-1 needs a plan, which {self.stage} has not; use loss")
        if self.stage != "pretrain" and self.denoising.model_fields_set:
            wrong.append(f"denoising: {self.stage} corrupts nothing; leave the section out")
        if self.stage in ("pretrain", "prior") and self.word_dropout.rate > 0:
            wrong.append(f"word_dropout: {self.stage} drops no words; leave it out")
        if self.stage != "prior" and self.writing.min_codes is not None:
            wrong.append(f"writing.min_codes: plans are written by a prior, not by {self.stage}; leave it out")
        if (self.writing.min_tokens or 0) > self.data.story_tokens:
            wrong.append(f"writing.min_tokens: {self.writing.min_tokens} is above data.story_tokens")
        if wrong:
            raise ValueError("\n".join(wrong))
        return self

    def _bottleneck_problems(self) -> list[str]:
        """What the bottleneck of the recipe says against its codes."""
        from discodvt.model.bottlenecks import bottleneck_class  # needs torch, which reading a schema does not

        try:
            kind = bottleneck_class(self.model.bottleneck)
        except ValueError as error:
            return [f"model.bottleneck: {error}"]
        problem = kind.problem(self.model.num_codes)
        wrong = [f"model.num_codes: {problem}"] if problem else []
        if self.watchdog.restart_dead_codes and not kind.restartable:
            wrong.append(
                f"watchdog.restart_dead_codes: {self.model.bottleneck} codes have nothing to restart; switch it off"
            )
        return wrong

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the manifest and the model card; the output directory is no part of the request.

        Without least lengths it reads as a recipe did before there were any: older runs can still be resumed.
        """
        unsaid = {"out"} if self.writing.model_fields_set else {"out", "writing"}
        return self.model_dump(mode="json", exclude=unsaid)
