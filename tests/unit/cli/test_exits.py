"""The one table of exit codes: every error has its place, and says what, code, whether to try again, the way out."""

from __future__ import annotations

import errno

import click
import pytest

from counterfoil import errors
from counterfoil.cli.exits import MEANINGS, Exit, failure_of
from counterfoil.cli.render.failure import failure_lines
from counterfoil.errors import CounterfoilError


def kinds(kind: type[CounterfoilError] = CounterfoilError) -> list[type[CounterfoilError]]:
    return [kind, *(deeper for found in kind.__subclasses__() for deeper in kinds(found))]


KINDS = [kind for kind in kinds() if kind.__module__.startswith(errors.__name__)]

EXPECTED = {
    errors.InputError: Exit.BAD_INPUT,
    errors.ConfigInvalid: Exit.USAGE,
    errors.WrongSequence: Exit.CONFLICT,
    errors.SettledAlready: Exit.CONFLICT,
    errors.RunBusy: Exit.TRY_AGAIN,
    errors.StreamNotFound: Exit.NOT_FOUND,
    errors.LedgerNotFound: Exit.NOT_FOUND,
    errors.KeyStoreMissing: Exit.ACCESS,
    errors.RunWaiting: Exit.UNDECIDED,
    errors.EffectFailed: Exit.UNDECIDED,
    errors.StoreBusy: Exit.TRY_AGAIN,
    errors.StoreFull: Exit.TRY_AGAIN,
    errors.StoreReadOnly: Exit.STORE,
    errors.StoreCorrupt: Exit.STORE,
    errors.NetworkFileSystem: Exit.STORE,
    errors.ContentDamaged: Exit.BROKEN,
    errors.InternalError: Exit.INTERNAL,
}


@pytest.mark.parametrize("kind", EXPECTED, ids=lambda kind: kind.__name__)
def test_an_error_leaves_with_the_code_of_what_its_caller_should_do(kind):
    assert failure_of(kind("it happened")).exit is EXPECTED[kind]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_and_words(kind):
    failure = failure_of(kind("it happened", hint="do this", sequence=3))
    assert failure.exit not in {Exit.DONE, Exit.INTERRUPTED}
    text = " ".join(line.text for line in failure_lines(failure, 100))
    for part in (
        "✗ it happened",
        failure.code,
        "trying again",
        f"exit code {int(failure.exit)}",
        "→ do this",
    ):
        assert part in text


def test_every_code_has_a_meaning_and_they_are_those_of_the_contract():
    assert {int(code) for code in MEANINGS} == {0, 1, 2, 3, 4, 64, 65, 66, 69, 70, 75, 77, 130}


def test_whether_to_try_again_is_said():
    busy = " ".join(line.text for line in failure_lines(failure_of(errors.StoreBusy("busy")), 80))
    assert "trying again may help" in busy


SYSTEM = {errno.ENOENT: 66, errno.EACCES: 77, errno.EROFS: 77, errno.ENOSPC: 75, errno.EIO: 69}


@pytest.mark.parametrize("number", SYSTEM, ids=lambda number: errno.errorcode[number])
def test_an_error_of_the_system_has_its_code_too(number):
    failure = failure_of(OSError(number, "no", "some/file"))
    assert int(failure.exit) == SYSTEM[number]
    assert "some/file" in failure.message


def test_an_error_nobody_foresaw_asks_to_be_reported():
    failure = failure_of(RuntimeError("surprise"))
    assert failure.exit is Exit.INTERNAL
    assert "report" in (failure.hint or "")


def test_an_error_for_programs_keeps_its_fields_in_plain_form():
    told = failure_of(errors.GuardFailed("no", key=("a", b"\xff"), row={"n": 1}, at={1})).to_json()["error"]
    assert told["fields"] == {"key": ["a", "ff"], "row": {"n": 1}, "at": [1]}


def test_a_long_message_is_wrapped_and_whole():
    words = " ".join(f"word{number}" for number in range(50))
    lines = failure_lines(failure_of(errors.InputError(words)), 60)
    assert all(line.width <= 60 for line in lines)
    assert all(f"word{number}" in " ".join(line.text for line in lines) for number in range(50))


def test_the_codes_of_the_command_library_never_show():
    assert click.UsageError.exit_code not in {int(code) for code in (Exit.USAGE, Exit.BAD_INPUT)}


def test_a_message_with_a_name_of_any_length_keeps_its_beginning_and_its_end():
    name = "n" * 100_000
    failure = failure_of(
        errors.StreamNotFound(f"there is no conversation {name} in ledger-1", hint=f"not {name}!")
    )
    text = "\n".join(line.text for line in failure_lines(failure, 100))
    assert len(text) < 6_000
    assert "there is no conversation" in text
    assert text.replace("\n", "").count("characters …") == 2
    assert "in ledger-1" in text
