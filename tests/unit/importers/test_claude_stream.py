"""The output of `claude --output-format stream-json`: usage once a message, costs as running totals, sub-agents linked."""

from __future__ import annotations

import pytest

from counterfoil.importers.run import import_file
from tests.unit.importers.streams import (
    SESSION,
    stream,
    stream_answer,
    stream_end,
    stream_init,
    stream_result,
    text,
    use,
)
from tests.unit.importers.target import MemoryTarget
from tests.unit.importers.transcripts import write

NAME = f"claude-code-stream-json:{SESSION}"
CHILD = f"{NAME}/task-1"


@pytest.fixture
def target():
    return MemoryTarget()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "stream.jsonl"


def kinds(target):
    return [event.data["kind"] for event in target.only.of_type("record.imported")]


def test_lines_of_one_message_are_one_call_of_the_model(target, file):
    """Case S25."""
    lines = [
        stream_answer(text("first"), output=1),
        stream_answer(use("c1"), output=1),
        stream_answer(use("c2"), output=244),
    ]
    totals = import_file(target, write(file, stream_init(), *lines))
    (responded,) = target.only.of_type("provider.responded")
    assert (responded.data["input_tokens"], responded.data["output_tokens"]) == (3, 244)
    assert (totals.input_tokens, totals.output_tokens, totals.calls) == (3, 244, 2)
    assert kinds(target) == ["system", "response_part", "response_part"]


def test_a_call_and_its_result_are_one_step(target, file):
    import_file(target, write(file, stream_answer(use("c1")), stream_result("c1"), stream_result("c9")))
    started, finished, lost = target.only.of_type("step.started", "step.finished")
    assert started.header.step_id == finished.header.step_id
    assert lost.content["flags"] == ["no_call", "time_assumed"]


def test_the_cost_is_that_of_the_result_to_the_last_digit(target, file):
    file.write_bytes(b"")
    write(
        file,
        stream_answer(text("hi")),
        b'{"type":"result","subtype":"success","session_id":"%b","total_cost_usd":0.9644162999999997}\n'
        % SESSION.encode(),
    )
    totals = import_file(target, file)
    assert (totals.cost, totals.currency) == ("0.9644162999999997", "USD")


def test_results_of_one_process_are_running_totals_and_a_new_one_begins_anew(target, file):
    ends = [stream_end(cost) for cost in (0.5, 0.75, 0.25)]
    totals = import_file(target, write(file, stream_init(), *ends))
    assert totals.cost == "1.00"


def test_costs_of_two_sessions_are_added(target, file):
    totals = import_file(target, write(file, stream_end(0.5), stream_end(0.25, session="other")))
    assert (totals.cost, totals.conversations) == ("0.75", 2)


def sub_agent():
    return [
        stream_init(),
        stream_answer(use("task-1", "Task", prompt="look at the shop")),
        stream_answer(use("c1"), message_id="m2", call="task-1"),
        stream_result("c1", call="task-1"),
        stream_result("task-1"),
    ]


def test_a_sub_agent_has_a_conversation_of_its_own_below_the_call(target, file):
    """Case X7: the child names its parent and what it was given, the parent its child."""
    totals = import_file(target, write(file, *sub_agent()))
    assert (totals.conversations, totals.sub_agents, totals.records) == (1, 1, 5)
    assert list(target.conversations) == [NAME, CHILD]
    parent, child = target.conversations[NAME], target.conversations[CHILD]
    (task,) = parent.of_type("step.started")
    assert target.parents == {CHILD: (parent.stream_id, task.header.event_id)}
    (told,) = [event for event in parent.of_type("record.imported") if event.data["kind"] == "sub_agent"]
    assert told.content["child"]["stream_id"] == child.stream_id
    assert told.header.causation_event_id == task.header.event_id
    given = child.events[0]
    assert given.data["kind"] == "sub_agent_input"
    assert given.content["input"] == {"prompt": "look at the shop"}
    assert given.content["parent"] == {
        "stream_id": parent.stream_id,
        "session": SESSION,
        "event_id": task.header.event_id,
    }
    assert [event.type for event in child.events[1:]] == [
        "provider.responded",
        "step.started",
        "step.finished",
        "transcript.imported",
    ]
    assert "sidechain" in child.events[1].content["flags"]


def test_sub_agents_imported_again_add_nothing(target, file):
    first = import_file(target, write(file, *sub_agent()))
    recorded = len(target.events)
    again = import_file(target, file)
    assert (again.records_added, len(target.events)) == (0, recorded)
    assert first.records_added == 5


def test_a_sub_agent_whose_call_is_not_in_the_file_is_below_the_session(target, file):
    import_file(target, write(file, stream_answer(use("c1"), call="task-1")))
    assert target.parents == {CHILD: (target.conversations[NAME].stream_id, None)}
    assert target.conversations[CHILD].events[0].content["parent"]["session"] == SESSION


def test_a_sub_agent_of_a_sub_agent_is_below_the_one_that_called_it(target, file):
    inner = stream_answer(use("task-2", "Task"), message_id="m2", call="task-1")
    import_file(
        target, write(file, *sub_agent()[:2], inner, stream_answer(text("x"), message_id="m3", call="task-2"))
    )
    assert target.parents[f"{NAME}/task-2"][0] == target.conversations[CHILD].stream_id


def test_sub_agents_that_claim_to_have_started_each_other_come_to_an_end(target, file):
    one = stream_answer(use("task-2", "Task"), message_id="m1", call="task-1")
    two = stream_answer(use("task-1", "Task"), message_id="m2", call="task-2")
    import_file(target, write(file, one, two))
    assert set(target.conversations) == {NAME, CHILD, f"{NAME}/task-2"}


def test_a_very_large_input_stands_with_the_call_alone(target, file):
    large = stream_answer(use("task-1", "Task", prompt="x" * 1_100_000))
    import_file(target, write(file, large, stream_answer(text("x"), message_id="m2", call="task-1")))
    given = target.conversations[CHILD].events[0].content
    assert "input" not in given
    assert "see the call" in given["note"]


def test_a_call_id_that_names_no_conversation_stays_in_the_session(target, file):
    import_file(
        target,
        write(file, stream_answer(text("x"), call="a\x1b[31m"), stream_answer(text("y"), call="c" * 300)),
    )
    assert list(target.conversations) == [NAME]


def test_a_compaction_is_one_and_unknown_types_are_counted(target, file):
    boundary = stream("system", subtype="compact_boundary", compact_metadata={"trigger": "manual"})
    totals = import_file(target, write(file, stream_answer(text("x")), boundary, stream("novelty")))
    assert (totals.compactions, totals.unknown_type) == (1, 1)
    assert target.only.of_type("compaction.recorded")[0].data["cause"] == "request"


@pytest.mark.parametrize(
    "odd",
    [
        stream("assistant", message={}),
        stream("assistant", message={"content": [1, None, {"type": "tool_use"}]}),
        stream("user", message={"content": 5}),
        stream("user", message={"content": [{"type": "tool_result"}]}),
        stream("result", subtype="x", total_cost_usd="much"),
        stream("result", subtype="x", total_cost_usd=[1]),
        stream("system", subtype=7),
        {"type": ["system"], "session_id": SESSION},
    ],
)
def test_odd_shapes_are_kept_and_hide_nothing_after_them(target, file, odd):
    totals = import_file(target, write(file, stream_init(), odd, stream_answer(text("after"))))
    assert (totals.records, totals.refused) == (3, 0)
    assert len(target.only.of_type("provider.responded")) >= 1
