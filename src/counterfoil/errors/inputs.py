"""Errors of your data: mend the call and send it again."""

from __future__ import annotations

from counterfoil.errors.base import InputError


class NotEncodable(InputError):
    """A value has no canonical form. Field ``path`` says where (FORMAT 2)."""

    code = "not_encodable"


class NotDecodable(InputError):
    """Content holds a tag or a registered class that this process does not know. Field ``path`` says where (FORMAT 2)."""

    code = "not_decodable"


class NotCanonical(InputError):
    """Bytes that must be canonical JSON are not. Field ``offset`` or ``path`` says where (FORMAT 2)."""

    code = "not_canonical"


class DuplicateMember(NotCanonical):
    """A JSON object names a member twice (FORMAT 2)."""

    code = "duplicate_member"


class ChildTooDeep(InputError):
    """A run spawned a child deeper than children may lie. Fields ``run_id depth depth_max``."""

    code = "child_too_deep"


class TooDeep(InputError):
    """Nesting beyond the limit of FORMAT 1."""

    code = "too_deep"


class IntegerTooLong(InputError):
    """An integer with more digits than FORMAT 1 allows."""

    code = "integer_too_long"


class ContentTooLarge(InputError):
    """A content part or all parts of an event pass the limit of FORMAT 1."""

    code = "content_too_large"


class HeaderTooLarge(InputError):
    """An event header passes 16 KiB (FORMAT 1)."""

    code = "header_too_large"


class InvalidId(InputError):
    """An identifier has not the form of FORMAT 1."""

    code = "invalid_id"


class InvalidForm(InputError):
    """A label, time, decimal or other header value has not the form of FORMAT 1."""

    code = "invalid_form"


class HeaderInvalid(InputError):
    """An event header is not of the closed form of FORMAT 5."""

    code = "header_invalid"


class GenesisInvalid(InputError):
    """A genesis text is not of the closed form of FORMAT 4."""

    code = "genesis_invalid"


class ArchiveInvalid(InputError):
    """An archive or key package is not what FORMAT 15 says; nothing of it was taken in. Fields ``line``, ``offset``."""

    code = "archive_invalid"
    default_hint = (
        "take the archive again from where it came from; it was cut, changed or made by something else"
    )


class UnknownFormat(InputError):
    """A record's ``ctx`` names a version this build does not know (FORMAT 19)."""

    code = "unknown_format"
    default_hint = "open it with a newer Counterfoil"


class UnknownEventType(InputError):
    """Replay or projection met a type or version it does not know and that is not ignorable (FORMAT 7)."""

    code = "unknown_event_type"


class PublicFieldRefused(InputError):
    """A public field is unknown, missing or of the wrong form for its event type (FORMAT 7)."""

    code = "public_field_refused"


class InvalidUnit(InputError):
    """An append unit contradicts itself (empty, stream twice, undeclared table or column)."""

    code = "invalid_unit"


class NoRun(InputError):
    """A decorated tool was called outside a run."""

    code = "no_run"


class RunClosed(InputError):
    """A call came to a run whose block has ended."""

    code = "run_closed"


class ToolInvalid(InputError):
    """A tool declaration or its arguments are wrong."""

    code = "tool_invalid"


class ArgumentInvalid(ToolInvalid):
    """An argument of a tool does not fit its type hint; field ``path`` says which. Nothing was recorded or sent."""

    code = "argument_invalid"


class ConfigInvalid(InputError):
    """``counterfoil.toml`` or an option is wrong."""

    code = "config_invalid"


class BookInvalid(InputError):
    """A provider's book cannot be read; field ``line`` says where (0: the book as a whole)."""

    code = "book_invalid"


class UnknownTranscript(InputError):
    """A file is not a transcript an importer knows."""

    code = "unknown_transcript"


class ProjectionStopped(InputError):
    """The fold of a projection failed at an event, or met one that it does not know; fields say where.

    The ledger and other projections go on.
    """

    code = "projection_stopped"
    default_hint = "mend the fold, or declare the type; then read it again"


class Divergence(InputError):
    """The code took another way than the record it resumes from; fields show both sides (DESIGN 6)."""

    code = "divergence"


class SearchQueryInvalid(InputError):
    """A search has nothing to look for, is too long, or its operators are not well formed; field ``at`` says where."""

    code = "search_query_invalid"
    default_hint = "without --query the text is looked for as it stands"
