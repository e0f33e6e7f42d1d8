"""Named bounds of the format, each with its unit (FORMAT 1)."""

from __future__ import annotations

from typing import Final

HEADER_BYTES_MAX: Final = 16 * 1024
"""Bytes of one event header."""

DATA_LIST_MAX: Final = 64
"""Entries of one list in a header's ``data``."""

PARTS_MAX: Final = 8
"""Content parts of one event."""

PART_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of one content part in canonical form, before packing."""

PARTS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of all content parts of one event, before packing."""

SPILL_BYTES: Final = 256 * 1024
"""Bytes of a content part above which its largest members move to artifacts (FORMAT 10)."""

BYTES_INLINE_MAX: Final = 4 * 1024
"""Bytes of a binary value that stay in content; longer ones move to an artifact (FORMAT 10)."""

ARTIFACT_REFS_MAX: Final = 64
"""Artifact references of one event."""

BODIES_MAX: Final = 64
"""Bodies of one ``provider.message_recorded`` (FORMAT 9)."""

BODY_BYTES_MIN: Final = 256
"""Bytes before or after a request's messages from which they are a body: shorter ones cost less where they stand."""

BRANCH_BYTES_MAX: Final = 128 * 1024
"""Bytes of bodies after which the next body begins another branch; a longer body has one to itself (FORMAT 9)."""

SAID_BYTES_MIN: Final = 256
"""Bytes of a response's text from which a message that repeats it names it: shorter ones cost less where they stand."""

NESTING_MAX: Final = 64
"""Arrays and objects inside one another; a scalar has depth 0, ``[]`` depth 1."""

VALUES_MAX: Final = 4 * 1024 * 1024
"""Values inside one another in one JSON value: stops a list that holds itself or is shared exponentially often."""

INTEGER_DIGITS_MAX: Final = 1000
"""Decimal digits of one integer in content."""

HEADER_INTEGER_MAX: Final = 2**53 - 1
"""Largest magnitude of an integer in a header or signed record."""

SEQUENCE_MAX: Final = 2**28
"""Events of one stream."""

LABEL_CHARACTERS_MAX: Final = 128
"""Characters of a label."""

EVENT_TYPE_CHARACTERS_MAX: Final = 96
"""Characters of an event type."""

DECIMAL_CHARACTERS_MAX: Final = 40
"""Characters of a decimal."""

PACK_BYTES_MIN: Final = 2 * 1024
"""Bytes of content from which packing is tried: below it costs more time than it saves space."""

PACK_SMALL_BYTES_MIN: Final = 160
"""The same for events of model calls: there time was spent on waiting for the model, and there are many of them."""

PATH_CHARACTERS_MAX: Final = 200
"""Characters of a path in an error message."""
