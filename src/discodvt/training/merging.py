"""`discodvt merge`: from a checkpoint that holds only what was trained to a whole model, without PEFT and its base."""

import shutil
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from discodvt.artefacts import MANIFEST, REQUEST, open_stage
from discodvt.checkpoints import Checkpoint
from discodvt.errors import BadRequest
from discodvt.stored_weights import BASE, TRAINED

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
        with out.writing_folder() as folder:
            checkpoint.load(kind).save_pretrained(folder)
            for path in sorted(checkpoint.directory.iterdir()):
                if path.is_file() and path.name not in _NOT_COPIED and not path.name.startswith("."):
                    shutil.copyfile(path, folder / path.name)
            if checkpoint.prior is not None:
                shutil.copytree(checkpoint.prior.directory, folder / "prior", dirs_exist_ok=True)
        out.finish(base=str(checkpoint.part))
    return directory
