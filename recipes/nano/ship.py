"""Put a trained writer into the package: half precision, its own settings, a card with unselected stories.

usage: python recipes/nano/ship.py runs/nano/weak-plans runs/nano/meanings recipes/nano/card.md [OUT]
       python recipes/nano/ship.py recipes/nano/card.md    (only the card of what is in the package)

The card is written by hand (data, compute, held-out figures, limits); the stories are added here. Of the code study
(`discodvt codes study`) what its pages say of a code goes along.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from backbone import NOTICE
from safetensors.torch import load_file, save_file

from discodvt import StoryWriter

PROMPTS = ("The fox who lost his hat", "Once upon a time, there was a little girl named Lily.")
OWN = {  # the model's own lengths, and at which settings it is fluent and keeps to its prompt; chosen on valid
    "": {
        "min_new_tokens": 40,
        "max_new_tokens": 512,
        "prompt_tokens": 48,
        "temperature": 0.7,
        "repetition_penalty": 1.06,
        "prompt_bias": 1.4,
    },
    "prior": {"min_new_tokens": 16, "temperature": 0.6},
}
PLANS = {"plan_strength": 0.45, "plan_tail": 16}
SAID = ("code", "share", "grams", "markers", "place")
TRAINING = ("token_head.", "prior.")  # parts of training only
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def ship(writer: Path, study: Path, card_file: Path, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    for part, own in OWN.items():
        (out / part).mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "generation_config.json", *(() if part else TOKENIZER)):
            shutil.copy(writer / part / name, out / part / name)
        weights = load_file(writer / part / "model.safetensors")
        halves = {name: weight.to(torch.float16) for name, weight in weights.items() if not name.startswith(TRAINING)}
        save_file(halves, out / part / "model.safetensors", metadata={"format": "pt"})
        path = out / part / "generation_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | own, indent=2, sort_keys=True) + "\n")
    config = out / "config.json"
    settings = json.loads(config.read_text()) | PLANS
    config.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
    entries = json.loads((study / "codes.json").read_text(encoding="utf-8"))["codes"]
    meanings = {"codes": [{name: entry[name] for name in SAID} for entry in entries]}
    (out / "codes.json").write_text(json.dumps(meanings, ensure_ascii=False) + "\n", encoding="utf-8")
    write_card(card_file, out)


def write_card(card_file: Path, out: Path) -> None:
    """README.md of the storyteller: the card, the notice and what it writes now."""
    notice = ["## License of the model it starts from", "", NOTICE.rstrip(), ""]
    card = [card_file.read_text(encoding="utf-8").rstrip(), "", *notice, "## Ten unselected stories", ""]
    storyteller = StoryWriter.from_pretrained(out)
    for prompt in PROMPTS:
        for seed in range(5):
            story = storyteller.write(prompt, seed=seed)
            plan = " ".join(map(str, story.plan))
            card += [f"**{prompt}** (seed {seed}, finish: {story.finish})", "", f"`{plan}`", "", story.text, ""]
    (out / "README.md").write_text("\n".join(card), encoding="utf-8")


if __name__ == "__main__":
    target = Path("src/discodvt/assets/storyteller")
    given = [Path(word) for word in sys.argv[1:]]
    write_card(given[0], target) if len(given) == 1 else ship(*(*given, target)[:4])
