"""One pattern that recognises a well-formed header in a single pass; what it does not match is read member by member."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from counterfoil.core.event_types import CLASSES
from counterfoil.core.fields import is_flat
from counterfoil.core.forms import is_real_second
from counterfoil.core.ids import ID_PATTERNS, PREFIXES
from counterfoil.core.limits import EVENT_TYPE_CHARACTERS_MAX, HEADER_BYTES_MAX, SEQUENCE_MAX

# The pattern accepts a part of what `header.MEMBERS` accepts, never more: whatever it matches is canonical by its
# own spelling, except `data`, which is encoded again. Left to the slow way: artifact references, causes in another
# stream, integers of more than nine digits, braces inside a public field.
_LABEL: Final = "[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,127}"
_HEX64: Final = "[0-9a-f]{64}"
_TIME: Final = "([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})\\.[0-9]{3}Z"
_COUNT: Final = "[1-9][0-9]{0,8}"
_DK: Final = ID_PATTERNS["dk"]
_ANY: Final = "(?:" + "|".join(ID_PATTERNS[prefix] for prefix in PREFIXES) + ")"
_PART: Final = f'{{(?:"class":"(?:{"|".join(CLASSES)})",)?"commitment":"{_HEX64}"(?:,"key":"{_DK}")?,"sha256":"{_HEX64}"}}'
_ACTOR: Final = (
    f'"actor":{{"id":"(?:{_LABEL}"(?:,"identity_version":"{_LABEL}")?,"type":"(?:agent|worker|service|system)'
    f'|{_DK}"(?:,"identity_version":"{_LABEL}")?,"type":"(?:user|human))"}}'
)
_CAUSE: Final = f'(?:,"causation_event_id":"{ID_PATTERNS["evt"]}")?'
_HEADER: Final = re.compile(
    f"{{{_ACTOR}"
    f'(?:,"attempt":{_COUNT})?'
    f"{_CAUSE}"
    f'(?:,"content":\\[({_PART}(?:,{_PART}){{0,7}})\\])?'
    f'(?:,"correlation_id":"{_ANY}")?'
    ',"ctx":"counterfoil/event/v1"'
    r',"data":({[\x20-\x5b\x5d-\x7a|~]*})'
    f',"event_id":"({ID_PATTERNS["evt"]})"'
    f',"event_schema_version":({_COUNT})'
    ',"event_type":"([a-z][a-z0-9_]*(?:\\.[a-z][a-z0-9_]*){1,4})"'
    '(,"ignorable":true)?'
    f',"occurred_at":"{_TIME}"'
    f',"previous_event_hash":"({_HEX64})"'
    f',"recorded_at":"({_TIME})"'
    f'(?:,"run_id":"({ID_PATTERNS["run"]})")?'
    f'(?:,"step_id":"{ID_PATTERNS["stp"]}")?'
    f',"stream_id":"({ID_PATTERNS["str"]})"'
    f',"stream_sequence":({_COUNT})'
    '(?:,"trace_id":"[0-9a-f]{32}")?}'
).fullmatch
_SHA256: Final = re.compile('"sha256":"([0-9a-f]{64})"').findall
_KEY: Final = re.compile('"key":"(dk_[0-9A-Z]{26})"').findall

Glance = tuple[str | None, str, str, str, str, str | None, str, str, str, str, str | None, str, str]
"""What the pattern finds, in order: content, data, event id, version, type, ignorable, second of occurrence, previous
hash, time of recording, second of recording, run id, stream id, sequence; absent ones None."""


def glance(header: bytes) -> Glance | None:
    """The members that a check of the chain needs, or None if the header must be read the slow way.

    A result means that the header is well formed but for ``data``, which :func:`glance_data` reads.
    """
    if len(header) > HEADER_BYTES_MAX:
        return None
    try:
        found = _HEADER(header.decode("ascii"))
    except UnicodeDecodeError:
        return None
    if found is None:
        return None
    seen: Glance = found.groups()  # type: ignore[assignment]  # the pattern fixes how many groups there are
    _, _, _, _, event_type, _, occurred, _, _, recorded, _, _, sequence = seen
    if (
        len(event_type) > EVENT_TYPE_CHARACTERS_MAX
        or not is_real_second(occurred)
        or not is_real_second(recorded)
        or int(sequence) > SEQUENCE_MAX
    ):
        return None
    return seen


def glance_data(text: str) -> dict[str, Any] | None:
    """The public fields behind the ``data`` of a glance, or None unless they are canonical; forms are not checked."""
    if text == "{}":
        return {}
    try:
        data: dict[str, Any] = orjson.loads(text)
        return data if orjson.dumps(data, option=orjson.OPT_SORT_KEYS) == text.encode("ascii") else None
    except (ValueError, TypeError):
        return None


def vouches(header: bytes, raw: Any) -> bool:
    """Whether the pattern shows that a parsed header is well formed; False says nothing."""
    seen = glance(header)
    if seen is None:
        return False
    data = raw["data"]
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS) == seen[1].encode("ascii") and is_flat(data)


def record_digests(content: str) -> list[str]:
    """The ``sha256`` of each part in the ``content`` of a glance."""
    found: list[str] = _SHA256(content)
    return found


def part_keys(content: str) -> list[str]:
    """The keys named in the ``content`` of a glance; parts under the stream key name none."""
    found: list[str] = _KEY(content)
    return found
