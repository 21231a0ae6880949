"""The judges' server: blind in every byte it sends, strict in what it takes, safe with any text."""

import json
from pathlib import Path
from typing import Any

import pytest
from unit.judging.toy_study import OURS, RIVAL, THIRD, toy_study
from unit.web.asking import Answer, ask

from discodvt.errors import BadRequest
from discodvt.judging.session import Session
from discodvt.judging.study_server import FILES, LOCK, judge_app, serve_study
from discodvt.web.access import make_access

SECRETS = [OURS, RIVAL, THIRD, "people.jsonl", "shuffled", "expected", "rival", ".jsonl"]


class Visitor:
    """A judge who keeps everything the server sends."""

    def __init__(self, session: Session, **access: Any) -> None:
        self.app = judge_app(session, make_access(**access))
        self.sent: list[bytes] = []

    def get(self, path: str) -> Answer:
        return self._keep(ask(self.app, path=path))

    def post(self, path: str, value: Any) -> Answer:
        return self._keep(ask(self.app, "POST", path, value=value))

    def _keep(self, answer: Answer) -> Answer:
        self.sent += [answer.body, repr(answer.headers).encode()]
        return answer


def test_a_whole_study_is_served_without_a_word_of_who_wrote_what(tmp_path: Path) -> None:
    study = toy_study(tmp_path, systems=3)
    session = Session(study)
    visitor = Visitor(session)
    for path in (*FILES, "/api/study", "/api/health", "/api/nothing", "/key.json", "/items.jsonl", "/manifest.json"):
        visitor.get(path)
    judge = visitor.post("/api/judges", {"consent": True}).json["judge"]
    answers = {"coherence": "left", "informativeness": "right"}
    shown = 0
    while (task := visitor.post("/api/next", {"judge": judge}).json)["state"] == "item":
        assert set(task["item"]) == {"id", "prompt", "left", "right"}
        body = {"judge": judge, "item": task["item"]["id"], "answers": answers, "ms": 1000}
        assert visitor.post("/api/answers", body).status == 200
        visitor.post("/api/earlier", {"judge": judge, "position": shown})
        shown += 1
    assert task == {"state": "done", "code": "DONE-42", "url": ""}
    assert shown == 32
    visitor.post("/api/answers", {"judge": judge, "item": "x", "answers": answers, "ms": 1})
    everything = b"\n".join(visitor.sent).decode().lower()
    assert [secret for secret in SECRETS if secret in everything] == []
    session.close()


def test_requests_that_are_wrong_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    session = Session(study)
    visitor = Visitor(session)
    assert visitor.post("/api/judges", {"consent": False}).status == 422
    assert visitor.post("/api/judges", {}).status == 422
    assert (study.path / "judges.jsonl").read_bytes() == b""
    judge = visitor.post("/api/judges", {"consent": True}).json["judge"]
    item = visitor.post("/api/next", {"judge": judge}).json["item"]["id"]
    right = {"judge": judge, "item": item, "answers": {"coherence": "left", "informativeness": "tie"}, "ms": 5}
    wrong = [
        ({"judge": "x"}, 404),
        ({"judge": 5}, 422),
        ({"item": "x"}, 409),
        ({"item": "../key.json"}, 409),
        ({"answers": {"coherence": "left"}}, 422),
        ({"answers": {"coherence": "left", "informativeness": "best"}}, 422),
        ({"answers": {"coherence": "left", "informativeness": "tie", "more": "tie"}}, 422),
        ({"ms": -1}, 422),
        ({"ms": 10**17}, 422),
        ({"ms": 1.5}, 422),
        ({"extra": 1}, 422),
    ]
    for change, status in wrong:
        answer = visitor.post("/api/answers", right | change)
        assert (answer.status, change) == (status, change)
        assert answer.json["error"]["message"]
    assert ask(visitor.app, "POST", "/api/answers", value=right, host="evil.example").status == 421
    foreign = [("origin", "http://evil.example")]
    assert ask(visitor.app, "POST", "/api/answers", value=right, headers=foreign).status == 403
    assert (study.path / "answers.jsonl").read_bytes() == b""
    assert visitor.post("/api/answers", right).status == 200
    session.close()


def test_a_question_without_a_tie_takes_none(tmp_path: Path) -> None:
    extra = "questions = [{id = 'a', text = 'A?'}, {id = 'b', text = 'B?', tie = false}]"
    session = Session(toy_study(tmp_path, extra=extra))
    visitor = Visitor(session)
    judge = visitor.post("/api/judges", {"consent": True}).json["judge"]
    item = visitor.post("/api/next", {"judge": judge}).json["item"]["id"]
    for choice, status in (("tie", 422), ("left", 200)):
        body = {"judge": judge, "item": item, "answers": {"a": "tie", "b": choice}, "ms": 1}
        assert visitor.post("/api/answers", body).status == status
    session.close()


def test_the_page_and_every_route_want_the_token_and_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy_study(tmp_path)
    session = Session(study)
    app = judge_app(session, make_access("0.0.0.0", 8000))
    for route in app.app.routes:  # type: ignore[attr-defined]
        for method in route.methods:
            assert ask(app, method, route.path, value={} if method == "POST" else None).status == 401
    session.close()
    found = []
    monkeypatch.setattr("discodvt.judging.study_server.serve", lambda make, access, **_: found.append(access.token))
    for host in ("0.0.0.0", "0.0.0.0", "127.0.0.1"):
        serve_study(study.path, host=host, port=0, announce=print)
    assert found[0] == found[1] == found[2]  # links that were sent stay good after a restart
    assert found[0]
    assert (study.path / "token").stat().st_mode & 0o077 == 0


def test_one_server_a_study(tmp_path: Path) -> None:
    from filelock import FileLock

    study = toy_study(tmp_path)
    with FileLock(study.path / LOCK), pytest.raises(BadRequest, match="served already"):
        serve_study(study.path, port=0, announce=print)


def test_pages_hold_no_markup_of_others_and_load_nothing_from_elsewhere() -> None:
    from importlib import resources

    for name in FILES.values():
        text = resources.files("discodvt.judging").joinpath(name).read_text(encoding="utf-8")
        assert not any(way in text for way in ("innerHTML", "insertAdjacent", "document.write", "eval(", " style="))
        assert [
            word for word in text.split() if "//" in word and "w3.org" not in word and not word.startswith("//")
        ] == []
    assert json.dumps(sorted(FILES)) == '["/", "/favicon.svg", "/judge.css", "/judge.js"]'
