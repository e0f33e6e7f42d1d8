"""The edge to the terminal: width, colour, JSON that is plain, progress only where somebody watches."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable

import pytest

from counterfoil.cli.face import WIDTH_MIN, WIDTH_PIPE, Face
from counterfoil.cli.progress import bar
from counterfoil.cli.render.line import Line, Span


class Screen(io.StringIO):
    """A terminal that keeps what was drawn."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


AMBER = Line(Span("◆? IN DOUBT", "doubt_bar"))


@pytest.fixture
def out(monkeypatch) -> Callable[[], io.StringIO]:
    """Puts a pipe in the place of standard output; inside the test, because pytest puts its own back between."""
    return lambda: put(monkeypatch, "stdout", io.StringIO())


@pytest.fixture
def screen(monkeypatch) -> Callable[[], io.StringIO]:
    """Puts a terminal in the place of standard output."""
    return lambda: put(monkeypatch, "stdout", Screen())


def put(monkeypatch: pytest.MonkeyPatch, name: str, stream: io.StringIO) -> io.StringIO:
    monkeypatch.setattr(sys, name, stream)
    return stream


def test_a_width_below_the_least_is_raised_to_it():
    assert Face(width=5).columns == WIDTH_MIN


def test_without_a_terminal_lines_have_a_fixed_width(out):
    out()
    assert Face(environment={}).columns == WIDTH_PIPE


def test_a_terminal_gets_colour_and_a_pipe_gets_none(screen, out):
    drawn = screen()
    Face(environment={}).say(AMBER)
    assert "\x1b[" in drawn.getvalue()
    plain = out()
    Face(environment={}).say(AMBER)
    assert plain.getvalue() == "◆? IN DOUBT\n"


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_colour_gets_none(screen, environment):
    drawn = screen()
    Face(environment=environment).say(AMBER)
    assert drawn.getvalue() == "◆? IN DOUBT\n"


def test_an_empty_no_color_asks_for_nothing(screen):
    drawn = screen()
    Face(environment={"NO_COLOR": ""}).say(AMBER)
    assert "\x1b[" in drawn.getvalue()


def test_json_is_ascii_and_lone_surrogates_stay_what_they_are(out):
    value = {"q": "\ud99c x\x00\u202e", "n": 2**80}
    written = out()
    Face().give(value)
    assert written.getvalue().isascii()
    assert json.loads(written.getvalue()) == value


def test_a_value_that_json_does_not_have_is_never_written(out):
    written = out()
    with pytest.raises(ValueError, match="JSON compliant"):
        Face().give({"score": float("nan")})
    assert written.getvalue() == ""


def test_progress_is_not_drawn_where_nobody_watches(monkeypatch):
    stream = put(monkeypatch, "stderr", io.StringIO())
    with Face(environment={}).progress("verifying", "events") as progress:
        progress.at(5, 10)
    assert stream.getvalue() == ""


def test_progress_is_not_drawn_for_programs(monkeypatch):
    stream = put(monkeypatch, "stderr", Screen())
    with Face(environment={}, as_json=True).progress("verifying", "events") as progress:
        progress.at(5, 10)
    assert stream.getvalue() == ""


def test_a_bar_counts_and_leaves_nothing_behind(monkeypatch):
    stream = put(monkeypatch, "stderr", Screen())
    with bar("verifying", "events", colored=False) as progress:
        progress.at(5, 10)
    drawn = stream.getvalue()
    assert "verifying" in drawn
    assert "5/10" in drawn
    assert drawn.endswith("\x1b[2K")
