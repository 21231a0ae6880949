"""Opening a checkpoint: the one place that finds, checks and reads a directory `from_pretrained` can open.

What `config.json` says is held against the header of the safetensors before anything is built, so a damaged or absurd
checkpoint is one clear line and costs no memory. A pickle is never opened. Weights can be read by name
(`Checkpoint.weights`) or as a Hugging Face model (`Checkpoint.load`); only the second imports transformers, which would
double the time to a writer's first word. The base of a checkpoint that holds only what was trained is found again here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor

import discodvt
from discodvt.errors import BadRequest, first_line
from discodvt.lengths import PAPER_MAX_TOKENS, Lengths
from discodvt.storage import RemotePath, local_copy, locate
from discodvt.stored_files import (
    check_sizes,
    downloaded,
    open_tokenizer,
    read_generation,
    read_settings,
    read_tokenizer,
)
from discodvt.stored_weights import BASE, Part, PartWeights, Weights, weights_hash

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

STORYTELLER = Path(discodvt.__file__).parent / "assets" / "storyteller"
__all__ = ["STORYTELLER", "Checkpoint", "Weights", "best_device", "open_tokenizer", "quiet_libraries"]

_KINDS = {"discodvt": "a DiscoDVT", "bart": "a plain BART", "discodvt-prior": "a prior of plans (`prior/` of a writer)"}


class Checkpoint:
    """A checkpoint that was found; what it holds is read and checked when first asked for."""

    def __init__(self, directory: Path, hub_id: str | None = None, origin: RemotePath | None = None) -> None:
        self.directory, self.hub_id, self.origin = directory, hub_id, origin  # origin: of what is a copy here
        self.name = hub_id or directory.resolve().name

    @classmethod
    def open(cls, source: str | Path | None) -> "Checkpoint":
        """Find a directory, a Hub id, or (None) the storyteller that ships with the package."""
        if source is None:
            if not (STORYTELLER / "config.json").exists():
                raise BadRequest("the storyteller is not part of this installation; name a `model`", "model")
            return cls(STORYTELLER)
        directory, name = locate(source).expanduser(), str(source)
        if isinstance(directory, RemotePath) or directory.is_dir():
            if not (directory / "config.json").exists():
                raise BadRequest(f"{directory}: no config.json in it; give the directory of a finished training run")
            return cls(local_copy(directory), origin=directory) if isinstance(directory, RemotePath) else cls(directory)
        if directory.exists() or isinstance(source, Path) or name.startswith((".", "/", "~")) or name.count("/") > 1:
            raise BadRequest(f"{name}: no such directory; train the stage that makes it first, or give a Hub id")
        return cls(downloaded(name), name)

    @cached_property
    def config(self) -> dict[str, Any]:
        """`config.json`, held against the weights."""
        config = read_settings(self.directory / "config.json")
        check_sizes(self.directory / "config.json", config, self.weights())
        return config

    @property
    def backbone(self) -> dict[str, Any]:
        """The part of `config.json` that shapes the language model: nested, or beside the latent's sizes."""
        nested = self.config.get("backbone_config")
        return nested if isinstance(nested, dict) else self.config

    @property
    def causal(self) -> bool:
        """Whether prompt and story are one sequence: the backbone is no encoder-decoder."""
        return self.backbone.get("model_type") not in ("bart", "discodvt", "discodvt-prior")

    @property
    def writes_text(self) -> bool:
        """Whether it was saved as a causal language model, and not as an encoder, if it says as what."""
        names = read_settings(self.directory / "config.json").get("architectures") or ["ForCausalLM"]
        return any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in names)

    @property
    def kind(self) -> str:
        """The model type: `discodvt`, `discodvt-prior`, `bart` or any other of transformers."""
        return str(read_settings(self.directory / "config.json").get("model_type"))

    @cached_property
    def generation(self) -> dict[str, Any]:
        """`generation_config.json`, its numbers checked; empty where there is none."""
        return read_generation(self.directory / "generation_config.json")

    @property
    def prior(self) -> "Checkpoint | None":
        """The prior that lies in the directory of a writer, if there is one."""
        directory = self.directory / "prior"
        return Checkpoint(directory) if (directory / "config.json").exists() else None

    @cached_property
    def lengths(self) -> Lengths:
        """The lengths kept with the model."""
        return Lengths.kept(
            int(self.backbone.get("max_position_embeddings") or self.backbone.get("n_positions") or PAPER_MAX_TOKENS),
            self.generation,
            prior=self.prior.generation if self.prior else {},
            max_codes=self.prior.config.get("max_codes", 0) if self.prior else 0,
            tokens_per_code=2 ** self.config.get("conv_layers", 0),
            shared=self.causal,
        )

    @cached_property
    def part(self) -> Part | None:
        """What `base.json` says, where only a part of the model is stored."""
        return Part.read(self.directory)

    @cached_property
    def base(self) -> "Checkpoint":
        """The checkpoint that has the rest of a part, found again and held against what the part was trained on."""
        part, note = self.part, self.directory / BASE
        assert part is not None
        directory = locate(part.base)
        if part.revision is not None:
            base = Checkpoint(downloaded(part.base, part.revision, asked_by=f"{self.directory}: its base "), part.base)
        elif (directory / "config.json").exists():
            base = Checkpoint.open(directory)
        else:
            raise BadRequest(f"{self.directory}: its base {part.base} is not there; put it back, or correct {note}")
        if base.model_type != part.model_type:
            found = f"is a {base.model_type}, it was trained on a {part.model_type}"
            raise BadRequest(f"{self.directory}: the wrong base, {part.base} {found}; correct {note}")
        if weights_hash(base.directory) != part.sha256:
            found = "are not those it was trained on (another revision, or trained since)"
            raise BadRequest(f"{self.directory}: the weights of its base {part.base} {found}; put those back")
        return base

    def as_base(self, *, inside: str) -> Part:
        """What a part that is trained on this checkpoint says of it. One without LoRA leaves its own base as it is."""
        if self.part is not None and self.part.lora is None:
            return self.part
        revision = self.directory.name if self.hub_id else None
        where = self.hub_id or str(self.origin or self.directory.resolve())
        return Part(where, revision, weights_hash(self.directory), self.model_type, inside)

    @property
    def model_type(self) -> str:
        """The kind of the language model; those made when BART was the only backbone do not name it."""
        kind = str(self.backbone.get("model_type"))
        return "bart" if kind.startswith("discodvt") else kind

    def weights(self, device: torch.device | str = "cpu") -> Weights:
        """The weights by name, on a device and in float32."""
        if self.part is None:
            return Weights(self.directory, device)
        base = self.base.weights(device)
        below = "generator." if self.base.kind == "discodvt" else ""
        return PartWeights(self.directory, self.part, base.under(below), device)

    def lora(self) -> dict[str, Tensor]:
        """The LoRA matrices of a part, by the names they have in its language model."""
        weights = self.weights()
        return weights.lora() if isinstance(weights, PartWeights) else {}

    def put_together(self, build: Callable[..., Any], *, merged: bool = True, **settings: Any) -> Any:
        """A part and its base by `build`, a `from_pretrained`; without `merged` LoRA is left out."""
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig

        part, weights = self.part, self.weights()
        assert part is not None
        assert isinstance(weights, PartWeights)
        base = self.base.load(AutoModelForSeq2SeqLM if self.base.kind == "bart" else AutoModelForCausalLM)
        language_model = base.generator if self.base.kind == "discodvt" else base
        state = {part.inside + name: weight for name, weight in language_model.state_dict().items()}
        if merged:
            state = {name: weights.with_lora(name, weight) for name, weight in state.items()}
        state |= {name: weights[name] for name in weights.own()}
        config, settings = AutoConfig.from_pretrained(self.directory, return_unused_kwargs=True, **settings)
        built = build(None, config=config, state_dict=state, **settings)
        if self.generation:
            model = built[0] if isinstance(built, tuple) else built
            model.generation_config = GenerationConfig.from_pretrained(self.directory)
        return built

    def tokenizer(self) -> "PreTrainedTokenizerBase":
        """The tokenizer as a Hugging Face object."""
        assert self.config  # checked first: transformers reads it too
        tokenizer = open_tokenizer(self.directory)
        self._check_vocabulary(len(tokenizer))
        return tokenizer

    def bare_tokenizer(self) -> Tokenizer:
        """The tokenizer without the layers transformers puts around it; `</s>` in a text is spelled like any word."""
        path = self.directory / "tokenizer.json"
        tokenizer = read_tokenizer(path) if path.exists() else open_tokenizer(self.directory).backend_tokenizer
        self._check_vocabulary(tokenizer.get_vocab_size())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        return tokenizer

    def require(self, *kinds: str) -> "Checkpoint":
        """Refuse a checkpoint of another model type."""
        if self.kind not in kinds:
            wanted = ", or ".join(_KINDS.get(kind, f"a {kind}") for kind in kinds)
            raise BadRequest(f"{self.directory}: a {self.kind} checkpoint; give {wanted}")
        return self

    def load(
        self,
        model_class: Any,
        *,
        device: torch.device | str = "cpu",
        may_lack: str = "",
        merged: bool = True,
        **changes: Any,
    ) -> Any:
        """The weights as a Hugging Face model in float32 and eval mode; `changes` are keys of its configuration.

        Weights that are not in the file are an error, except those with `may_lack` in their name. LoRA is merged into
        the weights, or left out.
        """
        from huggingface_hub.errors import StrictDataclassError
        from transformers import PreTrainedModel

        if isinstance(model_class, type) and issubclass(model_class, PreTrainedModel):
            self.require(str(getattr(model_class.config_class, "model_type", "")))
        try:
            with _quiet_loading():
                kind = self._check_fit(model_class, changes)
                settings = {"dtype": torch.float32, "output_loading_info": True, **changes}
                if self.part is None:
                    model, found = model_class.from_pretrained(self.directory, use_safetensors=True, **settings)
                else:
                    model, found = self.put_together(kind.from_pretrained, merged=merged, **settings)
        except (OSError, ValueError, RuntimeError, TypeError, SafetensorError, StrictDataclassError) as error:
            raise BadRequest(f"{self.directory}: it cannot be opened ({first_line(error)}); copy it again") from None
        missing = sorted(name for name in found["missing_keys"] if not may_lack or may_lack not in name)
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise BadRequest(f"{self.directory}: it lacks the weights {missing[0]}{more}; give a whole checkpoint")
        return model.to(device).eval()

    def _check_fit(self, model_class: Any, changes: dict[str, Any]) -> Any:
        """Refuse weights of other shapes than those of the model, which is built without memory to be compared.

        Returns the class of the model, which an Auto class chooses.
        """
        from transformers import AutoConfig

        assert self.config  # its layers are no more than there are weights
        shape, weights = AutoConfig.from_pretrained(self.directory, **changes), self.weights()
        with torch.device("meta"):
            empty = model_class(shape) if hasattr(model_class, "config_class") else model_class.from_config(shape)
        for name, tensor in empty.state_dict().items():
            if name in weights and weights.shape(name) != tuple(tensor.shape):
                found = f"{name} is {list(weights.shape(name))}, not {list(tensor.shape)}"
                raise BadRequest(f"{self.directory}: weights do not fit their config.json ({found}); copy it again")
        return type(empty)

    def _check_vocabulary(self, subwords: int) -> None:
        """A tokenizer of another model, or the rest of one, would write nothing or what nobody can read."""
        shape = self.backbone
        rows = shape.get("text_vocab_size") or shape.get("vocab_size")
        if rows is not None and not rows // 2 <= subwords <= rows:  # a model may have rows to spare
            facts = f"a tokenizer of {subwords:,} subwords, a model of {rows:,}"
            raise BadRequest(f"{self.directory}: {facts}; they do not belong together, copy the directory again")


def best_device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def quiet_libraries() -> None:
    """The terminal is this program's: no bar for every checkpoint, no lines about a Hub that does not answer."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging as transformers

    transformers.disable_progress_bar()
    hub.set_verbosity_error()


@contextmanager
def _quiet_loading() -> Iterator[None]:
    """Weights that are there and not wanted are no news; missing ones are looked for."""
    from transformers.utils import logging

    quiet_libraries()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
