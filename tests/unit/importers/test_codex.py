"""Codex rollouts and `codex exec --json`: calls and results, running totals, several threads, odd shapes."""

from __future__ import annotations

import pytest

from counterfoil.importers.run import import_file
from tests.unit.importers.streams import (
    THREAD,
    exec_command,
    exec_head,
    exec_item,
    exec_turn,
    rollout,
    rollout_call,
    rollout_head,
    rollout_output,
    rollout_said,
    rollout_tokens,
)
from tests.unit.importers.target import MemoryTarget
from tests.unit.importers.transcripts import write


@pytest.fixture
def target():
    return MemoryTarget()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "codex.jsonl"


def types(target):
    return [event.type for event in target.only.events]


# ---- rollouts --------------------------------------------------------------------------------------------------------


def test_a_rollout_becomes_a_conversation(target, file):
    records = [
        rollout_head(),
        rollout_said("developer", "be brief"),
        rollout_said("user", "list the files"),
        rollout_said("assistant", "I look."),
        rollout_call("c1"),
        rollout_output("c1"),
        rollout_tokens(100, 20),
    ]
    totals = import_file(target, write(file, *records))
    assert list(target.conversations) == [f"codex:{THREAD}"]
    assert types(target) == [
        "record.imported",
        "record.imported",
        "admission.accepted",
        "provider.responded",
        "step.started",
        "step.finished",
        "record.imported",
        "transcript.imported",
    ]
    assert (totals.calls, totals.calls_without_result, totals.input_tokens, totals.output_tokens) == (
        1,
        0,
        100,
        20,
    )
    assert target.only.of_type("step.started")[0].header.occurred_at == "2026-06-01T10:00:02.000Z"


def test_token_counts_are_a_running_total_that_may_be_told_twice(target, file):
    """Case S25."""
    counts = [
        rollout_tokens(100, 20),
        rollout_tokens(100, 20),
        rollout_tokens(250, 30),
        rollout_tokens(40, 5),
    ]
    totals = import_file(target, write(file, rollout_head(), *counts))
    assert (totals.input_tokens, totals.output_tokens) == (290, 35)


@pytest.mark.parametrize(
    "output, failed",
    [
        ("Process exited with code 0\nOutput:", False),
        ("Process exited with code 1\nOutput:", True),
        ("Exit code: 127\nWall time", True),
        ('{"output":"x","metadata":{"exit_code":2}}', True),
        ('{"output":"x","metadata":{"exit_code":0}}', False),
        ({"content": "x", "success": False}, True),
        ("{broken", False),
        ("{" + "[" * 100_000, False),
        (None, False),
    ],
)
def test_an_output_says_whether_the_tool_failed(target, file, output, failed):
    import_file(target, write(file, rollout_head(), rollout_call("c1"), rollout_output("c1", output)))
    (finished,) = target.only.of_type("step.finished")
    assert finished.data["outcome"] == ("error" if failed else "ok")


def test_custom_tools_and_the_shell_are_calls_too(target, file):
    records = [
        rollout(
            "response_item", type="custom_tool_call", call_id="c1", name="apply_patch", input="*** Begin"
        ),
        rollout("response_item", type="custom_tool_call_output", call_id="c1", output="ok"),
        rollout("response_item", type="local_shell_call", call_id="c2", action={"command": ["ls"]}),
    ]
    totals = import_file(target, write(file, rollout_head(), *records))
    assert (totals.calls, totals.calls_without_result) == (2, 1)
    names = [event.content["name"] for event in target.only.of_type("step.started")]
    assert names == ["apply_patch", "local_shell"]


def test_a_compaction_covers_what_stands_before_it(target, file):
    compacted = rollout("compacted", 5, message="so far")
    import_file(target, write(file, rollout_head(), rollout_said("user", "hi"), compacted))
    (found,) = target.only.of_type("compaction.recorded")
    assert found.content["summary"] == "so far"
    assert found.data["to_sequence"] - found.data["from_sequence"] == 1


PARENT = "019a0000-0000-7000-8000-0000000000ff"


@pytest.mark.parametrize(
    "told",
    [
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}},
        {"forked_from_id": PARENT},
    ],
    ids=["spawned", "forked"],
)
def test_a_thread_that_another_one_started_is_below_it_whichever_was_imported_first(
    target, file, tmp_path, told
):
    """Case X7: the parent lies in another file."""
    child = rollout("session_meta", id=THREAD, **told)
    totals = import_file(target, write(file, child, rollout_said("user", "look")))
    above, below = target.conversations[f"codex:{PARENT}"], target.conversations[f"codex:{THREAD}"]
    assert target.parents == {f"codex:{THREAD}": (above.stream_id, None)}
    (link,) = above.events
    assert (link.data["kind"], link.content["child"]["stream_id"]) == ("sub_agent", below.stream_id)
    assert totals.conversations == 1
    parent = write(tmp_path / "parent.jsonl", rollout_head(PARENT), rollout_said("user", "go"))
    assert import_file(target, parent).records_added == 2
    recorded = len(target.events)
    assert import_file(target, file).records_added == 0
    assert len(target.events) == recorded


@pytest.mark.parametrize("odd", [THREAD, "a\x1b[0m", "x" * 300, 7, "\x00"])
def test_a_parent_that_cannot_be_one_is_none(target, file, odd):
    import_file(target, write(file, rollout("session_meta", id=THREAD, forked_from_id=odd)))
    assert (list(target.conversations), target.parents) == ([f"codex:{THREAD}"], {})


@pytest.mark.parametrize(
    "odd",
    [
        rollout("response_item"),
        rollout("response_item", type="message", role="user"),
        rollout("response_item", type=["message"]),
        rollout("response_item", type="message", role="oracle", content="x"),
        rollout("event_msg", type="novelty"),
        rollout("event_msg", type="token_count", info=None),
        rollout("event_msg", type="token_count", info={"total_token_usage": {"input_tokens": "many"}}),
        rollout("novelty"),
        {"timestamp": 5, "type": "response_item", "payload": "x"},
    ],
)
def test_odd_lines_of_a_rollout_are_kept_and_hide_nothing(target, file, odd):
    totals = import_file(target, write(file, rollout_head(), odd, rollout_said("user", "after")))
    assert (totals.records, totals.refused) == (3, 0)
    assert len(target.only.of_type("admission.accepted")) == 1


# ---- exec ------------------------------------------------------------------------------------------------------------


def test_the_start_of_an_item_is_the_call_and_its_end_the_result(target, file):
    records = [exec_head(), exec_command("started", 1), exec_command("completed", 1, 0), exec_turn(70, 7)]
    totals = import_file(target, write(file, *records))
    assert list(target.conversations) == [f"codex-exec:{THREAD}"]
    started, finished = target.only.of_type("step.started", "step.finished")
    assert started.header.step_id == finished.header.step_id
    assert (totals.calls, totals.calls_without_result, totals.input_tokens) == (1, 0, 70)


def test_an_end_without_a_start_is_call_and_result(target, file):
    change = exec_item("completed", 1, "file_change", changes=[{"path": "a"}], status="completed")
    totals = import_file(target, write(file, exec_head(), change))
    assert (totals.calls, totals.calls_without_result, totals.results_without_call) == (1, 0, 0)
    assert target.only.of_type("step.started")[0].content["input"] == [{"path": "a"}]


def test_ids_that_begin_anew_name_other_calls(target, file):
    """A thread that is resumed counts its items from 0 again."""
    once = [exec_command("started", 0), exec_command("completed", 0, 0)]
    said = exec_item("completed", 1, "agent_message", text="done")
    totals = import_file(target, write(file, exec_head(), *once, said, exec_turn(1, 1), *once, said))
    assert (totals.calls, totals.calls_without_result, totals.results_without_call) == (2, 0, 0)
    assert len(target.only.of_type("provider.responded")) == 2


def test_a_command_that_failed_or_was_declined_is_an_error(target, file):
    declined = exec_item("completed", 2, "command_execution", command="rm", status="declined")
    totals = import_file(target, write(file, exec_head(), exec_command("completed", 1, 3), declined))
    assert totals.error_results == 2


def test_two_threads_in_one_file_are_two_conversations_with_totals_of_their_own(target, file):
    other = THREAD.replace("a", "b")
    records = [exec_head(), exec_turn(10, 1), exec_head(other), exec_turn(10, 1)]
    totals = import_file(target, write(file, *records))
    assert (totals.conversations, totals.input_tokens, totals.output_tokens) == (2, 20, 2)


@pytest.mark.parametrize(
    "odd",
    [
        exec_item("completed", 1, "novelty"),
        exec_item("completed", 1, "agent_message"),
        exec_item("updated", 1, "command_execution"),
        {"type": "item.completed", "item": 7},
        {"type": "item.completed", "item": {"type": ["x"]}},
        {"type": "turn.completed", "usage": "much"},
        {"type": 7},
        {"type": "turn.failed", "error": {"message": "x"}},
    ],
)
def test_odd_lines_of_exec_are_kept_and_hide_nothing(target, file, odd):
    totals = import_file(target, write(file, exec_head(), odd, exec_command("completed", 9, 0)))
    assert (totals.records, totals.refused) == (3, 0)
    assert totals.calls == 1
