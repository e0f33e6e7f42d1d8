"""Functions that the way of an append runs on the server: their plans stay with the server's session.

A pooler in transaction mode forbids statements that a client prepares, and planning one takes longer than running it.
A function's plans are kept by whichever server session runs it, so it is quick behind a pooler too. All run with the
rights of the caller: grants and row-level security hold inside them.
"""

from __future__ import annotations

from typing import Final

from counterfoil.store.rows import VERSION_COLUMN, TableSpec

IDLE_MS: Final = 15_000
"""A writer that falls asleep in its transaction loses it, so that its locks do not stay behind."""

BY_INDEX: Final = (
    "SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off"
)
"""Everything here is found by a key. A plan that a session makes while a table is small reads all of it, and would be kept
while the table grows, until the table is analyzed. Ruled-out plans look so dear to older servers that they would
compile the statement before they run it, which takes a hundred times as long as the statement."""

SAME_TABLES: Final = "tables = (SELECT coalesce(sum(t.version), 0)::bigint FROM {s}.row_table t)"
"""Nobody has made a row table or made one over since the caller looked; else its rows may lack what others expect."""

ROUTINES: Final[dict[str, str]] = {
    # Locks the heads of these streams in the order of their ids, and then tells what decides about an append: each
    # stream that is there with its head, its last event and the clock, and which of these events are there (`event` not
    # empty). `tables` changes when a row table is made or made over. Each statement sees what was committed before it began, so what was before the lock was given too.
    # The settings are this transaction's alone, since a pooler may give the next one another connection. No
    # statement_timeout: it would end the wait for a synchronous replica by a warning, and an acknowledged commit could
    # be lost (INFRA 2).
    "begin_append": f"""CREATE FUNCTION {{s}}.begin_append(
            lock_ms bigint, ids text[], of_streams text[], of_events text[]
        ) RETURNS TABLE (
            clock_ms bigint, tables bigint, stream text, tenant text, genesis bytea, at_seq bigint, at_hash bytea, newest bigint,
            owner text, until bigint, last_seq bigint, last_hash bytea, event text, at_ms bigint, header bytea
        ) LANGUAGE plpgsql {BY_INDEX} AS $$
        #variable_conflict use_column
        BEGIN
            PERFORM set_config('lock_timeout', lock_ms::text, true), set_config('statement_timeout', '0', true),
                set_config('idle_in_transaction_session_timeout', '{IDLE_MS}', true);
            IF current_setting('synchronous_commit') IN ('off', 'local') THEN
                PERFORM set_config('synchronous_commit', 'on', true);
            END IF;
            PERFORM 1 FROM {{s}}.head h WHERE h.stream_id = ANY (ids) ORDER BY h.stream_id FOR UPDATE;
            RETURN QUERY
                SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
                    (SELECT sum(t.version) FROM {{s}}.row_table t)::bigint, s.stream_id, s.tenant, s.genesis,
                    h.seq, h.hash, h.token, h.lease_owner, h.lease_until, e.seq, e.hash,
                    NULL::text, NULL::bigint, NULL::bytea
                FROM unnest(ids) AS w(stream_id)
                LEFT JOIN {{s}}.stream s ON s.stream_id = w.stream_id
                LEFT JOIN {{s}}.head h ON h.stream_id = w.stream_id
                LEFT JOIN LATERAL (
                    SELECT l.seq, l.hash FROM {{s}}.event l WHERE l.stream_id = w.stream_id ORDER BY l.seq DESC LIMIT 1
                ) e ON true;
            IF cardinality(of_events) > 0 THEN
                RETURN QUERY
                    SELECT NULL::bigint, NULL::bigint, e.stream_id, NULL::text, NULL::bytea, e.seq, e.hash, NULL::bigint, NULL::text,
                        NULL::bigint, NULL::bigint, NULL::bytea, e.event_id, e.recorded_at, e.header
                    FROM unnest(of_streams, of_events) AS w(stream_id, event_id)
                    JOIN {{s}}.event e ON e.stream_id = w.stream_id AND e.event_id = w.event_id;
            END IF;
        END $$""",
    # Moves heads whose rows are locked, and adds their events with their records.
    "record_events": f"""CREATE FUNCTION {{s}}.record_events(
            heads text[], head_seqs bigint[], head_hashes bytea[],
            streams text[], seqs bigint[], ids text[], types text[], runs text[], times bigint[], tenants text[],
            headers bytea[], hashes bytea[],
            record_streams text[], record_seqs bigint[], record_parts smallint[], record_tenants text[], records bytea[]
        ) RETURNS void LANGUAGE plpgsql {BY_INDEX} AS $$
        BEGIN
            IF cardinality(heads) > 0 THEN
                UPDATE {{s}}.head h SET seq = n.seq, hash = n.hash
                    FROM unnest(heads, head_seqs, head_hashes) AS n(stream_id, seq, hash)
                    WHERE h.stream_id = n.stream_id;
            END IF;
            IF cardinality(streams) > 0 THEN
                INSERT INTO {{s}}.event
                    (stream_id, seq, event_id, event_type, run_id, recorded_at, tenant, header, hash)
                    SELECT * FROM unnest(streams, seqs, ids, types, runs, times, tenants, headers, hashes);
            END IF;
            IF cardinality(records) > 0 THEN
                INSERT INTO {{s}}.event_content (stream_id, seq, part, tenant, record)
                    SELECT * FROM unnest(record_streams, record_seqs, record_parts, record_tenants, records);
            END IF;
        END $$""",
    # A lone append: compare the head and move it, add events and records; false when the head is elsewhere or `tables` is
    # not what `begin_append` would tell.
    "append_lone": f"""CREATE FUNCTION {{s}}.append_lone(
            stream text, old_seq bigint, old_hash bytea, wanted_token bigint, tables bigint, new_seq bigint, new_hash bytea,
            now_ms bigint, seqs bigint[], ids text[], types text[], runs text[], headers bytea[], hashes bytea[],
            record_seqs bigint[], record_parts smallint[], records bytea[]
        ) RETURNS boolean LANGUAGE plpgsql {BY_INDEX} AS $$
        DECLARE of_tenant text;
        BEGIN
            UPDATE {{s}}.head h SET seq = new_seq, hash = new_hash
                WHERE h.stream_id = stream AND h.seq = old_seq AND h.hash = old_hash
                    AND h.token = coalesce(wanted_token, h.token) AND {SAME_TABLES}
                RETURNING h.tenant INTO of_tenant;
            IF NOT FOUND THEN
                RETURN false;
            END IF;
            INSERT INTO {{s}}.event (stream_id, seq, event_id, event_type, run_id, recorded_at, tenant, header, hash)
                SELECT stream, e.seq, e.id, e.type, e.run, now_ms, of_tenant, e.header, e.hash
                FROM unnest(seqs, ids, types, runs, headers, hashes) AS e(seq, id, type, run, header, hash);
            IF cardinality(records) > 0 THEN
                INSERT INTO {{s}}.event_content (stream_id, seq, part, tenant, record)
                    SELECT stream, c.seq, c.part, of_tenant, c.record
                    FROM unnest(record_seqs, record_parts, records) AS c(seq, part, record);
            END IF;
            RETURN true;
        END $$""",
    # The same for one event with one record at most, which is what most appends are: no arrays to take apart.
    "append_lone_event": f"""CREATE FUNCTION {{s}}.append_lone_event(
            stream text, old_seq bigint, old_hash bytea, wanted_token bigint, tables bigint, new_hash bytea, now_ms bigint,
            id text, type text, run text, header bytea, record bytea
        ) RETURNS boolean LANGUAGE plpgsql {BY_INDEX} AS $$
        DECLARE of_tenant text;
        BEGIN
            UPDATE {{s}}.head h SET seq = old_seq + 1, hash = new_hash
                WHERE h.stream_id = stream AND h.seq = old_seq AND h.hash = old_hash
                    AND h.token = coalesce(wanted_token, h.token) AND {SAME_TABLES}
                RETURNING h.tenant INTO of_tenant;
            IF NOT FOUND THEN
                RETURN false;
            END IF;
            INSERT INTO {{s}}.event (stream_id, seq, event_id, event_type, run_id, recorded_at, tenant, header, hash)
                VALUES (stream, old_seq + 1, id, type, run, now_ms, of_tenant, header, new_hash);
            IF record IS NOT NULL THEN
                INSERT INTO {{s}}.event_content (stream_id, seq, part, tenant, record)
                    VALUES (stream, old_seq + 1, 0, of_tenant, record);
            END IF;
            RETURN true;
        END $$""",
}

_ROW_ROUTINES: Final[dict[str, str]] = {
    # In the order of the key, as every writer takes them, so that two never wait for each other in a ring.
    "lock": """CREATE FUNCTION {lock}(keys json) RETURNS SETOF {table} LANGUAGE plpgsql {by_index} AS $$
        BEGIN
            RETURN QUERY SELECT t.* FROM {table} AS t JOIN json_populate_recordset(NULL::{table}, keys) AS n
                ON {same} ORDER BY {t_key} FOR UPDATE OF t;
        END $$""",
    # `held` are keys that must stay absent until the commit and are not written: whoever inserts one waits for it.
    "write": """CREATE FUNCTION {write}(gone json, fresh json, changed json, held json) RETURNS void
        LANGUAGE plpgsql {by_index} AS $$
        BEGIN
            IF gone IS NOT NULL THEN
                DELETE FROM {table} AS t USING json_populate_recordset(NULL::{table}, gone) AS n WHERE {same};
            END IF;
            IF fresh IS NOT NULL THEN
                INSERT INTO {table} ({columns}) SELECT {columns}
                    FROM json_populate_recordset(NULL::{table}, fresh) ORDER BY {key};
            END IF;
            IF changed IS NOT NULL THEN
                UPDATE {table} AS t SET {changes} FROM json_populate_recordset(NULL::{table}, changed) AS n WHERE {same};
            END IF;
            IF held IS NOT NULL THEN
                INSERT INTO {table} ({holding}) SELECT {holding} FROM json_populate_recordset(NULL::{table}, held);
                DELETE FROM {table} AS t USING json_populate_recordset(NULL::{table}, held) AS n WHERE {same};
            END IF;
        END $$""",
}


def row_routines(spec: TableSpec, table: str, names: dict[str, str]) -> list[str]:
    """The functions of one row table; ``names`` holds their full names by what they do."""
    columns = [column.name for column in spec.columns]
    key = list(spec.key)
    owned = {name for name in ("tenant", spec.stream_column) if name in columns} - set(key)
    changed = [name for name in (*columns, VERSION_COLUMN) if name not in key]
    words = {
        "by_index": BY_INDEX,
        "table": table,
        "columns": _listed([*columns, VERSION_COLUMN]),
        "key": _listed(key),
        "t_key": ", ".join(f't."{name}"' for name in key),
        "same": " AND ".join(f't."{name}" = n."{name}"' for name in key),
        "changes": ", ".join(f'"{name}" = n."{name}"' for name in changed),
        "holding": _listed([*key, *sorted(owned)]),
    }
    return [sql.format(**words, **names) for sql in _ROW_ROUTINES.values()]


def _listed(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
