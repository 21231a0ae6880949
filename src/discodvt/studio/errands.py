"""Errands: jobs with something to do after the writing. The annotator looks for a wish, versions are kept.

An errand follows the events of a job of the scribe and passes them on to a job of its own. A story that is done is
committed as a version before its event is passed on; what was written when a job is stopped is committed too, and every
second what there is so far as a draft. The last event is `chosen` (or `stopped`): the best candidate, and where the
project stands.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discodvt.studio.edits import StoryGiven, kept_locks
from discodvt.studio.jobs import Event, Job, Jobs
from discodvt.studio.projects import STOPPED, Projects
from discodvt.studio.scribe import Scribe
from discodvt.writing import Request, SamplingParams
from discodvt.writing.candidates import CLOSENESS, NOWHERE, Wish, find_wished, scores_of, wish_annotator

DRAFT_SECONDS = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where the stories of an errand are kept as versions."""

    projects: Projects
    project: str
    parent: str | None
    action: Mapping[str, Any]
    model_hash: str
    locks: Sequence[int] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def record(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """A story's record with all that a version knows."""
        locks, settings = kept_locks(self.locks, told["plan"]), dict(self.settings)
        return {**told, "locks": locks, "settings": settings, "model_hash": self.model_hash}

    def add(self, draft: str, record: Mapping[str, Any]) -> str:
        return self.projects.add(self.project, self.parent, self.action, record, draft=draft)

    def keep_draft(self, draft: str, told: Mapping[str, Any]) -> None:
        self.projects.keep_draft(draft, self.project, self.parent, self.action, self.record(told))


@dataclass(frozen=True, slots=True)
class Errand:
    """Stories to write, and what to do with them."""

    requests: Sequence[Request]
    params: SamplingParams
    model: str  # its name
    wish: Wish | None = None
    keeping: Keeping | None = None

    async def start(self, scribe: Scribe, jobs: Jobs) -> Job:
        """The job to follow; nothing is left behind where the stories cannot be written."""
        written, job = Job(len(self.requests)), jobs.new(len(self.requests) + 1)  # one more: `chosen` ends it
        job.source = written
        if self.keeping is not None:
            job.project = self.keeping.project
            job.about = {"n": len(self.requests), "prompt": self.requests[0].prompt}
        try:
            await scribe.write(written, self.requests, self.params)
        except BaseException:
            jobs.forget(job)
            raise
        job.task = asyncio.create_task(self._follow(scribe, written, job))
        return job

    async def _follow(self, scribe: Scribe, written: Job, job: Job) -> None:
        done: dict[int, dict[str, Any]] = {}
        growing: dict[int, dict[str, Any]] = {}
        kept_at = 0.0

        async def finish(number: int, told: Mapping[str, Any]) -> None:
            done[number] = await asyncio.to_thread(self._finished, job, number, told)

        try:
            async for found in written.follow():
                if found is None:
                    continue
                event, number = found[1], found[1].data.get("i", 0)
                if event.name == "plan":
                    growing[number] = {"plan": event.data["codes"], "story": "", "segments": []}
                elif event.name == "text":
                    so_far = growing.setdefault(number, {"plan": [], "story": "", "segments": []})  # without codes
                    so_far["story"] += event.data["delta"]
                    so_far["segments"][event.data["first"] :] = event.data["segments"]
                    if time.monotonic() - kept_at >= DRAFT_SECONDS:
                        await asyncio.to_thread(self._keep_drafts, job, growing)
                        kept_at = time.monotonic()
                elif event.name == "done":
                    growing.pop(number, None)
                    await finish(number, event.data["record"])
                    event = Event("done", event.data | {"record": done[number]})
                elif event.name in (STOPPED, "error"):
                    for left, so_far in growing.items():
                        if so_far["story"]:
                            await finish(left, self._so_far(left, so_far))
                    chosen = await asyncio.to_thread(self._chosen, done)
                    job.add(Event(event.name, event.data | chosen))
                    return
                job.add(event)
            if job.ended_at is None:
                job.add(Event("chosen", await asyncio.to_thread(self._chosen, done)))
        except Exception as error:
            _log.exception("a story could not be kept")
            job.add(Event("error", {"message": f"the story could not be kept ({type(error).__name__})"}))
            await scribe.stop(written)

    def _finished(self, job: Job, number: int, told: Mapping[str, Any]) -> dict[str, Any]:
        """The record with what is known of the story now; committed, if it is to be kept."""
        record = self._placed(job, number, told)
        if record["finish"] != STOPPED:
            story = StoryGiven.model_construct(**record).as_story()  # ours: as long as it has become
            if self.wish is not None:
                found = find_wished(story, wish_annotator().annotate(story.text), self.wish)
                record["wish"] = {**self.wish._asdict(), **found._asdict()}
            if len(self.requests) > 1:
                record["scores"] = scores_of(story)
        if self.keeping is not None:
            record = self.keeping.record(record)
            record["version"] = self.keeping.add(_draft_id(job, number), record)
        return record

    def _keep_drafts(self, job: Job, growing: Mapping[int, dict[str, Any]]) -> None:
        for number, so_far in growing.items():
            if self.keeping is not None and so_far["story"]:
                told = self._placed(job, number, self._so_far(number, so_far))
                self.keeping.keep_draft(_draft_id(job, number), told)

    def _placed(self, job: Job, number: int, told: Mapping[str, Any]) -> dict[str, Any]:
        """A record with its place among the candidates, and how much of it was given."""
        request = self.requests[number]
        kept = min(len(request.begin_with.strip()), len(told["story"]))
        group = {"group": job.id} if len(self.requests) > 1 else {}
        return {**told, "index": request.index, "kept": kept, **group}

    def _so_far(self, number: int, so_far: Mapping[str, Any]) -> dict[str, Any]:
        """A story in the making as the record of one that was stopped here."""
        request = self.requests[number]
        told = {"id": request.id, "prompt": request.prompt, "seed": request.seed, "model": self.model}
        return {**told, "finish": STOPPED, **so_far}

    def _chosen(self, done: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
        """The best story, and the project with its head there."""
        if not done:
            return {"i": None}
        best = max(done, key=lambda number: (*_worth(done[number]), -number))
        chosen: dict[str, Any] = {"i": best}
        if self.keeping is not None:
            keeping, version = self.keeping, done[best]["version"]
            project = keeping.projects.follow(keeping.project, keeping.parent, version)
            chosen |= {"version": version, "head": project.head, "revision": project.revision}
        return chosen


def _draft_id(job: Job, number: int) -> str:
    return f"{job.id}-{number}"


def _worth(record: Mapping[str, Any]) -> tuple[float, ...]:
    """What a candidate is chosen by: whole, closest to the wish, highest score."""
    where = record.get("wish", {}).get("where", NOWHERE)
    return record["finish"] != STOPPED, CLOSENESS[where], record.get("scores", {}).get("total", 0.0)
