"""From a grid to its steps: each a command of `discodvt` with one output, in an order in which each finds its inputs.

Outputs are named by content: a hash of the command, of the whole recipe, of the files it starts from and, through their
names, of all that comes before. So cells that share a beginning share its directories, and a grid that was changed
makes again only what the change concerns.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discodvt.artefacts import file_hash
from discodvt.corpus import ANNOTATED_SCHEMA, split_files
from discodvt.corpus.records import columns_of
from discodvt.errors import BadRequest
from discodvt.experiments.grid import ChainLink, Grid, StageSettings, Value
from discodvt.experiments.grid_steps import Cell, Kind, Plan, Row, Step, lineage
from discodvt.experiments.space import overrides_of
from discodvt.training.assembly import Recipe
from discodvt.training.recipes import read_recipe

LEAVE_PLANS = ("warm-start", "codes", "reconstruct")  # stages whose checkpoint is a DiscoDVT
ONLY_WRITE = {
    "prior": "a whole writer",
    "cvae": "a BART-CVAE",
    "scorer": "a rescorer",
}  # nothing is trained on from them


def make_plan(grid: Grid, out: Path) -> Plan:
    """Every recipe of the grid is read and checked here, before the first step."""
    planner = _Planner(grid, out.absolute())
    rows = tuple(planner.rows())
    return Plan(grid, out, tuple(planner.steps.values()), rows)


@dataclass
class _Planner:
    grid: Grid
    out: Path
    steps: dict[Path, Step] = field(default_factory=dict)
    hashes: dict[Path, list[str]] = field(default_factory=dict)  # of the files of what is given
    within: list[str] = field(default_factory=list)  # stages that are being planned, each for the one before

    def rows(self) -> Iterator[Row]:
        main: dict[str, Row] = {}
        names = [self.grid.main] if self.grid.main else []
        for system in dict.fromkeys([*names, *self.grid.systems]):
            settings = self.grid.systems[system]
            for corpus in settings.corpora or self.grid.evaluated:
                cells = tuple(self._cell(system, corpus, seed) for seed in settings.seeds or self.grid.seeds)
                row = self._row(system, corpus, cells, main.get(corpus))
                if system == self.grid.main:
                    main[corpus] = row
                yield row

    def _row(self, system: str, corpus: str, cells: tuple[Cell, ...], main: Row | None) -> Row:
        evaluation = self.grid.evaluation
        stories = [cell.stories for cell in cells]
        files = [str(step.output) for step in stories]
        asked = self._prompts(corpus)
        resamples = ["--resamples", str(evaluation.resamples)]
        words = ["evaluate", *files, "--references", str(asked.output), *resamples]
        scores = self._add("evaluate", corpus, system, words, [*stories, asked])
        compared = discourse = None
        if main is not None:
            others = [cell.stories for cell in main.cells]
            against = [word for step in others for word in ("--against", str(step.output))]
            compared = self._add("compare", corpus, system, [*words, *against], [*stories, *others, asked])
        if evaluation.discourse:
            classifier = self._classifier(corpus)
            words = ["discourse", "score", *files, "--references", str(asked.output)]
            words += ["--classifier", str(classifier.output), *resamples]
            discourse = self._add("discourse", corpus, system, words, [*stories, asked, classifier])
        return Row(system, corpus, cells, scores, compared, discourse)

    def _cell(self, system: str, corpus: str, seed: int) -> Cell:
        settings = self.grid.systems[system]
        chain: dict[str, Step] = {}
        before: Step | None = None
        for link in settings.links:
            before = chain[link.stage] = self._stage(system, link, corpus, seed, before, chain)
        assert before is not None
        asked = self._prompts(corpus)
        words = ["generate", "--model", str(before.output), "--prompts", str(asked.output), "--seed", str(seed)]
        words += [*self.grid.generate, *settings.generate]
        label = f"{system}-{seed}"
        stories = self._add("generate", corpus, label, words, [before, asked], file=".jsonl", flag="--output")
        measured = study = None
        has_codes = before.recipe is not None and before.recipe.stage == "prior"
        if self.grid.evaluation.codes and has_codes and seed == (settings.seeds or self.grid.seeds)[0]:
            data = self._corpus(corpus)
            paths = [str(before.output), str(data.output)]
            words = ["codes", "measure", *paths, "{out}", *self.grid.evaluation.measure]
            measured = self._add("measure", corpus, label, words, [before, data])
            words = ["codes", "study", *paths, "{out}", *self.grid.evaluation.study]
            study = self._add("study", corpus, label, words, [before, data])
        return Cell(system, corpus, seed, tuple(lineage(before)), stories, measured, study)

    def _stage(
        self,
        system: str,
        link: ChainLink,
        cell_corpus: str,
        cell_seed: int,
        before: Step | None,
        chain: dict[str, Step],
    ) -> Step:
        """The run of a stage in the chain of a cell, or alone (`{NAME}` of a stage that the chain has not)."""
        settings = self.grid.stages[link.stage]
        corpus = settings.corpus or cell_corpus
        seed = cell_seed if settings.seed is None else settings.seed
        if settings.after is not None:
            before = self._named(settings.after, system, cell_corpus, cell_seed, chain)
        data = self._corpus(corpus)
        places: dict[str, Step] = {"corpus": data}
        values = settings.set | link.set
        for text in (*map(str, values.values()), *(settings.command or ())):
            for name in re.findall(r"\{([\w.-]+)\}", text):
                if name not in ("out", "corpus", "before", "seed"):
                    places[name] = self._named(name, system, cell_corpus, cell_seed, chain)
        if before is not None:
            places["before"] = before
        after = list(dict.fromkeys(places.values()))
        if settings.command is not None:
            words = [_filled(word, places, seed) for word in settings.command]
            return self._add("make", corpus, f"{link.stage}-{seed}", words, after)
        filled = {key: _filled(value, places, seed) for key, value in values.items()}
        return self._training(f"systems.{system}", link.stage, settings, filled, corpus, seed, before, after)

    def _named(self, name: str, system: str, corpus: str, seed: int, chain: dict[str, Step]) -> Step:
        if name in chain:
            return chain[name]
        if name not in self.grid.stages:
            raise BadRequest(f"systems.{system}: {{{name}}} names no stage; there are {', '.join(self.grid.stages)}")
        if name in self.within:
            raise BadRequest(f"stages: {' needs '.join([*self.within, name])}; no stage can come before itself")
        self.within.append(name)
        chain[name] = self._stage(system, ChainLink(stage=name), corpus, seed, None, chain)
        self.within.pop()
        return chain[name]

    def _training(
        self,
        where: str,
        name: str,
        settings: StageSettings,
        values: Mapping[str, Value],
        corpus: str,
        seed: int,
        before: Step | None,
        after: Sequence[Step],
    ) -> Step:
        overrides = [f"seed={seed}"]
        if "data.corpus" not in values:
            overrides.append(f"data.corpus={json.dumps(str(self._corpus(corpus).output))}")
        if before is not None and "model.init" not in values:
            overrides += ["model.shape=", "tokenizer=", f"model.init={json.dumps(str(before.output))}"]
        overrides += overrides_of(values)
        try:
            recipe = read_recipe(str(settings.recipe), overrides)
        except BadRequest as error:
            raise BadRequest(f"{where}: stage {name}: {error}") from None
        _check_start(f"{where}: stage {name}", recipe, before)
        words = ["train", str(settings.recipe), "--resume"]
        words += [word for override in overrides for word in ("--set", override)]
        told = json.dumps(recipe.as_dict(), sort_keys=True)
        identity = " ".join([told, *self._given([str(recipe.data.corpus), *recipe.sources])])
        return self._add(
            "train", corpus, f"{name}-{seed}", words, after, recipe=recipe, identity=identity, flag="--out"
        )

    def _corpus(self, name: str) -> Step:
        """The corpus of a name: annotated, unless it says otherwise."""
        settings = self.grid.corpora[name]
        before: list[Step] = []
        if settings.corpus is not None:
            source = settings.corpus
            if not source.is_dir():
                raise BadRequest(f"corpora.{name}.corpus: {source}: no such directory; run `discodvt prepare` first")
            if not settings.annotate or _annotated(source):
                return Step("given", f"{name}: corpus", source.absolute(), ())
        else:
            words = ["prepare", *(settings.prepare or [])]
            named = [Path(word) for word in words if Path(word).exists()]
            inside = (file for path in named if path.is_dir() for file in sorted(path.rglob("*")) if file.is_file())
            hashes = [file_hash(file) for file in (*filter(Path.is_file, named), *inside)]
            prepared = self._add("prepare", name, "corpus", [*words, "{out}"], [], identity=" ".join([*words, *hashes]))
            if not settings.annotate:
                return prepared
            source, before = prepared.output, [prepared]
        return self._add("annotate", name, "annotated", ["annotate", str(source), "{out}"], before)

    def _prompts(self, corpus: str) -> Step:
        data = self._corpus(corpus)
        words = ["prompts", str(data.output), str(self.grid.corpora[corpus].prompts), "{out}"]
        return self._add("prompts", corpus, "prompts", words, [data], file=".parquet")

    def _classifier(self, corpus: str) -> Step:
        data = self._corpus(corpus)
        words = ["discourse", "fit", str(data.output), "{out}", *self.grid.evaluation.classifier]
        return self._add("classifier", corpus, "classifier", words, [data])

    def _given(self, names: Iterable[str]) -> Iterator[str]:
        """Hashes of the files, corpora and models among these names that no step of the grid makes."""
        for path in map(Path, names):
            if path.exists() and not path.absolute().is_relative_to(self.out):
                if path not in self.hashes:
                    inside = sorted([*path.glob("*.parquet"), *path.glob("*.safetensors")])
                    self.hashes[path] = [file_hash(file) for file in ([path] if path.is_file() else inside)]
                yield from self.hashes[path]

    def _add(
        self,
        kind: Kind,
        corpus: str,
        label: str,
        words: Sequence[str],
        after: Sequence[Step],
        *,
        recipe: Recipe | None = None,
        identity: str | None = None,
        file: str = "",
        flag: str | None = None,
    ) -> Step:
        """A step whose output is named by its content; the one that is there already, where there is one."""
        content = json.dumps([kind, identity or [*words, *self._given(words)]]).replace(
            json.dumps(str(self.out))[1:-1], ""
        )
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        stem = "".join(letter if letter.isalnum() or letter in ".-_" else "_" for letter in label)
        output = self.out / kind / corpus / f"{stem}-{digest}{file}"
        if output not in self.steps:
            command = [word.replace("{out}", str(output)) for word in words]
            if command == list(words) and kind in ("evaluate", "compare", "discourse"):
                flag = "--out"
            command += [flag, str(output)] if flag else []
            self.steps[output] = Step(kind, f"{corpus}: {kind} {label}", output, tuple(command), tuple(after), recipe)
        return self.steps[output]


def _check_start(where: str, recipe: Recipe, before: Step | None) -> None:
    """Refuse a chain whose stage cannot start from what the one before it leaves."""
    if before is None or recipe.model.init != str(before.output):
        return
    if before.recipe is None:
        raise BadRequest(f"{where}: starts from {before.name}, which leaves no checkpoint; put a training before it")
    found = before.recipe.stage
    left = "a DiscoDVT" if found in LEAVE_PLANS else ONLY_WRITE.get(found, "a language model")
    if recipe.stage == "prior":
        fine, wanted = left == "a DiscoDVT", "a DiscoDVT"
    elif recipe.stage in LEAVE_PLANS:
        fine, wanted = found not in ONLY_WRITE, "a language model or a DiscoDVT"
    else:
        fine, wanted = left == "a language model", "a language model"
    if not fine:
        raise BadRequest(f"{where}: starts from {found}, which leaves {left}; {recipe.stage} needs {wanted}")


def _filled(value: Any, places: Mapping[str, Step], seed: int) -> Any:
    """A value with `{NAME}` replaced by directories; `{out}` is left for later."""
    if not isinstance(value, str):
        return value
    for name, step in places.items():
        value = value.replace(f"{{{name}}}", str(step.output))
    return value.replace("{seed}", str(seed))


def _annotated(directory: Path) -> bool:
    return all(set(ANNOTATED_SCHEMA.names) <= set(columns_of(path)) for path in split_files(directory).values())
