"""The studio as a writer meets it in a real browser: written, stopped, swapped, wished, branched, undone, killed."""

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from contract.reader import Reader, check_light_and_dark_wide_and_narrow, fits_sideways, serious_faults
from program import Started
from unit.studio.held_stories import HeldStories
from unit.web.asking import running
from unit.writing.toy_writer import CODES, save_writer

from discodvt.studio.database import NAME
from discodvt.studio.projects import Projects
from discodvt.studio.server import make_studio
from discodvt.web.access import make_access
from discodvt.writing import StoryWriter

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script> \x00 \u202e backwards {{7*7}} **bold**"


class Studio:
    """`discodvt studio` with the model that ships, in a process of its own that can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port, self.starts = directory, 0, 0
        self.start()

    def start(self) -> None:
        self.starts += 1
        log = self.directory / f"{self.starts}.log"
        words = ("studio", "--data", self.directory, "--port", self.port, "--no-browser")
        self.program = Started(log, *words)
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/\?token=[\w-]+", said(log))):
            assert self.program.process.is_alive(), said(log)
            time.sleep(0.05)
        self.port, self.address = int(found[1]), found[0]
        while True:
            try:
                urlopen(f"{self.origin}api/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.05)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def kill_at_a_draft(self) -> None:
        """As soon as something of a story that is being written is on the disk: a browser would be too late."""
        with closing(sqlite3.connect(self.directory / NAME)) as projects:
            for _ in range(20_000):
                if projects.execute("SELECT count(*) FROM drafts").fetchone()[0]:
                    break
                time.sleep(0.005)
        self.kill()

    def kill(self) -> None:
        self.program.process.kill()
        self.program.end()


def said(log: Path) -> str:
    return log.read_text() if log.exists() else ""


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    found = Studio(tmp_path_factory.mktemp("studio"))
    yield found
    found.kill()


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> StoryWriter:
    directory = save_writer(tmp_path_factory.mktemp("toy"))
    codes = [
        {"code": code, "share": 0.1, "grams": [{"text": EVIL, "count": 1}], "markers": []} for code in range(CODES)
    ]
    (directory / "codes.json").write_text(json.dumps({"codes": codes}))
    return StoryWriter.from_pretrained(directory)


@pytest.fixture
def address(toy: StoryWriter, tmp_path: Path) -> Iterator[str]:
    """A studio in this process whose model is small and random."""
    projects, access = Projects(tmp_path), make_access()
    with running(make_studio(toy, access, projects=projects), access) as found:
        yield f"http://127.0.0.1:{found.port}/"
    projects.close()


def ready(page: "Page") -> "Page":
    page.locator("body[data-ready]").wait_for()
    return page


def idle(page: "Page") -> None:
    """Wait until nothing is written (not with wait_for_function, which the page's policy forbids)."""
    page.locator("#write:not([hidden])").wait_for()


def written(page: "Page", prompt: str, length: str = "80") -> None:
    page.select_option("#length", length)
    page.fill("#prompt", prompt)
    quiet(page)
    page.keyboard.press("Control+Enter")
    done(page)


def quiet(page: "Page") -> None:
    """Forget what was said, so that what is said next is new."""
    page.locator("#status").evaluate("each => { each.textContent = ''; }")


def done(page: "Page") -> None:
    page.locator("#status", has_text=re.compile("Done|Stopped")).wait_for()
    idle(page)


def act(page: "Page", selector: str) -> None:
    """Press a button that lets something be written, and wait for it."""
    quiet(page)
    page.click(selector)
    done(page)


def story(page: "Page") -> str:
    return page.locator("#story").text_content() or ""


def row(place: int, part: str = ".code") -> str:
    return f"#plan li[data-place='{place}'] {part}"


def codes(page: "Page") -> list[str]:
    return page.locator("#plan > li > .row .chip").all_text_contents()


def before(page: "Page", place: int) -> str:
    """The text before the segment of a place."""
    pieces = page.locator("#story .seg").all()
    return "".join(
        piece.text_content() or "" for piece in pieces if int(piece.get_attribute("data-place") or 99) < place
    )


def test_a_code_is_swapped_only_what_follows_changes_and_versions_branch(reader: Reader, studio: Studio) -> None:
    page = ready(reader.open(studio.address))
    assert "changes from" in page.locator("#welcome").inner_text()
    assert serious_faults(page) == []
    page.select_option("#length", "80")
    act(page, ".tries button >> nth=0")
    first, plan = story(page), codes(page)
    assert len(first.split()) > 20
    page.click(row(4))
    page.locator(".other").first.wait_for()
    kept, other = before(page, 4), page.locator(".other .chip").first.text_content()
    assert serious_faults(page) == []
    act(page, ".other >> nth=0")
    second = story(page)
    assert second != first
    assert second.startswith(kept.rstrip())
    assert codes(page) == [*plan[:4], other, *plan[5:]]
    assert page.locator("#story .seg.fresh").count() > 0
    assert page.locator("#versions li").count() == 2

    page.locator(row(4)).focus()
    page.keyboard.press("Control+z")
    page.locator("#status", has_text="Undone").wait_for()
    assert (story(page), codes(page)) == (first, plan)
    page.keyboard.press("Control+Shift+Z")
    page.locator("#status", has_text="Redone").wait_for()
    assert story(page) == second
    page.click("#undo")
    page.locator("#versions li[aria-current] .what", has_text="Written").wait_for()

    page.locator(row(2)).focus()  # a second way on from the first version: a branch
    page.keyboard.press("ArrowDown")
    kept = before(page, 3)
    quiet(page)
    page.keyboard.press("Shift+Enter")
    done(page)
    third = story(page)
    assert third not in (first, second)
    assert third.startswith(kept.rstrip())
    assert codes(page) == plan
    assert [each.get_attribute("aria-level") for each in page.locator("#versions li").all()] == ["1", "2", "1"]
    page.click("#versions li[aria-level='2']")
    page.locator("#versions li[aria-current] .what", has_text="at place 5").wait_for()
    assert story(page) == second
    assert reader.complaints == []
    assert all(url.startswith(studio.origin) for url in reader.requests)
    assert "token" not in page.url  # no bookmark and no history gets it


def test_a_wish_for_because_comes_true_and_is_marked(reader: Reader, studio: Studio) -> None:
    page = ready(reader.open(studio.address))
    page.click("#new")
    written(page, "A brave little duck")
    for place in (3, 4, 5):
        page.locator(row(place)).focus()
        page.keyboard.press("w")
        page.locator(".wish-marker").wait_for()
        page.select_option(".wish-marker", "because")
        act(page, ".wish button")
        if page.locator("#story mark").count():
            break
    assert page.locator("#story mark").text_content().lower() == "because"
    assert "because found" in page.locator("#facts").inner_text()
    assert page.locator("#cards article").count() == 8
    assert page.locator("#versions li", has_text="because found").count() >= 1
    assert serious_faults(page) == []
    assert reader.complaints == []


def test_all_versions_are_there_after_the_server_was_killed(reader: Reader, studio: Studio) -> None:
    page = ready(reader.open(studio.address))
    page.click("#new")
    written(page, "The robot who was afraid of the rain")
    page.click(row(1, ".lock"))
    page.locator(row(1, ".lock[aria-pressed=true]")).wait_for()
    act(page, "#again")
    assert page.locator(row(1, ".lock[aria-pressed=true]")).count() == 1
    text, plan, versions = story(page), codes(page), page.locator("#versions .what").all_text_contents()
    assert len(versions) == 3
    project = page.url.partition("#")[2]
    page.select_option("#length", "320")
    page.fill("#prompt", "Something that is never done")
    page.keyboard.press("Control+Enter")
    studio.kill_at_a_draft()
    seen = story(page)
    studio.start()
    page = ready(reader.open(f"{studio.address}#{project}"))
    page.locator("#versions li").first.wait_for()
    assert page.locator("#versions .what").all_text_contents()[:3] == versions
    assert page.locator("#versions li").count() == 4
    half = story(page)  # what was being written then is a version too, as far as it came
    assert half
    assert seen.startswith(half) or half.startswith(seen)
    assert "stopped" in page.locator("#facts").inner_text()
    page.click("#undo")
    page.locator("#versions li[aria-current] .what", has_text="again").wait_for()
    assert (story(page), codes(page)) == (text, plan)
    assert page.locator(row(1, ".lock[aria-pressed=true]")).count() == 1
    page.click("#undo")
    page.locator("#versions li[aria-current] .what", has_text="Locks").wait_for()
    assert reader.complaints == []


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldStories:
    return HeldStories(monkeypatch)


def test_one_reads_and_writes_another_story_while_one_is_written(
    reader: Reader, address: str, held: HeldStories
) -> None:
    page = ready(reader.open(address))
    page.fill("#prompt", "The fox")
    page.keyboard.press("Enter")
    page.locator("#story .seg").first.wait_for()
    first = page.url
    page.click("#new")
    page.locator("#welcome:not([hidden])").wait_for()
    page.fill("#prompt", "The duck")
    page.keyboard.press("Enter")
    page.locator("#story .seg").first.wait_for()
    assert page.url != first
    assert page.locator("#story-heading").text_content() == "The duck"
    assert page.locator("#projects option", has_text="The fox · writing").count() == 1
    page.select_option("#projects", label="The fox · writing")
    page.locator("#story-heading", has_text="The fox").wait_for()
    page.locator("#story .seg").first.wait_for()
    assert page.locator("#stop:not([hidden])").count() == 1
    assert page.locator("#prompt").input_value() == "The fox"
    quiet(page)
    page.keyboard.press("Escape")  # stops this one only
    page.locator("#status", has_text="Stopped").wait_for()
    half = story(page)
    assert page.locator("#projects option", has_text="The duck · writing").count() == 1
    quiet(page)
    held.most = 10**6
    page.locator("#status", has_text="“The duck” is written.").wait_for()
    assert story(page) == half
    page.select_option("#projects", label="The duck")
    page.locator("#story-heading", has_text="The duck").wait_for()
    assert page.locator("#versions li").count() == 1
    assert "stopped" not in page.locator("#facts").inner_text()
    assert reader.complaints == []


@pytest.mark.usefixtures("held")
def test_what_was_written_when_it_is_stopped_stays(reader: Reader, address: str) -> None:
    page = ready(reader.open(address))
    page.fill("#prompt", "The fox")
    page.keyboard.press("Enter")
    page.locator("#story .seg").first.wait_for()
    assert page.locator("#story").get_attribute("aria-busy") == "true"
    page = ready(reader.open(page.url))  # loaded anew it goes on to show what is written
    page.locator("#stop:not([hidden])").wait_for()
    page.locator("#story .seg").first.wait_for()
    quiet(page)
    page.keyboard.press("Escape")
    done(page)
    assert "stopped" in page.locator("#facts").inner_text()
    text = story(page)
    assert text
    page = ready(reader.open(page.url))
    page.locator("#story .seg").first.wait_for()
    assert story(page) == text
    assert reader.complaints == []


def test_candidates_comparison_hearing_import_and_export(reader: Reader, address: str) -> None:
    page = ready(reader.open(address))
    page.select_option("#candidates", "3")
    written(page, "The fox who lost his hat", length="")
    page.locator("#cards article").nth(2).wait_for()
    shown = story(page)
    number = 1 if "shown" in (page.locator("#cards article").first.get_attribute("class") or "") else 0
    taken = page.locator("#cards article").nth(number)
    text = taken.locator(".text").text_content()
    taken.locator("button", has_text="Take").click()
    page.locator("#cards article").nth(number).locator("button", has_text="Shown").wait_for()
    assert story(page) == text != shown
    page.select_option("#candidates", "1")
    page.click(row(0))
    page.locator(".what-if").first.wait_for()
    act(page, ".what-if >> nth=0")
    page.click("#compare")
    page.locator("#compared td.differs").first.wait_for()
    page.click("#compare-close")
    page.click("#import")
    page.fill("#import-text", "Once there was a fox. He lost his hat, and he cried!")
    page.click("#import-form button.main")
    page.locator("#versions li[aria-current] .what", has_text="read").wait_for()
    assert story(page) == "Once there was a fox. He lost his hat, and he cried!"
    assert page.locator("#prompt").input_value() == "Once there was a fox."
    page.click("#listen")
    page.locator("#plan .heard").first.wait_for()
    assert page.locator("#plan .heard.no").count() == 0  # its plan is what was heard
    page.click("#export")
    with page.expect_download() as started:
        page.click("#export-jsonl")
    lines = [json.loads(line) for line in started.value.path().read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 5
    assert lines[-1]["action"] == {"kind": "read"}
    assert serious_faults(page) == []
    page.fill("#rename", "Foxes")
    page.keyboard.press("Enter")
    page.locator("#projects option", has_text="Foxes").wait_for(state="attached")
    page.click("#export")
    page.click("#hide")
    page.locator("#welcome:not([hidden])").wait_for()
    page.locator("#projects option", has_text="Foxes").wait_for(state="detached")
    assert reader.complaints == []


def test_letters_act_only_on_a_focused_code_and_can_be_switched_off(reader: Reader, address: str) -> None:
    page = ready(reader.open(address))
    written(page, "all", length="")  # typed letters lock nothing
    assert page.locator("#versions li").count() == 1
    page.fill("#prompt", "something else")
    page.locator(row(2)).focus()
    page.keyboard.press("l")
    page.locator(row(2, ".lock[aria-pressed=true]")).wait_for()
    assert page.locator("#prompt").input_value() == "something else"  # what was typed is not lost
    assert page.evaluate("document.activeElement.closest('li').dataset.place") == "2"
    page.keyboard.press("?")
    page.uncheck("#letters")
    page.keyboard.press("Escape")
    page.locator(row(2)).focus()
    page.keyboard.press("l")
    page.keyboard.press("End")
    assert page.locator("#plan .lock[aria-pressed=true]").count() == 1
    assert page.locator(row(2, ".lock[aria-pressed=true]")).count() == 1
    assert page.locator("#plan .code[tabindex='0']").count() == 1


def test_light_and_dark_wide_and_narrow(reader: Reader, address: str) -> None:
    page = ready(reader.open(address))
    page.set_viewport_size({"width": 320, "height": 700})
    assert fits_sideways(page)
    page.select_option("#candidates", "2")
    written(page, "The fox who lost his hat", length="")
    page.click(row(0))
    page.locator(".other").first.wait_for()
    check_light_and_dark_wide_and_narrow(page)


def test_two_windows_never_overwrite_each_other(reader: Reader, address: str) -> None:
    page = ready(reader.open(address))
    written(page, "The fox", length="")
    act(page, "#again")
    second = story(page)
    with page.expect_popup() as opened:
        page.evaluate("open(location.href)")
    other = ready(opened.value)
    other.locator("#story .seg").first.wait_for()
    other.click("#undo")
    other.locator("#status", has_text="Undone").wait_for()
    page.click("#undo")
    page.locator("#status", has_text=re.compile("another window|Undone")).wait_for()
    assert page.locator("#versions li").count() == 2
    page.click("#redo")
    page.locator("#status", has_text="Redone").wait_for()
    assert story(page) == second


@pytest.mark.filterwarnings("ignore:a (story|prompt) of")  # longer than the toy reads
def test_texts_of_others_are_shown_and_nothing_of_them_runs(reader: Reader, address: str) -> None:
    """Story, prompt, dictionary and title; in candidates, comparison, what was heard, versions, the exported page."""
    page = ready(reader.open(address))
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.click("#import")
    page.fill("#import-text", EVIL)
    page.fill("#import-prompt", EVIL)
    page.click("#import-form button.main")
    page.locator("#story .seg").first.wait_for()
    assert "<img src=x onerror=alert(1)>" in story(page)
    assert EVIL.strip() in (page.locator("#story-heading").text_content() or "")
    assert "img src=x onerror" in " ".join(page.locator("#plan .phrase").all_text_contents())
    with page.expect_download() as started:
        page.click("#export")
        page.click("#export-html")
    exported = started.value.path().rename(started.value.path().with_suffix(".html"))
    page.fill("#rename", EVIL)
    page.keyboard.press("Enter")
    page.locator("#projects option", has_text="<img").wait_for(state="attached")
    page.click("#listen")
    page.locator("#plan .heard").first.wait_for()
    page.select_option("#candidates", "2")
    page.click(row(0))
    page.locator(".other", has_text="img src=x").first.wait_for()
    act(page, ".what-if >> nth=0")
    page.locator("#compared td", has_text="<im").first.wait_for()  # the toy's codes govern a few characters
    page.locator("#cards article").nth(1).wait_for()
    act(page, "#again")
    page.locator("#versions li").nth(4).wait_for()
    assert page.locator("main img, main script").count() == 0
    assert reader.complaints == []
    page = reader.open(exported)
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    assert "<img src=x onerror=alert(1)>" in page.locator("body").inner_text()
    assert page.locator("img").count() == 0
    assert reader.complaints == []
