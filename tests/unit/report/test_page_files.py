"""A page is written whole, replaces only pages, and says why where it cannot be written."""

import os
from pathlib import Path

import pytest

from discodvt.errors import BadRequest
from discodvt.report.pages import ReportSection, check_page, report_page, write_page


def page(title: str) -> str:
    return report_page(title, "facts", [ReportSection("s", "section", "lead", [])])


def test_a_page_replaces_a_page_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(path, page("one"))
    write_page(path, page("two"))
    assert "<title>two</title>" in path.read_text(encoding="utf-8")
    thesis = tmp_path / "thesis.html"
    thesis.write_text("<html>three years of work</html>")
    for write in (lambda: check_page(thesis), lambda: write_page(thesis, page("three"))):
        with pytest.raises(BadRequest, match=r"thesis.html: no page of discodvt; choose another .*overwrite"):
            write()
    assert thesis.read_text() == "<html>three years of work</html>"
    write_page(thesis, page("three"), overwrite=True)
    assert "<title>three</title>" in thesis.read_text(encoding="utf-8")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["page.html", "thesis.html"]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "mine.txt"
    target.write_text("mine")
    for name, points_to in (("link.html", target), ("dangling.html", tmp_path / "nowhere")):
        link = tmp_path / name
        link.symlink_to(points_to)
        with pytest.raises(BadRequest, match=rf"{name}: a link; give the file itself"):
            write_page(link, page("one"))
        write_page(link, page("one"), overwrite=True)  # the link goes, its target stays
        assert not link.is_symlink()
    assert target.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_the_error_names_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for path, message in (
        (tmp_path / "none" / "page.html", r"none: no such directory; create it"),
        (tmp_path / "file" / "page.html", r"file: not a directory"),
        (tmp_path, r"a directory; give a file in it"),
    ):
        with pytest.raises(BadRequest, match=message):
            check_page(path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(BadRequest, match=rf"{tmp_path.name}: no permission to write in this directory; .* page.html"):
        check_page(tmp_path / "page.html")
