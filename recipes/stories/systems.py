"""Make three systems of the stories people and models wrote: python recipes/stories/systems.py DATA OUT

`human.jsonl`: one human story to each test prompt that models wrote to as well, the references. `model.jsonl`: one
model's story to each. `other-prompt.jsonl`: human stories of the same sources from the valid split, given out under the
test prompts, as a floor: stories of the same kind that know nothing of the prompt.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path


def read(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def main(data: Path, out: Path) -> None:
    first: dict[str, dict[str, dict[str, str]]] = {"human": {}, "model": {}}
    for record in read(data / "test.jsonl.gz"):
        first[record["author"]].setdefault(record["prompt"], record)
    prompts = [prompt for prompt in first["human"] if prompt in first["model"]]
    sources = {first["human"][prompt]["source"] for prompt in prompts}
    valid = read(data / "valid.jsonl.gz")
    others = [record for record in valid if record["author"] == "human" and record["source"] in sources]
    systems = {name: [stories[prompt] for prompt in prompts] for name, stories in first.items()}
    systems["other-prompt"] = others[: len(prompts)]
    out.mkdir(parents=True, exist_ok=True)
    for name, stories in systems.items():
        with (out / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for number, (prompt, told) in enumerate(zip(prompts, stories, strict=True), start=1):
                record = {"id": f"test-{number}", "prompt": prompt, "story": told["story"]}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    print(f"{len(prompts)} prompts")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
