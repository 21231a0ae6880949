"""A study as a judge meets it in a real browser: judged with the keyboard alone, resumed, in light and dark, narrow."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from contract.reader import Reader, check_light_and_dark_wide_and_narrow, serious_faults
from unit.judging.toy_study import OURS, RIVAL, toy_study, write_study
from unit.web.asking import running

from discodvt.judging.make_stage import make_study, open_study
from discodvt.judging.session import Session
from discodvt.judging.study_server import judge_app
from discodvt.web.access import make_access

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script> \u202e backwards \u0000 {{7*7}} **bold**"


class Served:
    """A study and its server."""

    def __init__(self, session: Session, port: int) -> None:
        self.session = session
        self.path = session.study.path
        self.address = f"http://127.0.0.1:{port}/"

    @property
    def answers(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.path / "answers.jsonl").read_text().splitlines()]


def at_pair(page: "Page", number: int) -> None:
    """Wait for a pair (not with wait_for_function, which the page's policy forbids)."""
    page.locator("#count", has_text=f"{number} of 7").wait_for()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    session = Session(toy_study(tmp_path, count=5))
    access = make_access()
    with running(judge_app(session, access), access) as found:
        yield Served(session, found.port)
    session.close()


def test_a_whole_study_is_judged_with_the_keyboard(reader: Reader, served: Served) -> None:
    page = reader.open(served.address)
    listen = "addEventListener('securitypolicyviolation', event => reports.push(event.violatedDirective))"
    page.evaluate(f"() => {{ window.reports = []; {listen}; }}")
    bodies: list[str] = []
    page.on("response", lambda answer: bodies.append(answer.text() + json.dumps(answer.headers)))
    page.wait_for_selector("#agree")
    assert serious_faults(page) == []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "agree"
    page.keyboard.press("Enter")
    total = served.session.total
    assert total == 7
    for number in range(total):
        at_pair(page, number + 1)
        if number == 0:
            assert serious_faults(page) == []
            page.keyboard.press("Enter")  # too early: nothing is sent
            assert "answer every question" in page.locator("#status").inner_text()
        page.keyboard.press("1" if number % 2 else "2")
        page.keyboard.press("0")
        page.keyboard.press("Enter")
    page.wait_for_selector("#done:not([hidden])")
    assert page.locator("#code").inner_text() == "DONE-42"
    assert serious_faults(page) == []
    assert page.evaluate("reports") == []
    assert reader.complaints == []
    assert all(url.startswith(served.address) for url in reader.requests)
    assert not any(name in body for body in bodies for name in (OURS, RIVAL))
    answers = served.answers
    assert len(answers) == 2 * total
    assert [each["choice"] for each in answers if each["question"] == "coherence"] == ["right", "left"] * 3 + ["right"]
    assert {each["choice"] for each in answers if each["question"] == "informativeness"} == {"tie"}


def test_a_judge_goes_back_corrects_and_comes_back_later(reader: Reader, served: Served) -> None:
    page = reader.open(served.address)
    page.click("#agree")
    for number in (1, 2):
        at_pair(page, number)
        page.keyboard.press("1")
        page.keyboard.press("2")
        page.keyboard.press("Enter")
    at_pair(page, 3)
    third, link = page.locator("#left").inner_text(), page.locator("#link").get_attribute("href")
    assert link is not None
    page.click("#back")
    at_pair(page, 2)
    assert page.locator("input[name=coherence][value=left]").is_checked()
    page.check("input[name=coherence][value=tie]")
    page.click("#go-on")
    at_pair(page, 3)
    assert [each["choice"] for each in served.answers] == ["left", "right", "left", "right", "tie", "right"]
    again = reader.open(link)
    at_pair(again, 3)
    assert again.locator("#left").inner_text() == third
    unknown = reader.open(served.address + "#nobody")
    unknown.wait_for_selector("#trouble:not([hidden])")
    assert "not known" in unknown.locator("#trouble-text").inner_text()


def test_keys_are_quiet_when_switched_off_and_with_modifiers(reader: Reader, served: Served) -> None:
    page = reader.open(served.address)
    page.click("#agree")
    page.wait_for_selector("#judging:not([hidden])")
    page.keyboard.press("Control+1")
    page.uncheck("#keys")
    page.keyboard.press("1")
    assert page.locator("input[type=radio]:checked").count() == 0
    page.check("#keys")
    page.keyboard.press("1")
    assert page.locator("input[type=radio]:checked").count() == 1


def test_an_answer_is_not_lost_when_the_server_does_not_answer(reader: Reader, served: Served) -> None:
    page = reader.open(served.address)
    page.click("#agree")
    page.wait_for_selector("#judging:not([hidden])")
    page.route("**/api/answers", lambda route: route.abort())
    for key in ("1", "2", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector("#trouble:not([hidden])")
    page.unroute("**/api/answers")
    page.click("#again")
    assert page.locator("input[type=radio]:checked").count() == 2
    page.keyboard.press("Enter")
    at_pair(page, 2)
    assert [each["choice"] for each in served.answers] == ["left", "right"]


def test_light_and_dark_wide_and_narrow(reader: Reader, served: Served) -> None:
    page = reader.open(served.address, width=320)
    page.click("#agree")
    page.wait_for_selector("#judging:not([hidden])")
    page.keyboard.press("1")
    check_light_and_dark_wide_and_narrow(page)


def test_texts_of_others_are_shown_and_nothing_of_them_runs(reader: Reader, tmp_path: Path) -> None:
    file = write_study(tmp_path, count=1, extra=f"consent = {json.dumps(EVIL)}\ninstructions = {json.dumps(EVIL)}")
    file.write_text(file.read_text().replace('title = "A study"', f"title = {json.dumps(EVIL)}"))
    for path in tmp_path.glob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line | {"prompt": EVIL, "story": EVIL}) + "\n" for line in lines))
    make_study(file, tmp_path / "out")
    session, access = Session(open_study(tmp_path / "out")), make_access()
    with running(judge_app(session, access), access) as found:
        page = reader.open(f"http://127.0.0.1:{found.port}/")
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        page.click("#agree")
        page.wait_for_selector("#judging:not([hidden])")
        for place in ("#title", "#consent", "#instructions", "#prompt", "#left", "#right"):
            assert "<img src=x onerror=alert(1)>" in page.locator(place).text_content()
        assert page.locator("img, main script").count() == 0
        assert reader.complaints == []
    session.close()
