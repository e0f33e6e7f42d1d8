"""``counterfoil show --request`` and ``--requests``: what was sent to a model, exactly, and what is shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterfoil.cli.exits import Exit
from counterfoil.core.limits import SPILL_BYTES
from tests.command import Shell

HOSTILE = "\x1b[2J\u202eevil\x00"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def asked(shell: Shell, *more: str) -> list[bytes]:
    """A conversation with two requests; their bytes."""
    sent = []

    def model(request):
        sent.append(request.body)
        return "on its way"

    history = [{"role": "user", "content": f"Where is it? {HOSTILE}"}, *more]
    with shell.open() as ledger, ledger.run("agent", conversation="case") as run:
        run.state["plan"] = "look"
        run.ask(model, history, name="small-1", tools=[{"name": "look_up"}])
        run.ask(
            model, [*history, {"role": "user", "content": "And now?"}], name="small-1", purpose="fallback"
        )
    return sent


def test_the_exact_bytes_are_printed_and_nothing_else(shell):
    first, second = asked(shell)
    one, two = shell("show", "case", "--requests", "--json").lines
    assert shell("show", "--request", one["step_id"], "--raw").out.encode() == first
    assert shell("show", "case", "--request", two["call_id"], "--raw").out.encode() == second


def test_a_request_is_shown_with_what_it_is_made_of(shell):
    asked(shell)
    step = shell("show", "case", "--requests", "--json").lines[1]["step_id"]
    shown = shell("show", "--request", step)
    assert shown.code == 0
    for part in (
        f"Request of {step}",
        "fallback",
        "made again and checked",
        "path",
        "2 messages",
        "state  plan v1",
        "And now?",
    ):
        assert part in shown.out
    assert "begins with 1 message" in shown.out
    assert "\x1b[2J" not in shown.out
    assert "\u202e" not in shown.out
    assert '"model": "small-1"' in shell("show", "--request", step, "--full").out


@pytest.mark.parametrize(
    "said", ["half \ud800", {"role": "user", "content": ["\udfff", HOSTILE]}, {"\ud800": "\x9b"}]
)
def test_half_a_surrogate_pair_in_a_message_is_shown(shell, said):
    asked(shell, said if isinstance(said, dict) else {"role": "user", "content": said})
    for one in shell("show", "case", "--requests", "--json").lines:
        for how in ((), ("--full",), ("--json",)):
            shown = shell("show", "--request", one["step_id"], *how)
            assert shown.code == 0, shown.err


def test_a_request_for_programs_has_its_bytes_and_its_segments(shell):
    first, _ = asked(shell)
    one = shell("show", "case", "--requests", "--json").lines[0]
    told = shell("show", "--request", one["event_id"], "--json").json
    assert told["body"].encode() == first
    assert (told["exact"], told["messages"], told["bytes"], told["gone"]) == (True, 1, len(first), [])
    assert told["state"] == {"plan": 1}
    assert [max(part) for part in told["segments"]] == ["raw", "path", "raw"]


def test_the_requests_of_a_run_are_listed_with_what_they_share(shell):
    asked(shell)
    (run,) = shell("ls", "runs", "--json").lines
    for name in ("case", run["run_id"]):
        listed = shell("show", name, "--requests")
        assert len(listed.out.splitlines()) == 3
    assert "%" in listed.out
    assert "more than 1" in shell("show", "case", "--requests", "--limit", "1").out
    assert shell("show", "case", "--requests", width=40).code == 0


def test_a_request_that_cannot_be_made_again_says_why(shell):
    asked(shell, "x" * 2 * SPILL_BYTES)
    for path in (shell.place / "artifacts").rglob("*"):
        if path.is_file():
            path.unlink()
    listed = shell("show", "case", "--requests")
    assert "missing" in listed.out
    step = shell("show", "case", "--requests", "--json").lines[0]["step_id"]
    shown = shell("show", "--request", step)
    assert (shown.code, "cannot be shown" in shown.out, "missing" in shown.out) == (0, True, True)
    told = shell("show", "--request", step, "--json").json
    assert (told["body"], told["exact"], told["gone"][0]["state"]) == (None, False, "missing")
    raw = shell("show", "--request", step, "--raw")
    assert raw.code != 0
    assert raw.out == ""
    assert "missing" in raw.err


def test_what_is_no_request_is_refused(shell):
    asked(shell)
    assert shell("show", "--request", "run_1").code == Exit.BAD_INPUT
    assert shell("show", "--request", "stp_01J9ZC3Y3V7W2R5T8QK4M6N0PS").code == Exit.NOT_FOUND
    assert shell("show", "case", "--raw").code == Exit.USAGE
    assert shell("show").code == Exit.USAGE
    assert "no requests here" in shell("show", "system/config", "--requests").out
