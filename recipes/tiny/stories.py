"""Write toy stories as JSONL, {"prompt", "story"}: python recipes/tiny/stories.py 600 > stories.jsonl"""

import json
import random
import sys

NAMES = ("Ann", "Ben", "Clara", "Dan", "Eve", "Finn")
THINGS = ("ball", "cake", "hat", "kite", "book", "drum")
SENTENCES = (
    "{0} wanted the {2} because it was red.",
    "{0} found a {2} before {1} came home.",
    "{0} was sad, so {1} brought the {2}.",
    "{0} took the {2} and {1} laughed.",
    "Although {0} liked the {2}, {1} did not.",
    "Then {0} gave the {2} to {1}.",
)


def story(chance: random.Random) -> dict[str, str]:
    one, two = chance.sample(NAMES, 2)
    thing = chance.choice(THINGS)
    sentences = [chance.choice(SENTENCES).format(one, two, thing) for _ in range(chance.randint(3, 6))]
    return {"prompt": f"{one} and the {thing}", "story": " ".join(sentences)}


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    chance = random.Random(0)
    for _ in range(wanted):
        print(json.dumps(story(chance)))
