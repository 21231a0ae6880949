"""Projects: versions that only grow, undo and redo, two tabs, edits by HTTP that keep what they must, exports."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, create_model
from unit.studio.held_stories import HeldStories
from unit.studio.test_server import PROMPT, SETTINGS, ask, events_of
from unit.web.asking import running
from unit.writing.toy_writer import CODES, save_bart, save_writer

from discodvt.errors import BadRequest
from discodvt.stored_weights import writer_hash
from discodvt.studio import errands
from discodvt.studio.database import NAME
from discodvt.studio.edits import StoryGiven
from discodvt.studio.errands import Keeping
from discodvt.studio.projects import Projects
from discodvt.studio.server import make_studio
from discodvt.web.access import Access, HttpError, make_access
from discodvt.writing import Request, SamplingParams, StoryWriter
from discodvt.writing.control import kept_text, rewrite

RECORD = {"prompt": "A fox", "story": "Once.", "finish": "end", "plan": [1]}
EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> StoryWriter:
    return StoryWriter.from_pretrained(save_writer(tmp_path_factory.mktemp("writer")))


@pytest.fixture(scope="module")
def access(writer: StoryWriter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    made, projects = make_access(), Projects(tmp_path_factory.mktemp("data"))
    with running(make_studio(writer, made, projects=projects, rows=4), made) as found:
        yield found
    projects.close()


def got(access: Access, method: str, path: str, value: Any = None, **headers: str) -> Any:
    status, body, _ = ask(access, method, path, value, **headers)
    assert status < 300, body
    return json.loads(body)


def written(access: Access, path: str, value: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The records of a job and its last event."""
    status, body, _ = ask(access, "POST", path, value, accept="text/event-stream")
    assert status == 200, body
    events = events_of(body)
    assert events[-1][1] == "chosen"
    return [data["record"] for _, name, data in events if name == "done"], events[-1][2]


def begun(access: Access, **more: Any) -> tuple[str, dict[str, Any]]:
    """A project with one story; its address, and the record."""
    path = f"/api/projects/{got(access, 'POST', '/api/projects', {})['id']}"
    (record,), _ = written(access, f"{path}/stories", {"prompt": PROMPT, "settings": SETTINGS, **more})
    return path, record


def test_undo_and_redo_follow_the_path_and_nothing_is_lost(tmp_path: Path) -> None:
    projects = Projects(tmp_path)
    id = projects.new().id

    def version(parent: str | None) -> str:
        made = projects.add(id, parent, {"kind": "write"}, RECORD)
        projects.follow(id, parent, made)
        return made

    first = version(None)
    second = version(first)
    third = version(second)
    assert (projects.get(id).head, projects.get(id).undo, projects.get(id).redo) == (third, second, None)
    projects.move(id, second)
    project = projects.move(id, first)
    assert (project.undo, project.redo) == (None, second)
    branch = version(first)
    assert projects.get(id).redo is None
    assert projects.move(id, first).redo == branch
    assert projects.move(id, second).redo == third  # jumped to: its newest child
    assert projects.move(id, None).redo == first
    assert list(projects.get(id).versions) == [first, second, third, branch]
    projects.close()
    again = Projects(tmp_path)
    assert list(again.get(id).versions) == [first, second, third, branch]
    again.hide(id)
    assert again.listing() == []
    with pytest.raises(HttpError, match="no such project"):
        again.get(id)
    again.close()


def test_versions_cannot_be_changed_or_removed_even_by_us(tmp_path: Path) -> None:
    projects = Projects(tmp_path)
    id = projects.new().id
    projects.add(id, None, {"kind": "write"}, RECORD)
    projects.close()
    connection = sqlite3.connect(tmp_path / NAME)
    for statement in ("DELETE FROM versions", "UPDATE versions SET record = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            connection.execute(statement)
    connection.close()


def test_the_head_stays_where_somebody_moved_it_while_a_story_was_written(tmp_path: Path) -> None:
    projects = Projects(tmp_path)
    id = projects.new().id
    first = projects.add(id, None, {"kind": "write"}, RECORD)
    second = projects.add(id, first, {"kind": "rewrite", "place": 0}, RECORD)
    revision = projects.move(id, second).revision
    third = projects.add(id, first, {"kind": "again"}, RECORD)
    assert projects.follow(id, first, third).head == second
    with pytest.raises(HttpError, match="changed elsewhere"):
        projects.move(id, first, revision=revision - 1)
    assert projects.move(id, first, revision=revision).head == first
    projects.close()


def test_a_file_of_others_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("These are no projects, but a text of some length. " * 40)
    with pytest.raises(BadRequest, match="no projects of discodvt"):
        Projects(tmp_path)
    with pytest.raises(BadRequest, match="give a directory"):
        Projects(tmp_path / NAME)


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_only_their_owner_reads_projects(tmp_path: Path) -> None:
    projects = Projects(tmp_path / "data")
    projects.new("mine")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    projects.close()


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_every_version_that_was_told_survives_a_kill(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from discodvt.studio.projects import Projects
projects = Projects(Path({str(tmp_path)!r}))
id, parent = projects.new().id, None
while True:
    parent = projects.add(id, parent, {{"kind": "write"}}, {RECORD!r})
    print(id, parent, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline().split() for _ in range(20)]
        process.kill()
        told += [line.split() for line in process.stdout]
    projects = Projects(tmp_path)
    kept = list(projects.get(told[0][0]).versions)
    assert [version for _, version in told] == kept[: len(told)]
    assert len(kept) <= len(told) + 1
    projects.close()


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_story_in_the_making_survives_a_kill_but_not_while_its_server_lives(tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from discodvt.studio.projects import Projects
projects, told = Projects(Path({str(tmp_path)!r})), {RECORD!r}
id = projects.new().id
first = projects.add(id, None, {{"kind": "write"}}, told)
projects.move(id, first)
for text in ("On", "Once th"):
    projects.keep_draft("job-0", id, first, {{"kind": "again"}}, told | {{"story": text}})
projects.keep_draft("job-1", id, first, {{"kind": "again"}}, told | {{"story": "Two"}})
projects.keep_draft("job-2", id, first, {{"kind": "again"}}, told | {{"story": "Thr"}})
projects.add(id, first, {{"kind": "again"}}, told | {{"story": "Three."}}, draft="job-2")
print(id, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        id = process.stdout.readline().strip()
        beside = Projects(tmp_path)
        assert [each.record["story"] for each in beside.get(id).versions.values()] == ["Once.", "Three."]
        process.kill()
    beside.close()
    projects = Projects(tmp_path)
    found = projects.get(id)
    told = [(each.record["story"], each.record["finish"]) for each in found.versions.values()]
    assert told == [("Once.", "end"), ("Three.", "end"), ("Once th", "stopped"), ("Two", "stopped")]
    assert found.head is not None
    assert found.version(found.head).record["story"] == "Once th"
    assert {each.parent for each in found.versions.values()} == {None, found.undo}
    projects.close()
    again = Projects(tmp_path)
    assert list(again.get(id).versions) == list(found.versions)  # adopted once
    again.hide(id)
    again.close()
    assert [path.name for path in tmp_path.glob("server-*")] == []


def test_a_draft_of_a_hidden_project_keeps_nobody_from_starting(tmp_path: Path) -> None:
    projects = Projects(tmp_path)
    id = projects.new().id
    projects.keep_draft("job-0", id, None, {"kind": "write"}, RECORD)
    projects.hide(id)
    projects.close()
    Projects(tmp_path).close()


def test_a_file_of_the_format_before_is_opened(tmp_path: Path) -> None:
    Projects(tmp_path).close()
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.execute("DROP TABLE drafts")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    projects = Projects(tmp_path)
    projects.keep_draft("a", projects.new().id, None, {}, RECORD)
    projects.close()


def test_versions_name_the_model_and_its_hash(access: Access, writer: StoryWriter) -> None:
    path, record = begun(access)
    model = got(access, "GET", "/api/model")
    assert model["hash"] == writer_hash(writer.directory)
    assert (record["model"], record["model_hash"]) == (model["name"], model["hash"])
    read = got(access, "POST", f"{path}/texts", {"text": "Once there was a fox."})
    assert read["head"]["model_hash"] == model["hash"]


def test_a_story_of_a_project_is_generates_and_a_swap_keeps_what_stands_before(access: Access, writer: StoryWriter):
    path, record = begun(access)
    (story,) = writer.write_many([Request(PROMPT, seed=0)], SamplingParams(**SETTINGS), batch_size=1)
    assert (record["story"], tuple(record["plan"])) == (story.text, story.plan)
    place, code = 3, (story.plan[3] + 1) % CODES
    edit = {"parent": record["version"], "edit": {"kind": "swap", "place": place, "code": code}}
    (changed,), last = written(access, f"{path}/edits", edit)
    assert changed["story"].startswith(kept_text(story, place))
    assert changed["kept"] == len(kept_text(story, place))
    assert changed["plan"] == [*story.plan[:place], code, *story.plan[place + 1 :]]
    (same,) = writer.write_many([rewrite(story, place, code=code)], SamplingParams(**SETTINGS))
    assert changed["story"] == same.text
    project = got(access, "GET", path)
    assert project["head"]["id"] == changed["version"] == last["version"]
    assert (project["undo"], len(project["versions"])) == (record["version"], 2)


def test_locks_hold_when_the_plan_is_drawn_again(access: Access) -> None:
    path, record = begun(access)
    project = got(access, "POST", f"{path}/locks", {"parent": record["version"], "locks": [1, 4]})
    assert (project["head"]["locks"], project["head"]["story"]) == ([1, 4], record["story"])
    assert project["head"]["action"] == {"kind": "lock", "places": [1, 4]}
    for edit in ({"kind": "again"}, {"kind": "redraw", "place": 2}):
        (other,), _ = written(access, f"{path}/edits", {"parent": project["head"]["id"], "edit": edit})
        assert (other["plan"][1], other["plan"][4]) == (record["plan"][1], record["plan"][4])
        assert other["locks"] == [1, 4]
        assert other["plan"] != record["plan"]


def test_a_resampled_code_is_another_and_those_after_it_stay(access: Access) -> None:
    path, record = begun(access)
    edit = {"parent": record["version"], "edit": {"kind": "resample", "place": 2}}
    (other,), _ = written(access, f"{path}/edits", edit)
    assert other["plan"][2] != record["plan"][2]
    assert other["plan"][:2] + other["plan"][3:] == record["plan"][:2] + record["plan"][3:]


def test_candidates_are_versions_side_by_side_and_the_best_is_the_head(access: Access) -> None:
    path, record = begun(access)
    edit = {"parent": record["version"], "edit": {"kind": "rewrite", "place": 2}, "n": 3}
    found, last = written(access, f"{path}/edits", edit)
    assert len({each["story"] for each in found}) == 3
    assert len({each["group"] for each in found}) == 1
    best = max(found, key=lambda each: each["scores"]["total"])
    assert last["version"] == best["version"] == got(access, "GET", path)["head"]["id"]
    assert {each["parent"] for each in got(access, "GET", path)["versions"][1:]} == {record["version"]}


def test_a_wish_says_where_it_was_found_and_a_plan_goes_to_another_prompt(access: Access) -> None:
    path, record = begun(access)
    edit = {"parent": record["version"], "edit": {"kind": "wish", "place": 2, "marker": "because"}, "n": 2}
    found, _ = written(access, f"{path}/edits", edit)
    assert {each["wish"]["where"] for each in found} <= {"here", "beside", "nowhere"}
    assert all((each["wish"]["marker"], each["wish"]["place"]) == ("because", 2) for each in found)
    given = {name: record[name] for name in ("prompt", "story", "plan", "segments", "seed")} | {"locks": [2, 5]}
    held, _ = written(access, "/api/edits", {"story": given, "edit": edit["edit"], "n": 2, "settings": SETTINGS})
    assert {(each["plan"][2], each["plan"][5]) for each in held} == {(record["plan"][2], record["plan"][5])}
    moved = {"parent": record["version"], "edit": {"kind": "transfer", "prompt": "A café"}}
    (other,), _ = written(access, f"{path}/edits", moved)
    assert (other["prompt"], other["plan"]) == ("A café", record["plan"])


@pytest.mark.filterwarnings("ignore:a story of")  # the toy's texts have more subwords when they are read
def test_a_counterfactual_differs_only_from_the_codes_reach_on_and_is_compared_by_place(access: Access) -> None:
    _, record = begun(access)
    given = {name: record[name] for name in ("prompt", "story", "plan", "segments", "seed", "index", "kept")}
    place, code = 4, (record["plan"][4] + 1) % CODES
    edit = {"story": given, "edit": {"kind": "counterfactual", "place": place, "code": code}, "settings": SETTINGS}
    (other,), _ = written(access, "/api/edits", edit)
    assert other["seed"] == record["seed"]
    found = got(access, "POST", "/api/compare", {"stories": [given, other]})["places"]
    assert [each["same"] for each in found[: place - 1]] == [True] * (place - 1)
    assert found[place]["codes"] == [record["plan"][place], code]
    heard = got(access, "POST", "/api/heard", {"story": given})["heard"]
    assert [each["code"] for each in heard] == record["plan"]


def test_a_text_is_read_and_its_segments_tile_it(access: Access, writer: StoryWriter) -> None:
    path = f"/api/projects/{got(access, 'POST', '/api/projects', {})['id']}"
    text = "Once there was a fox. He lost his hat, and he cried!"
    head = got(access, "POST", f"{path}/texts", {"text": f"  {text} "})["head"]
    assert (head["story"], head["prompt"], head["cut"]) == (text, "Once there was a fox.", False)
    assert tuple(head["plan"]) == writer.plan_of(text)
    assert "".join(text[start:end] for _, start, end in head["segments"]) == text
    edit = {"parent": head["id"], "edit": {"kind": "rewrite", "place": 2}, "settings": SETTINGS}
    (other,), _ = written(access, f"{path}/edits", edit)
    assert other["story"].startswith(text[: other["kept"]])
    assert other["kept"] > 0


def test_a_stopped_story_is_kept_as_far_as_it_came(
    writer: StoryWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, made, projects = HeldStories(monkeypatch), make_access(), Projects(tmp_path / "data")
    with running(make_studio(writer, made, projects=projects), made) as access:
        path = f"/api/projects/{got(access, 'POST', '/api/projects', {})['id']}"
        asked = {"prompt": PROMPT, "settings": {"min_tokens": 60, "max_tokens": 70}}
        job = got(access, "POST", f"{path}/stories", asked)["job"]
        assert got(access, "GET", path)["jobs"] == [{"job": job, "n": 1, "prompt": PROMPT}]
        assert held.come.wait(60)
        with closing(sqlite3.connect(tmp_path / "data" / NAME)) as file:  # what a server that dies now leaves
            ends = time.monotonic() + 60
            while not (kept := file.execute("SELECT record FROM drafts").fetchall()) and time.monotonic() < ends:
                time.sleep(0.01)
        (draft,) = (json.loads(record) for (record,) in kept)
        got(access, "DELETE", f"/api/jobs/{job}")
        events = events_of(ask(access, "GET", f"/api/jobs/{job}/events")[1])
        text = "".join(data["delta"] for _, name, data in events if name == "text")
        assert events[-1][1] == "stopped"
        head = got(access, "GET", path)["head"]
        assert (head["story"], head["finish"]) == (text, "stopped")
        assert len(text) > 0
        assert text.startswith(draft["story"])
        assert len(draft["story"]) > 0
        assert draft.keys() | {"version"} == head.keys() - {"parent", "action", "created"} | {"version"}
        assert got(access, "GET", path)["jobs"] == []
        with sqlite3.connect(tmp_path / "data" / NAME) as file:
            assert file.execute("SELECT COUNT(*) FROM drafts").fetchone() == (0,)
        file.close()
    projects.close()


def test_a_story_without_a_plan_is_kept(tmp_path: Path) -> None:
    made, projects = make_access(), Projects(tmp_path / "data")
    plain = StoryWriter.from_pretrained(save_bart(tmp_path / "plain"))
    with running(make_studio(plain, made, projects=projects), made) as access:
        path, record = begun(access, settings={"max_tokens": 20})
        head = got(access, "GET", path)["head"]
        assert (head["story"], head["plan"], head["id"]) == (record["story"], [], record["version"])
    projects.close()


def test_a_story_longer_than_clients_may_send_is_kept(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Field(min_length=1, max_length=3)
    monkeypatch.setattr(errands, "StoryGiven", create_model("Short", __base__=StoryGiven, story=Annotated[str, limit]))
    path, record = begun(access)
    assert got(access, "GET", path)["head"]["story"] == record["story"]


def test_a_fault_is_told_where_the_server_runs_and_ends_the_writing(
    access: Access, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Keeping, "add", lambda *given: given[9])
    path = f"/api/projects/{got(access, 'POST', '/api/projects', {})['id']}"
    body = ask(access, "POST", f"{path}/stories", {"prompt": PROMPT, "settings": SETTINGS}, accept="text/event-stream")[
        1
    ]
    assert events_of(body)[-1][1:] == ("error", {"message": "the story could not be kept (IndexError)"})
    assert "IndexError" in caplog.text


def test_exports_have_the_story_all_versions_and_nothing_that_runs(access: Access) -> None:
    path, record = begun(access, prompt=EVIL)
    got(access, "POST", f"{path}/locks", {"parent": record["version"], "locks": [0]})
    status, text, headers = ask(access, "GET", f"{path}/export/text")
    assert (status, record["story"] in text.decode()) == (200, True)
    assert headers["content-disposition"].startswith("attachment")
    lines = [json.loads(line) for line in ask(access, "GET", f"{path}/export/jsonl")[1].decode().splitlines()]
    assert [line["parent"] for line in lines] == [None, record["version"]]
    assert StoryGiven(**lines[0]).as_story().text == record["story"]
    _, page, headers = ask(access, "GET", f"{path}/export/html")
    assert headers["content-disposition"].startswith("attachment")
    assert b"<img" not in page
    assert b"&lt;img" in page
    assert ask(access, "GET", f"{path}/export/pickle")[0] == 422


@pytest.mark.parametrize(
    ("door", "value", "status", "param"),
    [
        ("edits", {"edit": {"kind": "wish", "place": 2, "marker": "wherefore"}}, 400, "wish"),
        ("edits", {"edit": {"kind": "wish", "place": 99, "marker": "because"}}, 400, "wish"),
        ("edits", {"edit": {"kind": "swap", "place": 99, "code": 1}}, 400, "place"),
        ("edits", {"edit": {"kind": "swap", "place": 1, "code": CODES}}, 400, "plan"),
        ("edits", {"edit": {"kind": "other"}}, 422, "edit"),
        ("edits", {"edit": {"kind": "again"}, "parent": "other"}, 404, "version"),
        ("edits", {"edit": {"kind": "again"}, "n": 9}, 422, "n"),
        ("locks", {"locks": [99]}, 400, "locks"),
        ("texts", {"text": "  "}, 400, None),
        ("stories", {"prompt": PROMPT, "parent": "other"}, 404, "version"),
    ],
)
def test_wrong_edits_are_typed_errors_and_leave_nothing(access: Access, door, value, status, param) -> None:
    path, record = begun(access)
    parent = {} if door == "texts" else {"parent": record["version"]}
    found, body, _ = ask(access, "POST", f"{path}/{door}", parent | value)
    error = json.loads(body)["error"]
    assert (found, error["param"]) == (status, param), error
    assert "\n" not in error["message"]
    assert len(got(access, "GET", path)["versions"]) == 1


def test_two_tabs_cannot_move_the_head_unseen(access: Access) -> None:
    path, record = begun(access)
    revision = got(access, "GET", path)["revision"]
    assert ask(access, "PUT", f"{path}/head", {"version": None}, if_match=f'"{revision}"')[0] == 200
    status, body, _ = ask(access, "PUT", f"{path}/head", {"version": record["version"]}, if_match=f'"{revision}"')
    assert (status, json.loads(body)["error"]["type"]) == (412, "conflict_error")
    assert ask(access, "PUT", f"{path}/head", {"version": None}, if_match="new")[0] == 400
    assert ask(access, "PUT", f"{path}/head", {"version": "other"})[0] == 404
    assert got(access, "GET", path)["head"] is None
