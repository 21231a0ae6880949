"""The score stage: the answers of a study in; `scores.json` and `judgements.csv` (a line a judgement) out.

Everything is computed twice: over the judges that the study's exclusion rule leaves (`kept`, the primary result), and
over all of them. The rule was fixed when the study was made; nobody's answers are deleted.
"""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from discodvt.artefacts import open_stage
from discodvt.errors import BadRequest
from discodvt.evaluation.intervals import LEVEL
from discodvt.evaluation.metric import Ints
from discodvt.judging.answers import ANSWERS, SIMULATED, Answer, last_answers, read_answers
from discodvt.judging.make_stage import StudyDirectory, open_study
from discodvt.judging.study_statistics import (
    OUTCOMES,
    Outcome,
    Tally,
    fleiss_kappa,
    holm,
    in_words,
    kappa_interval,
    krippendorff_alpha,
    majority,
    raw_agreement,
    sign_flip,
    sign_test,
    stars,
    win_interval,
)
from discodvt.resumable import read_json

STAGE = "judge score"
SCORES, JUDGEMENTS = "scores.json", "judgements.csv"
RESAMPLES = 10_000
SEED = 0


@dataclass(frozen=True, slots=True)
class JudgeRecord:
    """How a judge worked, and why the rule excludes him, if it does."""

    judge: str
    items: int
    checks: int
    passed: int
    fast: int  # items answered faster than they can be read
    excluded: str  # the reason; empty for none


def score_study(directory: Path, *, answers: Path | None = None, simulated: bool = False) -> dict[str, Any]:
    """Score a study directory; what was scored before is replaced. Returns what `scores.json` holds."""
    study = open_study(directory)
    prefix = SIMULATED if simulated else ""
    path = answers or directory / f"{prefix}{ANSWERS}"
    if answers is not None and not path.is_file():
        raise BadRequest(f"`answers` {path}: no such file", "answers")
    if not path.is_file():
        hint = (
            "simulate judges with `discodvt judge simulate`"
            if simulated
            else "collect some with `discodvt judge serve`"
        )
        raise BadRequest(f"{path}: no answers yet; {hint}")
    read = read_answers(path, study, simulated=simulated)
    if not any(study.key[answer.item].kind == "pair" for answer in read):
        raise BadRequest(f"{path}: no answers yet; let judges answer some items first")
    out = directory / f"{prefix}scores"
    with open_stage(
        out, STAGE, config={"study": study.hash, "simulated": simulated}, inputs=[path], overwrite=True
    ) as stage:
        scores = score_answers(study, read, simulated=simulated)
        excluded = {each["judge"] for each in scores["judges"] if each["excluded"]}
        stage.write_json(SCORES, scores)
        with stage.writing(JUDGEMENTS) as partial:
            partial.write_text(_long_csv(study, last_answers(read), excluded), encoding="utf-8", newline="")
        stage.finish(study=study.hash, simulated=simulated, judges=len(scores["judges"]), excluded=len(excluded))
    return read_json(out / SCORES)


def score_answers(study: StudyDirectory, answers: Sequence[Answer], *, simulated: bool = False) -> dict[str, Any]:
    """All statistics of a study, as `scores.json` holds them."""
    held = last_answers(answers)
    judges = [judge_record(study, name, answers) for name in dict.fromkeys(answer.judge for answer in answers)]
    excluded = {record.judge for record in judges if record.excluded}
    kept = [answer for answer in held if answer.judge not in excluded]
    return {
        "title": study.study.title,
        "study": study.hash,
        "simulated": simulated,
        "ours": study.study.ours,
        "rivals": study.study.rivals,
        "questions": [question.model_dump() for question in study.study.questions],
        "judges_per_item": study.study.judges_per_item,
        "exclusion": study.study.exclusion.model_dump(),
        "judges": [asdict(record) for record in judges],
        "kept": _results(study, kept),
        "all": _results(study, held),
    }


def judge_record(study: StudyDirectory, judge: str, answers: Iterable[Answer]) -> JudgeRecord:
    """A judge's checks, by his last word on the first question, and his speed, by his first answer to each item."""
    first = study.study.questions[0].id
    rule = study.study.exclusion
    own = [answer for answer in answers if answer.judge == judge]
    passed = [
        answer.chosen == study.key[answer.item].expected
        for answer in last_answers(own)
        if answer.question == first and study.key[answer.item].kind != "pair"
    ]
    spent = {answer.item: answer.ms for answer in reversed(own) if study.key[answer.item].kind == "pair"}
    fast = sum(1000 * study.items[item].words / rule.words_per_second > ms for item, ms in spent.items())
    reasons = []
    if passed and sum(passed) < rule.least_checks_passed * len(passed):
        reasons.append(f"{sum(passed)} of {len(passed)} checks passed")
    if spent and fast > rule.most_fast * len(spent):
        reasons.append(f"{fast} of {len(spent)} items too fast to be read")
    return JudgeRecord(judge, len(spent), len(passed), sum(passed), fast, "; ".join(reasons))


def _results(study: StudyDirectory, held: Sequence[Answer]) -> dict[str, Any]:
    pairs = [answer for answer in held if study.key[answer.item].kind == "pair"]
    tests = [
        _compare(study, [answer for answer in pairs if answer.question == question.id], rival, question.id)
        for rival in study.study.rivals
        for question in study.study.questions
    ]
    for test, adjusted in zip(tests, holm([test["p"] for test in tests]), strict=True):
        test |= {"p_holm": adjusted, "stars": stars(adjusted)}
    sides = {question.id: _side_bias(pairs, question.id) for question in study.study.questions}
    return {"comparisons": tests, "side_bias": sides, "judges": len({answer.judge for answer in held})}


def _compare(study: StudyDirectory, answers: Sequence[Answer], rival: str, question: str) -> dict[str, Any]:
    """One line of the paper's Table 4: one rival, one question."""
    wanted = study.study.judges_per_item
    cast: dict[str, list[Outcome]] = {item: [] for item in study.pairs if study.key[item].rival == rival}
    for answer in answers:
        if answer.item in cast:
            cast[answer.item].append(outcome(study, answer))
    # More votes than were asked for (a lease that ran out): the first ones count.
    votes = _count(each[:wanted] for each in cast.values())
    decisions = Counter(majority(row, wanted) for row in votes.tolist())
    by_item = Tally(decisions["win"], decisions["lose"], decisions["tie"] + decisions["split"])
    pooled = Tally(*votes.sum(axis=0).tolist())
    complete = votes[votes.sum(axis=1) == wanted] if wanted > 1 else votes[:0]
    kappa = fleiss_kappa(complete)
    p_pooled = sign_test(pooled, sides="one")
    decision, interval = f"majority-of-{wanted}|splits:tie", f"level:{LEVEL}|"
    return {
        "rival": rival,
        "question": question,
        "items": by_item.n,
        "win": by_item.win,
        "lose": by_item.lose,
        "tie": by_item.tie,
        "splits": decisions["split"],
        "open": decisions["open"],
        "p": sign_test(by_item),
        "win_share": by_item.win / by_item.decided if by_item.decided else None,
        "win_interval": win_interval(by_item),
        "paper_reading": asdict(pooled) | {"p": p_pooled, "stars": stars(p_pooled)},
        "p_sign_flip": sign_flip(votes, flips=RESAMPLES, seed=SEED),
        "kappa": kappa,
        "kappa_interval": kappa_interval(complete, resamples=RESAMPLES, seed=SEED),
        "kappa_words": in_words(kappa) if kappa is not None else None,
        "kappa_items": len(complete),
        "agreement": raw_agreement(complete),
        "alpha": krippendorff_alpha(votes),
        "signatures": {
            "p": f"test:sign-exact|sides:two|unit:item|decision:{decision}|ties:dropped|adjusted:holm",
            "win_interval": f"interval:wilson|{interval}unit:decided-item",
            "paper_reading": "test:sign-exact|sides:one|unit:judgement|ties:dropped|adjusted:none",
            "p_sign_flip": f"test:sign-flip|sides:two|unit:item|flips:{RESAMPLES}|seed:{SEED}",
            "kappa": f"kappa:fleiss|interval:percentile-bootstrap|{interval}draws:{RESAMPLES}|unit:item|seed:{SEED}",
            "alpha": "alpha:krippendorff|metric:nominal|unit:item",
        },
    }


def outcome(study: StudyDirectory, answer: Answer) -> Outcome:
    """A choice as seen from our system."""
    if answer.chosen == "tie":
        return "tie"
    return "win" if answer.chosen == study.key[answer.item].ours else "lose"


def _count(items: Iterable[Sequence[Outcome]]) -> Ints:
    return np.array([[votes.count(kind) for kind in OUTCOMES] for votes in items], dtype=np.int64).reshape(-1, 3)


def _side_bias(answers: Sequence[Answer], question: str) -> dict[str, Any]:
    """How often the left story was chosen where a side was chosen at all."""
    chosen = Counter(answer.choice for answer in answers if answer.question == question)
    n = chosen["left"] + chosen["right"]
    p = float(binomtest(chosen["left"], n).pvalue) if n else 1.0
    return {"left": chosen["left"], "n": n, "share": chosen["left"] / n if n else None, "p": p}


def _long_csv(study: StudyDirectory, answers: Sequence[Answer], excluded: Collection[str]) -> str:
    numbers: dict[str, int] = defaultdict(lambda: len(numbers) + 1)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = "judge excluded simulated item kind ours rival question outcome chosen_side left position ms time"
    writer.writerow(head.split())
    for answer in answers:
        key = study.key[answer.item]
        pair = key.kind == "pair"
        result = outcome(study, answer) if pair else ("passed" if answer.chosen == key.expected else "failed")
        left = (study.study.ours if answer.left == key.ours else key.rival) if pair else answer.left
        row = [numbers[answer.judge], answer.judge in excluded, answer.simulated, answer.item, key.kind]
        row += [_cell(study.study.ours) if pair else "", _cell(key.rival), answer.question, result, answer.choice]
        writer.writerow([*row, _cell(left), answer.position, answer.ms, answer.time])
    return out.getvalue()


def _cell(text: str) -> str:
    """What a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
