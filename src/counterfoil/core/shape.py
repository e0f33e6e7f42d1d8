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
    f'(?:,"content":\\[{_PART}(?:,{_PART}){{0,7}}\\])?'
    f'(?:,"correlation_id":"{_ANY}")?'
    ',"ctx":"counterfoil/event/v1"'
    r',"data":({[\x20-\x5b\x5d-\x7a|~]*})'
    f',"event_id":"{ID_PATTERNS["evt"]}"'
    f',"event_schema_version":{_COUNT}'
    ',"event_type":"([a-z][a-z0-9_]*(?:\\.[a-z][a-z0-9_]*){1,4})"'
    '(?:,"ignorable":true)?'
    f',"occurred_at":"{_TIME}"'
    f',"previous_event_hash":"{_HEX64}"'
    f',"recorded_at":"{_TIME}"'
    f'(?:,"run_id":"{ID_PATTERNS["run"]}")?'
    f'(?:,"step_id":"{ID_PATTERNS["stp"]}")?'
    f',"stream_id":"{ID_PATTERNS["str"]}"'
    f',"stream_sequence":({_COUNT})'
    '(?:,"trace_id":"[0-9a-f]{32}")?}'
).fullmatch


def glance(header: bytes) -> str | None:
    """The text of ``data`` if all else in the header is well formed; None if it must be read the slow way."""
    if len(header) > HEADER_BYTES_MAX:
        return None
    try:
        found = _HEADER(header.decode("ascii"))
    except UnicodeDecodeError:
        return None
    if found is None:
        return None
    data, event_type, occurred, recorded, sequence = found.groups()
    if (
        len(event_type) > EVENT_TYPE_CHARACTERS_MAX
        or not is_real_second(occurred)
        or not is_real_second(recorded)
        or int(sequence) > SEQUENCE_MAX
    ):
        return None
    text: str = data
    return text


def vouches(header: bytes, raw: Any) -> bool:
    """Whether the pattern shows that a parsed header is well formed; False says nothing."""
    text = glance(header)
    if text is None:
        return False
    data = raw["data"]
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS) == text.encode("ascii") and is_flat(data)
