"""What a report is made of: stage directories, recognised by their manifests and gathered by system.

A RUN is `DIR` or `NAME=DIR`; a system's name is the directory's own unless one is given, and runs of one name are one
system. A system whose stories are the references is the references.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discodvt.artefacts import MANIFEST, read_manifest
from discodvt.errors import BadRequest
from discodvt.evaluation.evaluate_files import PAIRS, SCORES
from discodvt.evaluation.scores import Mode
from discodvt.resumable import read_json
from discodvt.storage import locate

WITHOUT = " w/o "
# The stages a report reads and the file each leaves; named here because their modules load PyTorch.
EVALUATE, DISCOURSE, STUDY, MEASURE = "evaluate", "discourse-score", "codes study", "codes measure"
HUMAN = "judge score"
CONTENTS = {EVALUATE: SCORES, DISCOURSE: "discourse.json", STUDY: "codes.json", MEASURE: "figures.json"}
CONTENTS |= {HUMAN: "scores.json"}


@dataclass(frozen=True, slots=True)
class StageRun:
    """One stage directory: its manifest and the JSON it holds."""

    name: str
    directory: Path
    manifest: dict[str, Any]
    content: dict[str, Any]

    @property
    def stage(self) -> str:
        return str(self.manifest["stage"])

    @property
    def kind(self) -> str:
        """Which tables it belongs to: of an evaluation the mode, else the stage."""
        return str(self.config["mode"]) if self.stage == EVALUATE else self.stage

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.manifest["config"]
        return config

    @property
    def files(self) -> dict[str, str]:
        """Of a run that scored stories: the hashes of stories, references and the stories compared against."""
        files: dict[str, str] = self.config.get("files", {})
        return files

    @property
    def is_reference(self) -> bool:
        return bool(self.files) and self.files["stories"] == self.files["references"]

    @property
    def compared_with_references(self) -> bool:
        return bool(self.files) and self.files.get("against") == self.files["references"]


@dataclass(slots=True, eq=False)
class ReportedSystem:
    """All runs of one system, in the order given."""

    name: str
    runs: list[StageRun] = field(default_factory=list)

    @property
    def ablation_of(self) -> str | None:
        """The system this one is without something: `X w/o Y` is X's ablation."""
        whole, without, _ = self.name.partition(WITHOUT)
        return whole if without else None

    @property
    def is_reference(self) -> bool:
        return any(run.is_reference for run in self.runs)

    @property
    def story_files(self) -> set[str]:
        return {run.files["stories"] for run in self.runs if run.files}

    @property
    def evaluations(self) -> list[StageRun]:
        return self.of_stage(EVALUATE)

    def of_stage(self, stage: str) -> list[StageRun]:
        return [run for run in self.runs if run.stage == stage]

    def run_of(self, *stages: str) -> StageRun | None:
        """Its run of the first of these stages that it has."""
        return next((run for stage in stages for run in self.of_stage(stage)), None)

    def scored(self, mode: Mode) -> StageRun | None:
        """Its scores in a mode: all evaluations of one mode and one file of stories hold the same."""
        return next((run for run in self.evaluations if run.config["mode"] == mode), None)

    def pairs(self) -> Iterator[dict[str, Any]]:
        """Its stories beside their references, where a run kept them."""
        path = next((run.directory / PAIRS for run in self.evaluations if (run.directory / PAIRS).is_file()), None)
        if path is not None:
            with path.open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)


def read_runs(requests: Sequence[str]) -> list[ReportedSystem]:
    """The systems of all runs, in the order they were first named; runs that do not belong together are refused."""
    if not requests:
        raise BadRequest(
            "no runs; give directories of `discodvt evaluate`, `discodvt discourse score`, `discodvt codes`"
        )
    systems: dict[str, ReportedSystem] = {}
    for run in map(_read, requests):
        system = systems.setdefault(run.name, ReportedSystem(run.name))
        _check_place(system, run)
        system.runs.append(run)
    runs = [run for system in systems.values() for run in system.runs]
    for stage, option in ((EVALUATE, "look_back"), (DISCOURSE, "swap_arg2")):
        _check_alike([run for run in runs if run.stage == stage], option)
    return list(systems.values())


def _read(request: str) -> StageRun:
    name, named, path = request.partition("=")
    if not named or locate(request).is_dir():
        name, path = locate(request).resolve().name, request
    if not name.strip() or not path:
        raise BadRequest(f"{request!r}: expected DIR or NAME=DIR")
    directory = locate(path)
    manifest = read_manifest(directory)
    stage = manifest.get("stage")
    if stage not in CONTENTS:
        expected = ", ".join(f"`{each}`" for each in CONTENTS)
        made = f"made by `{stage}`" if stage else f"its {MANIFEST} is not of discodvt"
        raise BadRequest(f"{directory}: {made}; a report is made of {expected}")
    content = directory / CONTENTS[stage]
    if not content.is_file():
        raise BadRequest(f"{content}: missing, although its manifest is there; run its command again")
    return StageRun(name.strip(), directory, manifest, read_json(content))


def _check_place(system: ReportedSystem, run: StageRun) -> None:
    """Of each stage a system has one run; of `evaluate` several, of the same stories."""
    for held in system.of_stage(run.stage):
        if run.stage != EVALUATE or held.files["stories"] != run.files["stories"]:
            raise BadRequest(
                f"{run.directory}: system {run.name!r} has other {run.stage} results, {held.directory}; "
                "name the systems, NAME=DIR"
            )


def _check_alike(runs: Sequence[StageRun], option: str) -> None:
    """Scores are in one table only when they were counted alike against the same references."""
    for run in runs[1:]:
        if run.files["references"] != runs[0].files["references"]:
            raise BadRequest(
                f"{run.directory}: scored against other references than {runs[0].directory}; "
                "report systems of one set of references"
            )
        if run.files.get("classifier") != runs[0].files.get("classifier"):
            raise BadRequest(f"{run.directory}: another classifier than {runs[0].directory}; score both with one")
        if run.config[option] != runs[0].config[option]:
            raise BadRequest(f"{run.directory}: `{option}` differs from {runs[0].directory}; score both alike")
