"""The search stage: many trainings of one recipe with values from a space, by Optuna (Akiba et al. 2019).

A directory holds `study.db` (SQLite, Optuna's), `trials/NNNN/` (each the stage directory of one training), and in the
end `best.toml` (the recipe of the best trial), `trials.csv`, `importance.svg` and `search.json`. Any number of
processes may work on it. Each holds a lock on its trial for as long as it lives, so a trial whose process was killed is
known by its lock being free: the next process takes it up where its training stands. No trial is lost, none is made
twice. A trial's value is that by which its own best checkpoint is chosen (`validation.select_by`).
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from discodvt.artefacts import MANIFEST, REQUEST
from discodvt.errors import BadRequest, WorkFailed
from discodvt.experiments.space import Space, Value, overrides_of, with_values
from discodvt.resumable import differences
from discodvt.training.assembly import Recipe
from discodvt.training.outputs import METRICS, read_metrics
from discodvt.training.run import train

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

STUDY = "study.db"
TRIALS = "trials"
MOST_DRAWS = 1000  # for a combination that no trial has yet


class SearchEvent(NamedTuple):
    """What happens to a trial: it starts, makes steps, is validated, and ends complete, pruned or failed."""

    kind: Literal["start", "step", "valid", "complete", "pruned", "failed"]
    trial: int
    values: dict[str, Value]
    step: int = 0
    total: int = 0
    value: float | None = None
    message: str = ""


@dataclass
class Search:
    """A study in its directory; every process that works on it has one of these."""

    recipe: str
    space: Space
    out: Path
    trials: int
    overrides: Sequence[str] = ()
    seed: int = 0
    pruning: bool = True
    base: Recipe = field(init=False)

    def __post_init__(self) -> None:
        self.base = with_values(self.recipe, self.overrides, {})
        if self.trials > self.space.size:
            raise BadRequest(
                f"`trials` {self.trials}: the space has {self.space.size:.0f} combinations; ask for no more", "trials"
            )

    @property
    def maximize(self) -> bool:
        return self.base.validation.select_by == "bleu-1"

    @property
    def request(self) -> dict[str, Any]:
        """What all processes of a study must agree on."""
        return {
            "recipe": self.base.as_dict(),
            "space": self.space.as_json(),
            "seed": self.seed,
            "pruning": self.pruning,
        }

    @cached_property
    def lock(self) -> FileLock:
        """Held while a trial is chosen or the results are written, never while one is trained."""
        return FileLock(self.out / ".lock")

    def run(self) -> Iterator[SearchEvent]:
        """Work on trials until none is left to begin or to take up."""
        while (claimed := self.claim()) is not None:
            trial, values, lock = claimed
            try:
                yield from self._run_trial(trial, values)
            finally:
                lock.release()

    @cached_property
    def study(self) -> "Study":
        """The study of the directory, new or as it was left; one of another request is refused."""
        optuna = import_optuna()
        if any((self.out / name).exists() for name in (MANIFEST, REQUEST)):
            raise BadRequest(f"{self.out}: holds the output of another stage; choose another directory")
        (self.out / TRIALS).mkdir(parents=True, exist_ok=True)
        with self.lock:
            try:
                storage = optuna.storages.RDBStorage(
                    f"sqlite:///{(self.out / STUDY).absolute()}", engine_kwargs={"connect_args": {"timeout": 60}}
                )
                study: Study = optuna.create_study(
                    storage=storage,
                    study_name="search",
                    direction="maximize" if self.maximize else "minimize",
                    pruner=optuna.pruners.MedianPruner(n_startup_trials=4)
                    if self.pruning
                    else optuna.pruners.NopPruner(),
                    load_if_exists=True,
                )
            except Exception as error:
                if type(error).__module__.startswith(("sqlalchemy", "sqlite3")):
                    raise BadRequest(f"{self.out / STUDY}: not a study of Optuna; choose another directory") from None
                raise
            held = study.user_attrs.get("request")
            if held is None:
                study.set_user_attr("request", self.request)
        other = list(differences(held or self.request, self.request))
        if other:
            key, old, new = other[0]
            raise BadRequest(
                f"{self.out}: holds a study of another space or recipe ({key}: {old} there, {new} asked for); "
                "choose another directory"
            )
        return study

    @cached_property
    def failed(self) -> frozenset[int]:
        """Trials that had failed before this process began: they are tried again, as new ones."""
        return frozenset(each.number for each in self.study.get_trials(deepcopy=False) if "error" in each.user_attrs)

    def claim(self) -> "tuple[Trial, dict[str, Value], FileLock] | None":
        """A trial that was left unfinished, or a new one, with its values and its lock; None where all have theirs."""
        study, _ = self.study, self.failed
        with self.lock:
            while (found := self._orphan() or self._new()) is not None:
                trial, lock = found
                values = self.space.suggest(trial)
                before = [each for each in study.get_trials(deepcopy=False) if each.number < trial.number]
                earlier = [each for each in before if each.number not in self.failed]
                twin = next((each.number for each in earlier if each.params == values), None)
                if twin is None:
                    return trial, values, lock
                trial.set_user_attr("duplicate_of", twin)
                self._tell(trial, None, "FAIL")
                study.enqueue_trial(self._unused([each.params for each in earlier], trial.number))
                lock.release()
        return None

    def _orphan(self) -> "tuple[Trial, FileLock] | None":
        """The first trial under way that no process holds."""
        optuna = import_optuna()
        running = self.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
        for frozen in running:
            lock = self._trial_lock(frozen.number)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                continue
            if self.study.get_trials(deepcopy=False)[frozen.number].state == frozen.state:
                return optuna.trial.Trial(self.study, frozen._trial_id), lock
            lock.release()  # it came to its end after it was listed
        return None

    def _new(self) -> "tuple[Trial, FileLock] | None":
        optuna = import_optuna()
        existing = [each for each in self.study.get_trials(deepcopy=False) if each.state.name != "WAITING"]
        if len([each for each in existing if is_counted(each) and each.number not in self.failed]) >= self.trials:
            return None
        seeds = np.random.SeedSequence([self.seed, len(existing)]).generate_state(1)
        self.study.sampler = optuna.samplers.TPESampler(seed=int(seeds[0]), n_startup_trials=5)
        trial = self.study.ask()
        lock = self._trial_lock(trial.number)
        lock.acquire(blocking=False)
        return trial, lock

    def _unused(self, taken: Sequence[dict[str, Any]], number: int) -> dict[str, Value]:
        """A combination no trial has, drawn at random."""
        random = np.random.default_rng([self.seed, number])
        for _ in range(MOST_DRAWS):
            values = self.space.draw(random)
            if values not in taken:
                return values
        raise WorkFailed(f"{self.out}: no combination found that was not tried; ask for fewer trials")

    def _trial_lock(self, number: int) -> FileLock:
        return FileLock(self.out / TRIALS / f"{number:04d}.lock")

    def _run_trial(self, trial: "Trial", values: dict[str, Value]) -> Iterator[SearchEvent]:
        """Train a trial; where it fails, the rest goes on."""
        number, directory = trial.number, self.out / TRIALS / f"{trial.number:04d}"
        yield SearchEvent("start", number, values, message=" ".join(overrides_of(values)))
        try:
            recipe = with_values(self.recipe, self.overrides, values)
            with closing(train(recipe, directory, resume=True)) as events:
                for event in events:
                    if event.kind == "step":
                        yield SearchEvent("step", number, values, event.step, event.total)
                    elif event.kind == "valid" and event.step > 0:
                        value = self._value(event.figures)
                        yield SearchEvent("valid", number, values, event.step, event.total, value)
                        if self._hopeless(trial, event.step, value) and event.step < event.total:
                            break
        except (BadRequest, WorkFailed) as error:
            trial.set_user_attr("error", str(error))
            self._tell(trial, None, "FAIL")
            yield SearchEvent("failed", number, values, message=str(error))
            return
        if not (directory / MANIFEST).exists():
            self._tell(trial, None, "PRUNED")
            shutil.rmtree(directory)
            yield SearchEvent("pruned", number, values, event.step, event.total, value)
            return
        lines = [line for line in read_metrics(directory / METRICS) if line["kind"] == "valid" and line["step"] > 0]
        best = (max if self.maximize else min)(self._value(line) for line in lines)
        self._tell(trial, best, "COMPLETE")
        yield SearchEvent("complete", number, values, value=best)

    def _value(self, figures: dict[str, Any]) -> float:
        """What the checkpoint is chosen by: BLEU-1, or the first figure, the first term of the loss."""
        terms = (value for name, value in figures.items() if name not in ("step", "kind"))
        return float(figures["bleu_1"] if self.maximize else next(terms))

    def _hopeless(self, trial: "Trial", step: int, value: float) -> bool:
        """Whether the trial is worse than half of the others were at this step; a resumed one reports a step once."""
        held = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        if step not in held:
            trial.report(value, step)
        return trial.should_prune()

    def _tell(self, trial: "Trial", value: float | None, state: str) -> None:
        optuna = import_optuna()
        self.study.tell(trial.number, value, state=optuna.trial.TrialState[state])


def is_counted(trial: "FrozenTrial") -> bool:
    """Whether a trial is one of those asked for: a draw that came twice is not."""
    return "duplicate_of" not in trial.user_attrs


def import_optuna() -> Any:
    """Optuna, told to be quiet; it is an extra."""
    try:
        import optuna
    except ImportError:
        raise BadRequest("`discodvt search` needs Optuna; install it with pip install 'discodvt[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
