"""Logs that were cut, glued or dressed otherwise (case S18), in a real ledger that verifies; and real ones of their kind."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

import counterfoil
from counterfoil.client.features import FEATURES
from counterfoil.client.imports import LedgerImports
from counterfoil.evidence.verify import verify
from counterfoil.importers.run import import_file
from tests.command import Shell
from tests.unit.importers.streams import (
    SESSION,
    exec_command,
    exec_head,
    exec_turn,
    rollout_call,
    rollout_head,
    rollout_output,
    rollout_said,
    rollout_tokens,
    stream_answer,
    stream_end,
    stream_init,
    stream_result,
    text,
    use,
)
from tests.unit.importers.target import MemoryTarget
from tests.unit.importers.transcripts import line, write

LOGS = {
    "claude-code-stream-json": [
        stream_init(),
        stream_answer(text("é"), use("c1")),
        stream_result("c1"),
        stream_end(0.25),
    ],
    "codex": [
        rollout_head(),
        rollout_said("user", "é"),
        rollout_call("c1"),
        rollout_output("c1"),
        rollout_tokens(5, 1),
    ],
    "codex-exec": [exec_head(), exec_command("started", 1), exec_command("completed", 1, 0), exec_turn(5, 1)],
}


def said(target):
    return [(event.type, event.header.event_id) for event in target.events]


@pytest.mark.parametrize("kind", LOGS)
def test_a_log_cut_at_any_byte_of_its_last_three_records_keeps_every_whole_one(tmp_path, kind):
    """Case S18."""
    records, file = LOGS[kind], tmp_path / "log.jsonl"
    whole = b"".join(map(line, records))
    begin = len(whole) - sum(len(line(record)) for record in records[-3:])
    for cut in range(begin, len(whole), 5):
        file.write_bytes(whole[:cut])
        target = MemoryTarget()
        totals = import_file(target, file, format=kind)
        tail = whole[:cut].rpartition(b"\n")[2]
        is_whole = bool(tail) and tail + b"\n" in set(map(line, records))
        assert totals.refused == (bool(tail) and not is_whole)
        assert totals.records == whole[:cut].count(b"\n") + bool(tail)


@pytest.mark.parametrize("kind", LOGS)
def test_a_byte_order_mark_other_line_ends_and_empty_lines_change_nothing(tmp_path, kind):
    """Case S18."""
    plain, dressed, file = MemoryTarget(), MemoryTarget(), tmp_path / "log.jsonl"
    whole = b"".join(map(line, LOGS[kind]))
    file.write_bytes(whole)
    import_file(plain, file)
    file.write_bytes(b"\xef\xbb\xbf" + whole.replace(b"\n", b"\r\n\r\n"))
    import_file(dressed, file)
    assert said(plain) == said(dressed)


@pytest.mark.parametrize("kind", LOGS)
def test_two_records_on_one_line_and_hostile_lines_are_kept_as_found(tmp_path, kind):
    """Case S18."""
    records, target = LOGS[kind], MemoryTarget()
    hostile = [b"\x1b[2J\x00\n", b"\xff\xfe\n", b"[" * 5_000 + b"\n", b'{"type":"a","type":"b"}\n', b"NaN\n"]
    glued = line(records[1]).rstrip() + line(records[2])
    totals = import_file(target, write(tmp_path / "log.jsonl", records[0], *hostile, glued, records[-1]))
    assert (totals.records, totals.refused) == (8, 6)
    assert len(target.only.of_type("record.refused")) == 6


@pytest.mark.parametrize("kind", LOGS)
def test_a_log_in_a_real_ledger_verifies_and_adds_nothing_again(tmp_path, kind):
    file = write(tmp_path / "log.jsonl", *LOGS[kind])
    with counterfoil.open(tmp_path / "ledger") as ledger:
        for added in (len(LOGS[kind]), 0):
            totals = import_file(LedgerImports(ledger), file)
            assert (totals.format, totals.records_added) == (kind, added)
        assert verify(ledger.store, ledger.keyring, FEATURES).exit_code == 0


def test_a_sub_agents_conversation_and_its_parent_name_each_other_in_a_ledger(tmp_path):
    """Case X7."""
    records = [
        stream_answer(use("task-1", "Task", prompt="look")),
        stream_answer(text("x"), message_id="m2", call="task-1"),
    ]
    file = write(tmp_path / "log.jsonl", *records)
    with counterfoil.open(tmp_path / "ledger") as ledger:
        import_file(LedgerImports(ledger), file)
        name = f"claude-code-stream-json:{SESSION}"
        opened = next(ledger.events(f"{name}/task-1"))
        assert (opened.type, opened.data["origin"]) == ("conversation.opened", "import")
        assert opened.data["parent_stream_id"] == ledger.stream_of(name)
        (call,) = ledger.events(name, types=["step.started"])
        assert opened.data["parent_event_id"] == call.event_id
        told = [event for event in ledger.events(name) if event.data.get("kind") == "sub_agent"]
        assert [event.content["child"]["stream_id"] for event in told] == [opened.stream_id]
        parent = ledger.stream_of(name)
    shell = Shell(tmp_path)
    words = ("--ledger", str(tmp_path / "ledger"))
    assert f"child {opened.stream_id}" in " ".join(shell("show", parent, *words, ledger=False).out.split())
    assert f"parent {parent}" in " ".join(shell("show", opened.stream_id, *words, ledger=False).out.split())


# ---- real ones -------------------------------------------------------------------------------------------------------

HIVE_667 = "claude-code-stream-json/hive-667-pricing-run2.jsonl"
HIVE_724 = "claude-code-stream-json/hive-724-draft2.jsonl"


def _all_tokens(usage):
    return sum(value for name, value in usage.items() if name.endswith("_tokens") and isinstance(value, int))


@pytest.mark.data
@pytest.mark.parametrize("name", [HIVE_667, HIVE_724])
def test_naive_sums_of_real_usage_are_too_high_and_ours_count_a_message_once(transcripts: Path, name: str):
    """Case S25: the naive sum is 1.46 to 2.04 times too high."""
    naive, once = 0, {}
    results = Decimal(0)
    output: dict[str, int] = {}
    for text_line in (transcripts / name).read_text().splitlines():
        record = json.loads(text_line, parse_float=Decimal)
        if record["type"] == "assistant":
            message = record["message"]
            naive += _all_tokens(message["usage"])
            once[message["id"]] = max(once.get(message["id"], 0), _all_tokens(message["usage"]))
            output[message["id"]] = max(output.get(message["id"], 0), message["usage"]["output_tokens"])
        if record["type"] == "result":
            results += record["total_cost_usd"]
    assert 1.4 < naive / sum(once.values()) < 2.1
    target = MemoryTarget()
    totals = import_file(target, transcripts / name)
    assert totals.output_tokens == sum(output.values())
    assert totals.cost == str(results)
    responded = [event for event in target.events if event.type == "provider.responded"]
    assert len(responded) == len(once)


@pytest.mark.data
def test_tokens_of_a_real_log_are_those_of_its_results(transcripts: Path):
    """The result lines of this one count what its messages do; the other's messages hold counts that were running."""
    totals = import_file(MemoryTarget(), transcripts / HIVE_724)
    told = [json.loads(one) for one in (transcripts / HIVE_724).read_text().splitlines() if '"result"' in one]
    usage = [record["usage"] for record in told if record["type"] == "result"]
    assert totals.output_tokens == sum(one["output_tokens"] for one in usage)
    assert totals.input_tokens == sum(one["input_tokens"] for one in usage)


@pytest.mark.data
def test_the_sub_agent_of_a_real_log_is_linked_with_its_call(transcripts: Path):
    target = MemoryTarget()
    totals = import_file(target, transcripts / HIVE_667)
    assert totals.sub_agents == 1
    ((name, (parent, call)),) = target.parents.items()
    child = target.conversations[name]
    lines = {event.content["source"]["line"] for event in child.events if "record" in event.content}
    assert len(lines) == 19
    (above,) = [one for one in target.conversations.values() if one.stream_id == parent]
    assert [event.content["name"] for event in above.events if event.header.event_id == call] == ["Task"]
    assert "prompt" in child.events[0].content["input"]


@pytest.mark.data
@pytest.mark.parametrize("name", [HIVE_667, HIVE_724, "codex-exec-json/hive-642-session.jsonl"])
def test_a_real_log_in_a_real_ledger_verifies_after_two_imports(transcripts: Path, tmp_path: Path, name: str):
    with counterfoil.open(tmp_path / "ledger") as ledger:
        first = import_file(LedgerImports(ledger), transcripts / name)
        again = import_file(LedgerImports(ledger), transcripts / name)
        assert (again.records_added, first.records_added) == (0, first.records)
        assert verify(ledger.store, ledger.keyring, FEATURES).exit_code == 0
