from __future__ import annotations

import base64
import io

import pytest

from counterfoil.core.canonical import encode
from counterfoil.core.limits import NESTING_MAX, PART_BYTES_MAX
from counterfoil.errors import InputError
from counterfoil.importers import content as contents
from counterfoil.importers.content import Pieces, as_found, misfit, restore, shortened
from counterfoil.importers.exact import Number, to_content
from counterfoil.importers.reader import Line, Record, read


def a_line(data: bytes, *, size: int | None = None) -> Line:
    return Line(1, 0, data, len(data) if size is None else size, b"\x07" * 32, ended=True)


def test_a_record_taken_apart_is_put_together_again():
    record = {"message": {"content": [{"input": {"x": Number("0.10")}, "id": "c"}], "$odd": 1}, "uuid": "u"}
    pieces = Pieces(record)
    call = {
        "input": pieces.take(("message", "content", 0, "input")),
        "moved": {"input": ["message", "content", 0, "input"]},
    }
    message = {"message": pieces.take(("message", "content")), "moved": {"message": ["message", "content"]}}
    assert restore([call, {**message, "record": pieces.rest}]) == record


def test_what_was_taken_does_not_stay_in_the_record():
    pieces = Pieces({"message": {"content": "hello"}, "uuid": "u"})
    pieces.take(("message", "content"))
    assert pieces.rest == {"message": {}, "uuid": "u"}


def test_contents_without_the_record_itself_are_refused():
    with pytest.raises(InputError, match="none of these contents"):
        restore([{"message": "hello", "moved": {"message": ["message"]}}])


def test_content_beyond_the_part_limit_does_not_fit():
    text = "x" * PART_BYTES_MAX
    assert misfit({"text": text}, a_line(text.encode())) == "size"


def test_content_just_below_the_part_limit_fits():
    text = "x" * (PART_BYTES_MAX - len('{"text":""}'))
    assert misfit({"text": text}, a_line(text.encode())) is None


@pytest.mark.parametrize("text", ["0.0", "0e0", "-0", "0E0", '{"$":0}', '"\\u0001"', "[[0]]", "null"])
def test_no_content_is_longer_than_its_line_by_more_than_is_measured(text):
    (found,) = read(io.BytesIO(b'{"a":[' + b",".join([text.encode()] * 1000) + b"]}"))
    assert isinstance(found, Record)
    assert len(encode(to_content(found.value))) < 16 * found.line.size


def test_content_beyond_the_nesting_limit_does_not_fit():
    value: list[object] = []
    for _ in range(NESTING_MAX):
        value = [value]
    assert misfit({"value": value}, a_line(b"[" * NESTING_MAX)) == "depth"


def test_what_stands_in_keeps_small_fields_and_says_why():
    content = {
        "name": "read",
        "result": "x" * 5000,
        "moved": {"result": ["content"]},
        "record": {},
        "huge": "y" * 5000,
    }
    assert shortened(content, "too large") == {"name": "read", "note": "too large"}


def test_a_refused_line_is_kept_whole():
    assert as_found(a_line(b"\xff{"), "why") == {
        "bytes": {"$bytes": base64.b64encode(b"\xff{").decode()},
        "note": "why",
    }


def test_of_a_very_long_refused_line_the_beginning_size_and_digest_are_kept(monkeypatch):
    monkeypatch.setattr(contents, "KEPT_BYTES_MAX", 8)
    monkeypatch.setattr(contents, "HEAD_BYTES", 4)
    found = as_found(a_line(b"0123456789"), "why")
    assert found["bytes"] == {"$bytes": base64.b64encode(b"0123").decode()}
    assert (found["size"], found["sha256"]) == (10, "07" * 32)
    assert "first 4 bytes" in found["note"]
