"""Records of the right kind with anything at all in them: no crash, nothing lost, nothing of the file in a header."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil.importers.content import restore
from counterfoil.importers.reader import Record, read
from counterfoil.importers.run import import_file
from tests.unit.importers.target import MemoryTarget
from tests.unit.importers.transcripts import (
    claude_answer,
    claude_results,
    claude_user,
    pi_assistant,
    pi_header,
    pi_result,
    pi_user,
    text_block,
    tool_use,
    write,
)

TEMPLATES: list[dict[str, Any]] = [
    pi_header(branchedFrom="/old"),
    pi_user("hi", id="e1", parentId=None),
    pi_assistant("hm", ("c1", "read"), id="e2", parentId="e1"),
    pi_result("c1", id="e3", parentId="e2"),
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1, "firstKeptEntryId": "e1", "id": "e4"},
    claude_user("u1", None, "hi", isCompactSummary=True),
    claude_answer("a1", "u1", text_block("hm"), tool_use("c1"), message_id="m1", costUSD=1),
    claude_results("r1", "a1", "c1"),
    {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b1",
        "sessionId": "session-a",
        "compactMetadata": {},
    },
    {"type": "summary", "leafUuid": "u1"},
]

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(
        ["e1", "c1", "u1", "m1", "session-a", "text", "tool_use", "tool_result", "toolCall", "user"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "id", "content", "$type", "value", "input", "record"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for step, inner in steps for found in places(inner, (*path, step)))]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A template with one or two of its values replaced or left out."""
    record = copy.deepcopy(draw(st.sampled_from(TEMPLATES)))
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from([path for path in places(record) if path]))
        node: Any = record
        for step in path[:-1]:
            node = node[step]
        if draw(st.booleans()) and isinstance(node, dict):
            del node[path[-1]]
        else:
            node[path[-1]] = draw(anything)
    return record


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(mutated(), min_size=1, max_size=8), st.sampled_from(["pi", "claude-code"]))
def test_records_with_anything_in_them_are_all_kept(tmp_path: Path, records: list[dict[str, Any]], kind: str):
    first = pi_header() if kind == "pi" else claude_user("u0", None, "start")
    file = write(tmp_path / "session.jsonl", first, *records)
    target = MemoryTarget()
    totals = import_file(target, file, format=kind)
    assert totals.records == totals.records_added == len(records) + 1
    assert totals.refused == 0
    contents = defaultdict(list)
    for event in target.events:
        contents[event.content["source"].get("line")].append(event.content)
    with file.open("rb") as lines:
        for found in read(lines):
            assert isinstance(found, Record)
            assert restore(contents[found.line.number]) == found.value
    again = import_file(target, file, format=kind)
    assert again.to_json() == {**totals.to_json(), "records_added": 0}


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_bytes_between_records_are_all_kept(tmp_path_factory, parts: list[bytes]):
    file = tmp_path_factory.mktemp("bytes") / "session.jsonl"
    write(file, pi_header(), *(part + b"\n" for part in parts), pi_user("end"))
    target = MemoryTarget()
    totals = import_file(target, file)
    assert totals.records == totals.records_added
    assert json.dumps(totals.to_json())
