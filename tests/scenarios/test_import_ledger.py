"""Importing into a real ledger: found by name, again without effect, from many at once, and proved by verify."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from counterfoil.client.features import FEATURES
from counterfoil.client.imports import LedgerImports
from counterfoil.client.ledger import Ledger
from counterfoil.client.ledger import open as open_ledger
from counterfoil.errors import UnknownTranscript
from counterfoil.evidence.verify import verify
from counterfoil.importers import run as running
from counterfoil.importers.run import import_file
from tests.unit.importers.transcripts import PI_SESSION, pi_assistant, pi_header, pi_result, pi_user, write

SESSION = [
    pi_header(),
    pi_user("hi"),
    pi_assistant("hm", ("c1", "read"), ("c2", "read")),
    pi_result("c1"),
    b"broken\n",
    {"type": "compaction", "summary": "so far", "firstKeptEntryIndex": 2},
    pi_user("more"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "session.jsonl", *SESSION)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def types_of(ledger: Ledger) -> list[str]:
    return [event.type for event in ledger.events(f"pi:{PI_SESSION}")]


EXPECTED = [
    "conversation.opened",
    "record.imported",
    "admission.accepted",
    "provider.responded",
    "step.started",
    "step.started",
    "step.finished",
    "record.refused",
    "compaction.recorded",
    "admission.accepted",
    "transcript.imported",
]


def test_an_imported_session_is_a_conversation_found_by_its_name(place, file):
    with open_ledger(place) as ledger:
        import_file(LedgerImports(ledger), file)
    with open_ledger(place, create=False) as ledger:
        assert types_of(ledger) == EXPECTED
        (info,) = ledger.conversations()
        assert (info.name, info.agent, info.origin) == (f"pi:{PI_SESSION}", "pi", "import")


def test_imported_content_opens_in_another_handle(place, file):
    with open_ledger(place) as ledger:
        import_file(LedgerImports(ledger), file)
    with open_ledger(place, create=False) as ledger:
        started = next(iter(ledger.events(f"pi:{PI_SESSION}", types=["step.started"])))
        assert (started.content["name"], started.content["input"]) == ("read", {"path": "c1.txt"})


def test_importing_again_in_another_handle_adds_nothing(place, file):
    with open_ledger(place) as ledger:
        first = import_file(LedgerImports(ledger), file).to_json()
    with open_ledger(place) as ledger:
        assert import_file(LedgerImports(ledger), file).to_json() == {**first, "records_added": 0}
        assert types_of(ledger) == EXPECTED


def test_four_imports_of_one_file_at_once_leave_each_event_once(monkeypatch, place, file):
    monkeypatch.setattr(running, "BATCH_EVENTS", 2)
    with open_ledger(place) as ledger, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: import_file(LedgerImports(ledger), file), range(4)))
        assert types_of(ledger) == EXPECTED
        assert sum(totals.records_added for totals in found) == len(SESSION)
        assert len({str({**totals.to_json(), "records_added": 0}) for totals in found}) == 1


def test_an_imported_conversation_can_be_gone_on_with(place, file):
    with open_ledger(place) as ledger:
        import_file(LedgerImports(ledger), file)
        with ledger.run("pi", conversation=f"pi:{PI_SESSION}", message="go on"):
            pass
        assert types_of(ledger)[len(EXPECTED) :][0] == "admission.accepted"
        more = write(file, *SESSION, pi_user("and this"))
        assert import_file(LedgerImports(ledger), more).records_added == 1


def test_an_imported_ledger_verifies_with_its_rows(place, file):
    with open_ledger(place) as ledger:
        import_file(LedgerImports(ledger), file)
        report = verify(ledger.store, ledger.keyring, FEATURES)
        assert report.exit_code == 0
        assert report.findings == ()


def test_a_file_that_is_no_transcript_makes_no_conversation(place, file):
    with open_ledger(place) as ledger:
        with pytest.raises(UnknownTranscript):
            import_file(LedgerImports(ledger), write(file, b"hello\n"))
        assert ledger.conversations() == []


@pytest.mark.data
def test_a_real_transcript_in_a_real_ledger_verifies_after_two_imports(transcripts: Path, place: Path):
    with open_ledger(place) as ledger:
        for added in (1003, 0):
            totals = import_file(
                LedgerImports(ledger), transcripts / "pi-coding-agent/before-compaction.jsonl"
            )
            assert (totals.records, totals.records_added) == (1003, added)
        report = verify(ledger.store, ledger.keyring, FEATURES)
        assert report.exit_code == 0
