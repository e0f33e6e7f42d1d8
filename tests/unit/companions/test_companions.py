"""Companions: what may be declared and changed, what binds them to their event, and what became of their records."""

from __future__ import annotations

import pytest

import counterfoil
from counterfoil.companions.rows import COMPANIONS
from counterfoil.companions.seal import MEMBER, sealed
from counterfoil.companions.table import CHANGES_MAX
from counterfoil.errors import ContentUnavailable, InvalidForm, StreamNotFound
from counterfoil.testing.manual import ManualClock
from tests.running import World, vanish


@pytest.fixture
def world():
    return World(clock=ManualClock())


@pytest.fixture
def ledger(world):
    return world.worker()


def note(ledger, *changes, event_type="x.noted"):
    with ledger.run("a", conversation="c") as run:
        run.record(event_type, {"said": "so"}, ignorable=True, rows=changes)


@pytest.mark.parametrize(
    "name, key, version",
    [("two words", ("id",), 1), ("t", (), 1), ("t", ("id", "id"), 1), ("t", ("",), 1), ("t", "id", 0)],
)
def test_a_declaration_that_makes_no_table_is_refused(ledger, name, key, version):
    with pytest.raises(InvalidForm):
        ledger.declare_table(name, key=key, version=version)


def test_the_same_declaration_again_is_the_same_table_and_another_is_refused(ledger):
    table = ledger.declare_table("t", key="id")
    assert ledger.declare_table("t", key=["id"]) is table
    with pytest.raises(InvalidForm, match="already"):
        ledger.declare_table("t", key="id", version=2)


@pytest.mark.parametrize(
    "row", [{}, {"id": None}, {"id": 1.5}, {"id": True}, ["id"], {"id": "a", "x": object()}]
)
def test_a_row_without_its_key_or_a_form_is_refused(ledger, row):
    with pytest.raises(counterfoil.CounterfoilError):
        ledger.declare_table("t", key="id").put(row)


def test_a_key_has_as_many_values_as_declared(ledger):
    table = ledger.declare_table("t", key=("a", "b"))
    with pytest.raises(InvalidForm, match="1 values were given"):
        table.remove("only one")
    assert table.put({"b": 2, "a": "1"}).key == ("1", 2)


def test_text_and_number_are_different_keys(ledger):
    table = ledger.declare_table("t", key="id")
    note(ledger, table.put({"id": 5, "kind": "number"}), table.put({"id": "5", "kind": "text"}))
    assert ledger.companion("c", "t", 5).row["kind"] == "number"
    assert ledger.companion("c", "t", "5").row["kind"] == "text"


def test_two_changes_of_one_row_beside_one_event_are_refused_and_nothing_is_written(ledger):
    table = ledger.declare_table("t", key="id")
    with pytest.raises(InvalidForm, match="twice"):
        note(ledger, table.put({"id": 1}), table.remove(1))
    assert list(ledger.companions("c")) == []


def test_more_rows_than_fit_beside_one_event_are_refused(ledger):
    table = ledger.declare_table("t", key="id")
    with pytest.raises(InvalidForm, match="several events"):
        note(ledger, *(table.put({"id": number}) for number in range(CHANGES_MAX + 1)))


def test_what_no_table_made_is_no_row(ledger):
    with pytest.raises(InvalidForm, match="declare_table"):
        note(ledger, {"id": 1})


@pytest.mark.parametrize(
    "form", [lambda change: change, lambda change: iter([change])], ids=["alone", "once"]
)
def test_rows_that_are_no_list_are_refused(ledger, form):
    table = ledger.declare_table("t", key="id")
    with ledger.run("a", conversation="c") as run, pytest.raises(InvalidForm, match="a list of changes"):
        run.record("x.noted", {}, ignorable=True, rows=form(table.put({"id": 1})))


def test_the_event_commits_to_the_rows_that_were_written_beside_it(ledger):
    table = ledger.declare_table("t", key="id")
    note(ledger, table.put({"id": 1}), table.remove(2))
    (event,) = ledger.events("c", types=["x.noted"])
    assert event.content == {"said": "so"}
    told = event.opened.parts[1][MEMBER]
    (row,) = ledger.store.select(COMPANIONS.name)
    assert [row["name"], row["key"], row["commitment"]] in told
    assert [one[2] for one in told].count(None) == 1


def test_sealing_the_same_rows_again_gives_the_same_bytes(ledger):
    table = ledger.declare_table("t", key="id")
    note(ledger, table.put({"id": 1}))
    stream_id = ledger.stream_of("c")
    parts = (
        ledger.ports.genesis(stream_id),
        ledger.ports.material(stream_id),
        "evt_01J9ZC3Y3V7W2R5T8QK4M6N0PE",
    )
    assert sealed(*parts, [table.put({"id": 2})]) == sealed(*parts, [table.put({"id": 2})])


def test_a_row_of_another_conversation_is_not_found_in_this_one(ledger):
    table = ledger.declare_table("t", key="id")
    note(ledger, table.put({"id": 1}))
    with ledger.run("a", conversation="other"):
        pass
    assert ledger.companion("other", "t", 1) is None
    with pytest.raises(StreamNotFound):
        ledger.companion("nowhere", "t", 1)


def test_a_run_that_was_killed_before_its_append_writes_its_rows_when_it_resumes(world, ledger):
    table = ledger.declare_table("t", key="id")

    def body(run):
        run.record("x.noted", {"said": 1}, ignorable=True, rows=[table.put({"id": 1, "by": "first"})])

    vanish(ledger.run("a", conversation="c", dedupe="m"), body)
    world.expire_leases()
    with ledger.run("a", conversation="c", dedupe="m") as run:
        body(run)
        run.record("x.noted", {"said": 2}, ignorable=True, rows=[table.put({"id": 1, "by": "second"})])
    assert ledger.companion("c", "t", 1).row["by"] == "second"
    assert len(list(ledger.events("c", types=["x.noted"]))) == 2


def test_the_same_fact_with_other_rows_is_another_fact(world, ledger):
    table = ledger.declare_table("t", key="id")

    def body(run, number):
        run.record("x.noted", {"said": 1}, ignorable=True, rows=[table.put({"id": number})])

    vanish(ledger.run("a", conversation="c", dedupe="m"), lambda run: body(run, 1))
    world.expire_leases()
    with ledger.run("a", conversation="c", dedupe="m") as run:
        body(run, 1)
        body(run, 2)
    assert len(list(ledger.events("c", types=["x.noted"]))) == 2


def test_without_the_key_a_row_is_missing_and_never_empty(ledger):
    table = ledger.declare_table("t", key="id")
    note(ledger, table.put({"id": 1}))
    genesis = ledger.ports.genesis(ledger.stream_of("c"))
    ledger.keyring.store.delete([genesis.key])
    ledger.keyring.forget()
    (row,) = ledger.companions(genesis.stream_id)
    assert row.state == "missing"
    with pytest.raises(ContentUnavailable):
        _ = row.row


def test_a_record_moved_to_another_key_is_damaged_and_its_neighbours_are_read(ledger):
    table = ledger.declare_table("t", key="id")
    note(ledger, table.put({"id": 1}), table.put({"id": 2}), table.put({"id": 3}))
    rows = ledger.store._state.tables[COMPANIONS.name].rows
    first, second, _ = sorted(rows)
    rows[first] = {**rows[first], "record": rows[second]["record"]}
    assert sorted(row.state for row in ledger.companions("c")) == ["damaged", "present", "present"]
