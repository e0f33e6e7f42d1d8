"""Database roles: each may do what is printed of it, and everything else is refused by the database itself."""

from __future__ import annotations

import psycopg
import pytest

from counterfoil.abc.keys import KeyRow
from counterfoil.errors import KeyStoreMissing, NotPermitted, StreamNotFound
from counterfoil.store.unit import Receipt
from counterfoil.testing.events import SampleStream
from counterfoil.testing.manual import SequentialIds
from tests.unit.adapters.postgres.conftest import outcome, receipt, refusal, thing

pytestmark = pytest.mark.postgres

ROLES = ("worker", "recovery", "operator", "auditor", "retention", "security")

# What each ability comes down to in SQL. `{stream}` is the stream that the fixture made.
ACTIONS = {
    "read events": "SELECT header FROM {s}.event",
    "read records": "SELECT record FROM {s}.event_content",
    "read rows": "SELECT * FROM {s}.row_thing",
    "begin a stream": "INSERT INTO {s}.stream VALUES ('str_new', 'default', 'conversation', 'x')",
    "append an event": "INSERT INTO {s}.event VALUES ('{stream}', 9, 'evt_new', 'a.b', NULL, 1, 'default', 1, 'x', 'x')",
    "keep a record": "INSERT INTO {s}.event_content VALUES ('{stream}', 9, 0, 'default', 'x')",
    "move a head": "UPDATE {s}.head SET seq = seq",
    "take a lease": "UPDATE {s}.head SET token = token",
    "change a row": "UPDATE {s}.row_thing SET state = state",
    "save a checkpoint": "INSERT INTO {s}.checkpoint VALUES ('{stream}', 'p', 1, 'default', 1, 'x', 'x')",
    "remove a stream": "SELECT {s}.remove_stream('{stream}', 'because')",
    "remove a record": "SELECT {s}.remove_content('{stream}', '{{1}}', '{{0}}', 'because')",
    "read keys": "SELECT wrapped FROM {k}.data_key",
    "make a key": "INSERT INTO {k}.data_key VALUES ('dk_new', '{stream}', 'kek_1', 'x', 'x')",
    "destroy an old key": "DELETE FROM {k}.data_key WHERE key_id = 'dk_old'",
    "re-wrap a key": "UPDATE {k}.data_key SET wrapped = 'y'",
    "move an epoch": "UPDATE {k}.epoch SET kek_id = kek_id",
    "change an event": "UPDATE {s}.event SET event_type = 'a.b'",
    "delete an event": "DELETE FROM {s}.event",
    "delete a stream": "DELETE FROM {s}.stream",
    "delete a record": "DELETE FROM {s}.event_content",
    "empty a table": "TRUNCATE {s}.event",
    "change a genesis": "UPDATE {s}.stream SET genesis = 'x'",
    "write a permit": "INSERT INTO {s}.permit VALUES (1, 'me')",
    "admit itself": "SELECT {s}.admit(session_user, '*')",
    "look at who is admitted": "SELECT * FROM {s}.tenant_login",
    "drop a guard": "DROP TRIGGER event_guard ON {s}.event",
    "change what the ledger says it is": "UPDATE {s}.meta SET value = 'x'",
}
READING = {"read events", "read records", "read rows"}
APPENDING = {"append an event", "keep a record", "move a head", "change a row", "save a checkpoint"}
MAY = {
    "worker": READING | APPENDING | {"begin a stream", "take a lease", "read keys", "make a key"},
    "recovery": READING | APPENDING | {"take a lease", "read keys"},
    "operator": READING | APPENDING | {"begin a stream", "read keys", "make a key"},
    "auditor": READING,
    "retention": READING
    | APPENDING
    | {"begin a stream", "remove a stream", "remove a record", "read keys", "make a key"},
    "security": READING
    | APPENDING
    | {"begin a stream", "read keys", "make a key", "destroy an old key", "re-wrap a key", "move an epoch"},
}


@pytest.fixture
def staff(ledger, store, stream):
    """Roles that are made, a login for each, and a key of last week."""
    ids = SequentialIds()
    keys = ledger.key_store()
    keys.replace("default", "kek_1", [], [])
    keys.put(
        [
            KeyRow("dk_old", stream.stream_id, "kek_1", b"x", b"c"),
            KeyRow(ids.new("dk"), "s", "kek_1", b"x", b"c"),
        ]
    )
    ledger.behind("UPDATE {k}.data_key SET made_at = now() - interval '7 days'")
    make(ledger)
    for role in ROLES:
        login(ledger, role, role)
    return ledger


def make(ledger):
    from counterfoil.adapters.postgres.connect import connect
    from counterfoil.adapters.postgres.place import parse_place
    from counterfoil.adapters.postgres.roles import make_roles

    place = parse_place(ledger.url())
    with connect(place, give_up_at=float("inf"), writable=True) as connection:
        return make_roles(connection, place)


def login(ledger, name, role, tenant="default"):
    user = f"{ledger.schema}_{name}_login"
    ledger.behind(
        f'CREATE ROLE "{user}" LOGIN IN ROLE "{ledger.schema}_{role}"',
        f"SELECT {{s}}.admit('{user}', '{tenant}')",
    )
    return user


def attempt(ledger, stream, role, action):
    """Whether the database did it; rolled back in any case."""
    sql = ACTIONS[action].format(s=ledger.schema, k=f"{ledger.schema}_keys", stream=stream.stream_id)
    user = f"{ledger.schema}_{role}_login"
    with psycopg.connect(ledger.cluster.url(user=user)) as connection:
        try:
            connection.execute(sql)
        except psycopg.errors.InsufficientPrivilege:
            return False
        finally:
            connection.rollback()
    return True


def test_each_role_may_do_what_is_granted_and_the_database_refuses_the_rest(staff, stream):
    did = {role: {action for action in ACTIONS if attempt(staff, stream, role, action)} for role in ROLES}
    assert did == MAY


def test_a_login_that_is_admitted_to_no_tenant_sees_nothing_and_writes_nothing(staff, stream):
    stranger = login(staff, "stranger", "worker", tenant="elsewhere")
    store = staff.open(user=stranger, create=False)
    assert store.streams() == []
    assert store.read(stream.stream_id) == []
    assert store.get("thing", ("t0",)) is None
    assert store.feed().events == ()
    new = SampleStream(SequentialIds("stranger"))
    refusal(store, new.unit(new.event(), create=True), NotPermitted)
    refusal(store, stream.unit(stream.event()), StreamNotFound)
    assert staff.handles[0].head(stream.stream_id).sequence == 3


def test_making_the_roles_again_changes_nothing(staff, stream):
    make(staff)
    assert attempt(staff, stream, "worker", "append an event")
    assert not attempt(staff, stream, "auditor", "append an event")


def test_a_row_table_that_appears_later_is_granted_too(staff, stream):
    from counterfoil.store.rows import Column, TableSpec
    from tests.unit.adapters.postgres.conftest import THING

    later = TableSpec("later", (Column("name"), Column("stream_id")), key=("name",))
    staff.open((THING, later))
    worker = staff.open((THING, later), user=f"{staff.schema}_worker_login", create=False)
    assert worker.select("later") == []


# ---- the store as a login of the role -------------------------------------------------------------------------------


def as_role(staff, role):
    return staff.open(user=f"{staff.schema}_{role}_login", create=False)


def test_a_worker_makes_streams_claims_and_appends(staff):
    store = as_role(staff, "worker")
    new = SampleStream(SequentialIds("worker"))
    lease = store.claim(new.stream_id, "me", 1000, 0, new.unit(new.event(), create=True, token=1)).lease
    assert receipt(store, new.unit(new.event(), token=1, rows=(thing("w", new),))).positions[0].sequence == 2
    assert receipt(store, new.unit(new.event())).positions[0].sequence == 3
    store.renew(lease, 5000)
    store.release(lease)


def test_recovery_claims_and_appends_and_makes_no_streams(staff, stream):
    store = as_role(staff, "recovery")
    store.claim(stream.stream_id, "me", 1000, 0, stream.unit(stream.event(), token=1))
    new = SampleStream(SequentialIds("recovery"))
    refusal(store, new.unit(new.event(), create=True), NotPermitted)


def test_an_operator_appends_and_takes_no_lease(staff, stream):
    store = as_role(staff, "operator")
    assert isinstance(outcome(store, stream.unit(stream.event(), rows=(thing("o", stream),))), Receipt)
    with pytest.raises(NotPermitted):
        store.claim(stream.stream_id, "me", 1000, 0)


def test_an_auditor_reads_and_verifies_and_writes_nothing(staff, stream):
    store = as_role(staff, "auditor")
    assert len(store.read(stream.stream_id)) == 3
    with store.snapshot() as snapshot:
        assert snapshot.strays() == []
    error = refusal(store, stream.unit(stream.event()), NotPermitted)
    assert "42501" in error.message
    assert "--roles" in error.hint
    with pytest.raises((NotPermitted, KeyStoreMissing)):
        staff.key_store(user=f"{staff.schema}_auditor_login")


def test_retention_removes_with_the_fact_in_the_same_transaction(staff, stream):
    store = as_role(staff, "retention")
    other = SampleStream(SequentialIds("audit"))
    receipt(staff.handles[0], other.unit(create=True))
    assert store.remove_content(stream.stream_id, [(1, 0)], "retention", other.unit(other.event())) == 1
    assert [len(event.content) for event in store.read(stream.stream_id)] == [0, 1, 1]
    assert store.remove_stream(stream.stream_id, "retention", other.unit(other.event())) == 3
    assert store.head(stream.stream_id) is None
    assert store.select("thing") == []
    assert store.head(other.stream_id).sequence == 2


def test_nobody_else_removes(staff, stream):
    for role in ("worker", "recovery", "operator", "auditor", "security"):
        with pytest.raises(NotPermitted):
            as_role(staff, role).remove_stream(stream.stream_id, "because")


def test_a_worker_takes_back_a_key_made_a_moment_ago_and_no_older_one(staff, stream):
    keys = staff.key_store(user=f"{staff.schema}_worker_login")
    keys.put([KeyRow("dk_young", stream.stream_id, "kek_1", b"x", b"c")])
    assert keys.delete(["dk_young"]) == 1
    with pytest.raises(NotPermitted):
        keys.delete(["dk_old"])
    assert keys.get("dk_old") is not None
