"""The check of stored events: every kind of damage is one fault, named where it lies, and the scan goes on."""

from __future__ import annotations

import pytest

from counterfoil.core.chain import ChainState, Erasures
from counterfoil.core.event import Part, event_hash
from counterfoil.core.ids import make_id

COUNT = 8
PLACES = [1, 4, 8]


@pytest.fixture
def rows(stream):
    return stream.chain(COUNT)


@pytest.fixture
def check(stream):
    """Checks rows and gives the faults as (code, sequence, through)."""

    def run(rows, head=None, **options):
        state = ChainState(stream.genesis, stream.registry, erasures=options.pop("erasures", None))
        faults = [fault for row in rows for fault in state.step(row, **options)]
        faults += state.finish(*(head or ()))
        assert {fault.stream_id for fault in faults} <= {stream.stream_id}
        run.state = state
        return [(fault.code, fault.sequence, fault.through) for fault in faults]

    return run


def head_of(rows):
    return rows[-1].sequence, rows[-1].hash


def renumbered(rows):
    return [row.but(sequence=place) for place, row in enumerate(rows, 1)]


def with_row(rows, place, row):
    return [*rows[: place - 1], row, *rows[place:]]


def relinked(row):
    """The row with another previous hash, and the hash that belongs to it."""
    at = row.header.index(b'"previous_event_hash":"') + 30
    letter = b"0" if row.header[at : at + 1] != b"0" else b"1"
    header = row.header[:at] + letter + row.header[at + 1 :]
    return row.but(header=header, hash=event_hash(header))


def forged(row):
    return row.rewritten(b"refund-agent", b"refund-agenx")


def test_a_class_that_is_left_out_of_a_header_is_no_part_of_one(stream, check):
    (row,) = stream.chain(1)
    assert check([row.rewritten(b'{"commitment"', b'{"class":"secret","commitment"')]) == []
    named = row.rewritten(b'{"commitment"', b'{"class":"confidential","commitment"')
    assert check([named]) == [("header_invalid", 1, None)]


# ---- intact ------------------------------------------------------------------------------------------------------


def test_an_intact_stream_has_no_fault_and_is_counted(check, rows):
    assert check(rows, head_of(rows)) == []
    assert (check.state.events, check.state.records, check.state.sequence) == (COUNT, COUNT, COUNT)


def test_an_empty_stream_ends_at_its_genesis(check, stream):
    assert check([], (0, stream.genesis.hash)) == []
    assert check([], (0, bytes(32))) == [("genesis", 0, None)]


def test_headers_of_every_shape_pass_quick_or_slow(check, stream):
    person = stream.person()
    reference = {"kind": "a", "class": "public", "sha256": "ab" * 32}
    drafts = [
        stream.draft(1, parts=(Part({"a": 1}), Part({"b": "Ada"}, person, "personal"))),
        stream.draft(2, parts=()),
        stream.draft(3, artifact_refs=(reference,)),
        stream.draft(4, event_type="order.seen", data={}, ignorable=True),
        stream.draft(5, attempt=12345678901, trace_id="ab" * 16),
    ]
    rows = stream.rows(drafts)
    assert check(rows, head_of(rows)) == []
    assert check.state.records == 5


# ---- headers and hashes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_a_header_edited_without_its_hash_is_one_fault(check, rows, place):
    edited = rows[place - 1].but(header=rows[place - 1].header.replace(b"refund", b"refuns"))
    assert check(with_row(rows, place, edited), head_of(rows)) == [("edited", place, None)]


@pytest.mark.parametrize("place", PLACES)
def test_a_hash_column_that_was_edited_is_one_fault(check, rows, place):
    edited = rows[place - 1].but(hash=bytes(32))
    found = check(with_row(rows, place, edited), head_of(rows))
    assert found == [("column_differs", place, None)]


@pytest.mark.parametrize("place", [1, 4, 7])
def test_a_header_edited_together_with_its_hash_is_named_by_the_next_link(check, rows, place):
    assert check(with_row(rows, place, forged(rows[place - 1])), head_of(rows)) == [("edited", place, None)]


def test_the_last_event_edited_with_its_hash_is_named_by_the_head_row(check, rows):
    assert check(with_row(rows, 8, forged(rows[7])), head_of(rows)) == [("edited", 8, None)]


@pytest.mark.parametrize("place", PLACES)
def test_an_edited_link_is_named_at_the_event_that_has_it(check, rows, place):
    found = check(with_row(rows, place, relinked(rows[place - 1])), head_of(rows))
    assert found[0] == ("edited", place, None)


def test_every_byte_of_a_header_counts(check, rows):
    original = rows[3]
    for at in range(len(original.header)):
        header = original.header[:at] + bytes([original.header[at] ^ 1]) + original.header[at + 1 :]
        assert check(with_row(rows, 4, original.but(header=header)), head_of(rows)) == [("edited", 4, None)]
        found = check(with_row(rows, 4, original.but(header=header, hash=event_hash(header))), head_of(rows))
        assert [code for code, sequence, _ in found if sequence == 4], (at, found)


@pytest.mark.parametrize("damage", [{"header": "text"}, {"header": None}, {"hash": None}, {"hash": "ab"}])
def test_columns_that_hold_no_bytes_are_named_and_the_scan_goes_on(check, rows, damage):
    assert check(with_row(rows, 4, rows[3].but(**damage)), head_of(rows)) == [("column_differs", 4, None)]


@pytest.mark.parametrize(
    "old, new, code",
    [
        (b"counterfoil/event/v1", b"counterfoil/event/v2", "unknown_format"),
        (b'"type":"agent"', b'"type":"robot"', "header_invalid"),
        (b'"data":{', b'"data": {', "header_invalid"),
        (b'"admission_id"', b'"admission_ie"', "header_invalid"),
        (b"{", b"[", "header_invalid"),
    ],
)
@pytest.mark.parametrize("place", PLACES)
def test_a_header_of_another_form_is_named_for_what_it_is(check, rows, place, old, new, code):
    found = check(with_row(rows, place, rows[place - 1].rewritten(old, new)), head_of(rows))
    assert found[0] == (code, place, None)
    assert {sequence for _, sequence, _ in found} == {place}


def test_the_genesis_is_named_when_the_first_event_links_to_another(check, stream_of):
    rows = stream_of(1, tenant="acme").chain(3)
    assert check(rows, head_of(rows)) == [("genesis", 0, None)]


# ---- events put in, taken out, moved -----------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_a_removed_event_is_one_fault(check, rows, place):
    assert check(rows[: place - 1] + rows[place:], head_of(rows)) == [("removed", place, None)]


def test_a_removed_stretch_is_one_fault(check, rows):
    assert check(rows[:2] + rows[5:], head_of(rows)) == [("removed", 3, 5)]


@pytest.mark.parametrize("place", [1, 4])
def test_a_removed_event_whose_followers_were_renumbered_is_one_fault(check, rows, place):
    left = renumbered(rows[: place - 1] + rows[place:])
    assert check(left, head_of(left)) == [("removed", place, None)]


def test_a_cut_tail_is_found_where_the_head_row_disagrees_and_unseen_otherwise(check, rows):
    assert check(rows[:6], head_of(rows)) == [("removed", 7, 8)]
    assert check(rows[:6], head_of(rows[:6])) == []


@pytest.mark.parametrize("place", PLACES)
def test_a_second_event_after_the_same_parent_is_a_fork(check, rows, place):
    forked = [*rows[:place], forged(rows[place - 1]), *rows[place:]]
    assert check(forked, head_of(rows)) == [("forked", place, None)]


@pytest.mark.parametrize("place", PLACES)
def test_one_that_the_later_events_were_renumbered_for_was_put_in(check, rows, place):
    longer = renumbered([*rows[:place], forged(rows[place - 1]), *rows[place:]])
    assert check(longer, head_of(rows)) == [("inserted", place, None)]


@pytest.mark.parametrize("place", PLACES)
def test_an_event_put_in_that_the_chain_passes_over_is_one_fault(check, rows, place):
    longer = renumbered([*rows[: place - 1], relinked(rows[place - 1]), *rows[place - 1 :]])
    assert check(longer, head_of(rows)) == [("inserted", place, None)]


def test_an_event_appended_behind_the_head_row_is_one_fault(check, rows):
    assert check(rows, head_of(rows[:7])) == [("inserted", 8, None)]


def test_a_copy_of_an_event_put_in_later_is_named(check, rows):
    longer = renumbered([*rows[:6], rows[1], *rows[6:]])
    assert check(longer, head_of(rows)) == [("inserted", 2, None)]


@pytest.mark.parametrize("one, other", [(1, 2), (3, 4), (3, 6), (1, 8), (7, 8)])
def test_two_swapped_events_are_one_fault(check, rows, one, other):
    swapped = list(rows)
    swapped[one - 1], swapped[other - 1] = rows[other - 1], rows[one - 1]
    through = other if other == one + 1 else None
    assert check(renumbered(swapped), head_of(rows)) == [("reordered", one, through)]


def test_an_event_moved_to_the_end_is_one_fault(check, rows):
    moved = [*rows[:3], *rows[4:], rows[3].but(sequence=99)]
    assert check(moved, head_of(rows)) == [("column_differs", 4, None)]


def test_a_sequence_column_that_differs_from_the_header_is_one_fault(check, rows):
    assert check([*rows[:7], rows[7].but(sequence=99)], head_of(rows)) == [("column_differs", 8, None)]


@pytest.mark.parametrize("place", PLACES)
def test_an_event_of_another_stream_in_place_of_ours_is_one_fault(check, rows, other_stream, place):
    foreign = other_stream.chain(COUNT)[place - 1].but(stream_id=rows[0].stream_id)
    found = check(with_row(rows, place, foreign), head_of(rows))
    assert found == [("transplanted", place, None)]


@pytest.mark.parametrize("place", PLACES)
def test_an_event_of_another_stream_between_ours_is_one_fault(check, rows, other_stream, place):
    foreign = other_stream.chain(COUNT)[place - 1].but(stream_id=rows[0].stream_id)
    longer = renumbered([*rows[: place - 1], foreign, *rows[place - 1 :]])
    assert check(longer, head_of(rows)) == [("transplanted", place, None)]


def test_two_separate_damages_are_two_faults(check, rows):
    damaged = with_row(with_row(rows, 2, forged(rows[1])), 6, rows[5].but(hash=bytes(32)))
    assert check(damaged, head_of(rows)) == [("edited", 2, None), ("column_differs", 6, None)]


def test_a_head_row_that_was_edited_is_named(check, rows):
    assert check(rows, (COUNT, bytes(32))) == [("edited", 8, None)]
    assert check(rows, (COUNT + 1, rows[-1].hash)) == [("column_differs", 8, None)]


# ---- columns, clock, custody -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column, value",
    [
        ("event_id", make_id("evt", 1, 1)),
        ("event_type", "run.started"),
        ("run_id", make_id("run", 1, 1)),
        ("recorded_at_ms", 1),
        ("recorded_at_ms", 10**20),
        ("recorded_at_ms", None),
        ("stream_id", make_id("str", 1, 1)),
    ],
)
@pytest.mark.parametrize("place", PLACES)
def test_a_column_that_differs_from_the_header_is_one_fault(check, rows, place, column, value):
    edited = rows[place - 1].but(**{column: value})
    assert check(with_row(rows, place, edited), head_of(rows)) == [("column_differs", place, None)]


def test_a_clock_that_went_back_is_a_notice_and_no_fault(check, stream):
    one, *_ = stream.chain(1)
    header = one.header.replace(b'"recorded_at":"2026', b'"recorded_at":"2027')
    later = one.but(
        header=header, hash=event_hash(header), recorded_at_ms=one.recorded_at_ms + 365 * 86_400_000
    )
    second = stream.chain(2)[1]
    header = second.header.replace(one.hash.hex().encode(), later.hash.hex().encode())
    rows = [later, second.but(header=header, hash=event_hash(header))]
    assert check(rows, head_of(rows)) == []
    assert [(notice.kind, notice.sequence) for notice in check.state.notices] == [("clock_back", 2)]


def test_a_type_that_is_not_registered_here_is_a_notice_and_no_fault(check, stream, stream_of):
    writer = stream_of(1)
    writer.registry.declare("order.paid", 3, {"amount": "decimal"})
    rows = writer.rows(
        [writer.draft(1, event_type="order.paid", event_schema_version=3, data={"amount": "1.00"})]
    )
    assert check(rows, head_of(rows)) == []
    assert {notice.kind for notice in check.state.notices} == {"unknown_type", "unknown_field"}


def adoption(stream, **changes):
    data = {
        "from_ledger": stream.genesis.ledger,
        "ledger": make_id("ldg", 2, 2),
        "tenant": "default",
        "at_sequence": 1,
        "head": stream.chain(1)[0].hash.hex(),
        **changes,
    }
    return stream.rows([stream.draft(1), stream.draft(2, event_type="stream.adopted", data=data)])


def test_an_adoption_moves_the_stream_to_another_home(check, stream):
    rows = adoption(stream)
    assert check(rows, head_of(rows)) == []
    assert check.state.home == make_id("ldg", 2, 2)


@pytest.mark.parametrize(
    "changes", [{"from_ledger": make_id("ldg", 9, 9)}, {"at_sequence": 7}, {"head": "ab" * 32}], ids=str
)
def test_an_adoption_that_does_not_fit_the_stream_is_a_fault_of_custody(check, stream, changes):
    rows = adoption(stream, **changes)
    assert check(rows, head_of(rows)) == [("custody", 2, None)]


# ---- records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_a_changed_record_is_one_fault(check, rows, place):
    record = rows[place - 1].content[0]
    changed = rows[place - 1].but(content=(record[:-1] + bytes([record[-1] ^ 1]),))
    assert check(with_row(rows, place, changed), head_of(rows)) == [("content_damaged", place, None)]
    assert check.state.records == COUNT - 1


@pytest.mark.parametrize("content", [(None,), ()])
def test_a_missing_record_is_one_fault(check, rows, content):
    found = check(with_row(rows, 4, rows[3].but(content=content)), head_of(rows))
    assert found == [("content_missing", 4, None)]


def test_a_record_that_the_header_does_not_list_is_one_fault(check, stream):
    rows = stream.rows([stream.draft(1), stream.draft(2, parts=())])
    damaged = [rows[0].but(content=(*rows[0].content, b"x")), rows[1].but(content=(b"x",))]
    assert check(damaged, head_of(rows)) == [("inserted", 1, None), ("inserted", 2, None)]


def test_records_are_left_alone_when_they_were_not_asked_for(check, rows):
    assert check([row.but(content=()) for row in rows], head_of(rows), records=False) == []
    assert check.state.records == 0


def erasures(**data):
    found = Erasures()
    found.add({"certificate": make_id("ers", 1, 1), **data})
    return found


@pytest.mark.parametrize(
    "data, left",
    [
        ({"from_sequence": 3, "to_sequence": 4}, []),
        ({"from_sequence": 3, "to_sequence": 4, "types": ["admission.accepted"]}, []),
        ({"from_sequence": 3, "to_sequence": 4, "types": ["run.started"]}, [3, 4]),
        ({"from_sequence": 4, "to_sequence": 9}, [3]),
        ({"object": "ab" * 32}, [3, 4]),
    ],
    ids=str,
)
def test_a_certificate_accounts_for_the_records_it_names(check, rows, data, left):
    gone = [row.but(content=(None,)) if row.sequence in (3, 4) else row for row in rows]
    found = check(gone, head_of(rows), erasures=erasures(**data))
    assert found == [("content_missing", sequence, None) for sequence in left]
    assert check.state.erased == 2 - len(left)


def test_an_erased_key_accounts_for_that_persons_part_only(check, stream):
    person = stream.person()
    draft = stream.draft(1, parts=(Part({"a": {"$part": 1}}), Part({"name": "Ada"}, person)))
    rows = stream.rows([draft])
    found = erasures(key=person.key_id)
    assert check([rows[0].but(content=(rows[0].content[0], None))], erasures=found) == []
    assert check([rows[0].but(content=(None, rows[0].content[1]))], erasures=found) == [
        ("content_missing", 1, None)
    ]
