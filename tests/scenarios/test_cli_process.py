"""The program as a shell runs it: exit codes, a closed pipe, no terminal, no colour, no extra."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Shell, refunded

PROGRAM = (sys.executable, "-c", "from counterfoil.cli import main; main()")

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """One ledger that these tests only look at."""
    shell = Shell(tmp_path_factory.mktemp("process"))
    refunded(shell)
    return shell


def run(
    shell: Shell, *words: str, before: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    program = (*PROGRAM[:2], before + PROGRAM[2]) if before else PROGRAM
    given = {**os.environ, "COUNTERFOIL_LEDGER": str(shell.place), **environment}
    return subprocess.run([*program, *words], capture_output=True, cwd=shell.directory, env=given, timeout=60)


CODES = {
    "done": (["ls"], 0),
    "help": (["--help"], 0),
    "the version": (["--version"], 0),
    "below the grade": (["verify", "--require", "A4"], 2),
    "no command": ([], 64),
    "a command that is none": (["lx"], 64),
    "an option that is none": (["ls", "--lx"], 64),
    "nothing there": (["show", "nobody"], 66),
}


@pytest.mark.parametrize("name", CODES)
def test_the_program_leaves_with_its_code(shell, name):
    words, code = CODES[name]
    assert run(shell, *words).returncode == code


UNPRINTABLE = [">&-", *([">/dev/full"] if Path("/dev/full").exists() else [])]


def redirected(shell: Shell, where: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COUNTERFOIL_LEDGER": str(shell.place)}
    line = ["sh", "-c", f'exec "$@" {where}', "sh", *PROGRAM, *words]
    return subprocess.run(
        line, capture_output=True, text=True, cwd=shell.directory, env=environment, timeout=60
    )


@pytest.mark.parametrize("where", UNPRINTABLE)
@pytest.mark.parametrize(
    "words", ["ls", "verify", "verify --json", "show case-8472 2 --bytes", "help", "--help", "--version"]
)
def test_output_that_cannot_be_written_is_told_and_worth_another_try(shell, where, words):
    done = redirected(shell, where, *words.split())
    assert done.returncode == 75
    assert "output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("where", UNPRINTABLE)
@pytest.mark.parametrize("words", ["show nobody", "show nobody --json"])
def test_an_error_keeps_its_code_and_is_told_aside_when_output_fails(shell, where, words):
    done = redirected(shell, where, *words.split())
    assert done.returncode == 66
    assert "nobody" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("where", UNPRINTABLE)
def test_nothing_to_print_is_no_failure_to_print(shell, where):
    done = redirected(shell, where, "review", "ls", "--json")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("where", ["2>&-", "<&-", "<&- 2>&-"])
def test_other_streams_that_are_closed_do_no_harm(shell, where):
    done = redirected(shell, where, "ls", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["name"] == "case-8472"
    assert redirected(shell, where, "show", "nobody").returncode == 66


def test_a_reader_that_has_seen_enough_is_no_error(shell):
    environment = {**os.environ, "COUNTERFOIL_LEDGER": str(shell.place), "PYTHONUNBUFFERED": "1"}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [*PROGRAM, "show", "case-8472", "--events", "--json"],
            stdout=closed,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words", [["show", "case-8472"], ["ls"], ["verify"], ["show", "nobody"], ["import", "missing"]]
)
def test_without_a_terminal_nothing_steers_one(shell, words):
    done = run(shell, *words)
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"\r" not in done.stdout + done.stderr


def test_colour_is_used_when_it_is_asked_for_and_never_against_no_color(shell):
    assert b"\x1b[" in run(shell, "show", "case-8472", FORCE_COLOR="1").stdout
    assert b"\x1b" not in run(shell, "show", "case-8472", FORCE_COLOR="1", NO_COLOR="1").stdout
    assert b"\x1b" not in run(shell, "--no-color", "show", "case-8472", FORCE_COLOR="1").stdout


def test_an_output_that_cannot_say_a_character_gets_an_escape(shell):
    done = run(shell, "show", "case-8472", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert b"SUCCEEDED" in done.stdout


@pytest.mark.parametrize(
    "words", [["ls", "--nope", "--json"], ["show", "nobody", "--json"], ["--json", "verify", "nobody"]]
)
def test_an_error_for_programs_is_one_object_on_standard_output(shell, words):
    done = run(shell, *words)
    error = json.loads(done.stdout)["error"]
    assert error["exit_code"] == done.returncode
    assert set(error) == {"code", "message", "retryable", "hint", "exit_code", "fields"}
    assert done.stderr == b""


def test_an_interrupted_program_leaves_with_130(shell):
    environment = {**os.environ, "COUNTERFOIL_LEDGER": str(shell.place), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*PROGRAM, "tail", "-f", "-n", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as following:
        assert following.stdout is not None
        assert b"run.finished" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        out, err = following.communicate(timeout=60)
    assert following.returncode == 130
    assert b"tail --cursor" in out
    assert b"interrupted" in err
    assert b"Traceback" not in err


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_line_says_how_to_get_it(shell, missing):
    done = run(shell, "ls", before=f"import sys; sys.modules[{missing!r}] = None; ")
    assert done.returncode == 64
    assert (
        done.stderr == b"counterfoil: the command line needs click and rich: pip install 'counterfoil[cli]'\n"
    )


def test_the_library_needs_nothing_of_the_command_line(shell):
    code = "import sys; sys.modules['click'] = sys.modules['rich'] = None; import counterfoil; counterfoil.open(':memory:').close()"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_help_loads_no_command(shell):
    code = (
        "import sys\nfrom counterfoil.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert not [name for name in sys.modules if name.startswith('counterfoil.cli.verbs.')]\n"
        "assert 'sqlite3' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_times_are_the_same_in_every_time_zone(shell, zone):
    out = run(shell, "show", "case-8472", TZ=zone).stdout.decode()
    assert "opened 2026-09-01 14:31:08Z" in out
    assert "2026-09-01 UTC" in out
    assert json.loads(run(shell, "ls", "--json", TZ=zone).stdout)["opened_at"] == "2026-09-01T14:31:08.412Z"
