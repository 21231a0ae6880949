"""Training a part of a model: LoRA (Hu et al. 2022, by PEFT) or the plan alone, around a language model that stays.

A checkpoint of such a run holds what was trained and names its base (`discodvt.stored_weights.Part`). PEFT puts its
layers into the language model in place, for training only: whoever opens the checkpoint gets merged weights, and
`discodvt merge` writes them as a whole model, which needs neither PEFT nor the base.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.pytorch_utils import Conv1D

from discodvt.artefacts import MANIFEST, REQUEST, open_stage
from discodvt.checkpoints import Checkpoint
from discodvt.config import Lora, NewBackbone
from discodvt.errors import BadRequest
from discodvt.stored_weights import BASE, PEFT_NAME, TRAINED, Part, writing_weights
from discodvt.training.assembly import FromScratch
from discodvt.training.weights import source_checkpoint


class TunedRecipe(FromScratch):
    """A stage that may train a part of its model (`model.tune`)."""

    lora: Lora = Lora()

    def contradictions(self) -> list[str]:
        wrong, tune = super().contradictions(), self.value("model.tune")
        if tune == "lora" and (self.model.shape is not None or self.model.random_init):
            wrong.append("model.tune: lora changes trained weights a little, and these are random; set it to all")
        if tune != "lora" and "lora" in self.model_fields_set:
            wrong.append(f"lora: of use with model.tune=lora only, it is {tune}; leave the section out")
        return wrong

    def as_dict(self) -> dict[str, Any]:
        """Without settings that are of no use to the run."""
        values = super().as_dict()
        if self.value("model.tune") != "lora":
            del values["lora"]
        return values


def begin_part(
    language_model: Any, settings: NewBackbone, *, tune: str, lora: Lora, inside: str, last: Path | None
) -> Part | None:
    """Prepare the language model (named `inside` in the whole model) for its part in a run, new or resumed.

    Returns what the run's checkpoints say of their base; None: they hold the whole model.
    """
    if tune not in ("lora", "plan") or settings.shape is not None or settings.random_init:
        return None
    resumed = None if last is None else Checkpoint.open(last)
    part = source_checkpoint(settings).as_base(inside=inside) if resumed is None else resumed.part
    if part is None or tune != "lora":
        return part
    part = replace(part, lora=add_lora(language_model, lora))
    if resumed is not None:
        named = dict(language_model.named_parameters())
        for name, weight in resumed.lora().items():
            named[name.replace(".weight", f"{PEFT_NAME}weight")].data.copy_(weight)
    return part


def add_lora(language_model: Any, settings: Lora) -> dict[str, Any]:
    """Put LoRA into a language model, whose own weights are frozen; returns its settings, for `base.json`."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise BadRequest("model.tune: lora needs PEFT; pip install 'discodvt[lora]'") from None
    head, wanted = language_model.get_output_embeddings(), settings.target_modules
    listed = [] if isinstance(wanted, str) else wanted
    for name, module in language_model.named_modules():
        if name.rpartition(".")[2] in listed and (module is head or isinstance(module, nn.Embedding)):
            raise BadRequest(f"lora.target_modules: {name}: embeddings and output layer stay as they are; leave it out")
    transposed = any(isinstance(module, Conv1D) for module in language_model.modules())  # GPT-2's linear layers
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]  # any number will do
        lora_dropout=settings.dropout,
        target_modules=wanted,
        fan_in_fan_out=transposed,
    )
    try:
        inject_adapter_in_model(config, language_model)
    except ValueError:
        named = ", ".join(listed) or wanted
        raise BadRequest(f"lora.target_modules: {named}: no such linear layers in the model; name others") from None
    return settings.model_dump() | {"fan_in_fan_out": transposed}


_NOT_COPIED = {BASE, TRAINED, MANIFEST, REQUEST, "config.json", "generation_config.json", "metrics.jsonl"}


def merge(source: str | Path, directory: Path, *, overwrite: bool = False) -> Path:
    """Write the whole model of a part into a directory, with its tokenizer, card and prior."""
    checkpoint = Checkpoint.open(source)
    if checkpoint.part is None:
        raise BadRequest(f"{source}: a whole model already, there is nothing to merge; use it as it is")
    if directory.resolve() == checkpoint.directory.resolve():
        raise BadRequest(f"{directory}: the checkpoint itself; choose another directory", parameter="out")
    inputs = [checkpoint.directory / name for name in (TRAINED, BASE)]
    with open_stage(
        directory, "merge", config={"checkpoint": checkpoint.name}, inputs=inputs, overwrite=overwrite
    ) as out:
        if out.complete:
            return directory
        kind = AutoModelForSeq2SeqLM if checkpoint.kind == "bart" else AutoModelForCausalLM
        with out.writing_folder() as folder, writing_weights(folder):
            checkpoint.load(kind).save_pretrained(folder)
            for path in sorted(checkpoint.directory.iterdir()):
                if path.is_file() and path.name not in _NOT_COPIED and not path.name.startswith("."):
                    shutil.copyfile(path, folder / path.name)
            if checkpoint.prior is not None:
                shutil.copytree(checkpoint.prior.directory, folder / "prior", dirs_exist_ok=True)
        out.finish(base=str(checkpoint.part))
    return directory
