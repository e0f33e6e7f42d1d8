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

MOVED: Final = "CFH01"
"""SQLSTATE: a head, or a row, is not what the caller remembers. DETAIL is the stream's id, or empty."""

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
    # Events of several units whose heads are remembered: heads are compared and moved in the order of their ids, `of_head`
    # and `record_head` say by number whose an event and a record are. `old_tokens` are those that the units were judged by.
    "append_quick": f"""CREATE FUNCTION {{s}}.append_quick(
            lock_ms bigint, tables bigint, heads text[], old_seqs bigint[], old_hashes bytea[], old_tokens bigint[],
            new_seqs bigint[], new_hashes bytea[], now_ms bigint,
            of_head bigint[], seqs bigint[], ids text[], types text[], runs text[], headers bytea[], hashes bytea[],
            record_head bigint[], record_seqs bigint[], record_parts smallint[], records bytea[]
        ) RETURNS void LANGUAGE plpgsql {BY_INDEX} AS $$
        DECLARE
            tenants text[];
            of_tenant text;
        BEGIN
            PERFORM set_config('lock_timeout', lock_ms::text, true), set_config('statement_timeout', '0', true),
                set_config('idle_in_transaction_session_timeout', '{IDLE_MS}', true);
            FOR n IN 1 .. cardinality(heads) LOOP
                UPDATE {{s}}.head h SET seq = new_seqs[n], hash = new_hashes[n]
                    WHERE h.stream_id = heads[n] AND h.seq = old_seqs[n] AND h.hash = old_hashes[n]
                        AND h.token = old_tokens[n] AND {SAME_TABLES}
                    RETURNING h.tenant INTO of_tenant;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'counterfoil: the head is elsewhere' USING ERRCODE = '{MOVED}', DETAIL = heads[n];
                END IF;
                tenants := tenants || of_tenant;
            END LOOP;
            IF cardinality(seqs) = 1 THEN
                INSERT INTO {{s}}.event
                    (stream_id, seq, event_id, event_type, run_id, recorded_at, tenant, header, hash)
                    VALUES (heads[of_head[1]], seqs[1], ids[1], types[1], runs[1], now_ms, tenants[of_head[1]],
                        headers[1], hashes[1]);
            ELSE
                INSERT INTO {{s}}.event
                    (stream_id, seq, event_id, event_type, run_id, recorded_at, tenant, header, hash)
                    SELECT heads[e.n], e.seq, e.id, e.type, e.run, now_ms, tenants[e.n], e.header, e.hash
                    FROM unnest(of_head, seqs, ids, types, runs, headers, hashes)
                        AS e(n, seq, id, type, run, header, hash);
            END IF;
            IF cardinality(records) > 0 THEN
                INSERT INTO {{s}}.event_content (stream_id, seq, part, tenant, record)
                    SELECT heads[c.n], c.seq, c.part, tenants[c.n], c.record
                    FROM unnest(record_head, record_seqs, record_parts, records) AS c(n, seq, part, record);
            END IF;
        END $$""",
}

_ROW_ROUTINES: Final[dict[str, str]] = {
    # Parameters have numbers and no names: a column may have any name.
    # In the order of the key, as every writer takes them, so that two never wait for each other in a ring.
    "lock": """CREATE FUNCTION {lock}(json) RETURNS SETOF {table} LANGUAGE plpgsql {by_index} AS $$
        BEGIN
            RETURN QUERY SELECT t.* FROM {table} AS t JOIN json_populate_recordset(NULL::{table}, $1) AS n
                ON {same} ORDER BY {t_key} FOR UPDATE OF t;
        END $$""",
    # Rows that go, that are new, that change; and keys that must stay absent until the commit and are not written: whoever
    # inserts one waits for it.
    "write": """CREATE FUNCTION {write}(json, json, json, json) RETURNS void
        LANGUAGE plpgsql {by_index} AS $$
        BEGIN
            IF $1 IS NOT NULL THEN
                DELETE FROM {table} AS t USING json_populate_recordset(NULL::{table}, $1) AS n WHERE {same};
            END IF;
            IF $2 IS NOT NULL THEN
                INSERT INTO {table} ({columns}) SELECT {columns}
                    FROM json_populate_recordset(NULL::{table}, $2) ORDER BY {key};
            END IF;
            IF $3 IS NOT NULL THEN
                UPDATE {table} AS t SET {changes} FROM json_populate_recordset(NULL::{table}, $3) AS n WHERE {same};
            END IF;
            IF $4 IS NOT NULL THEN
                INSERT INTO {table} ({holding}) SELECT {holding} FROM json_populate_recordset(NULL::{table}, $4);
                DELETE FROM {table} AS t USING json_populate_recordset(NULL::{table}, $4) AS n WHERE {same};
            END IF;
        END $$""",
    # Writes rows that are remembered: rows that are new, that change, and each of these as it has to be now; then rows that
    # are only looked at, and keys under which there has to be no row.
    "swap": """CREATE FUNCTION {swap}(json, json, json, json, json) RETURNS void
        LANGUAGE plpgsql {by_index} AS $$
        #variable_conflict use_column
        DECLARE found_rows bigint;
        BEGIN
            IF $1 IS NOT NULL THEN
                INSERT INTO {table} ({columns}) SELECT {columns}
                    FROM json_populate_recordset(NULL::{table}, $1) ORDER BY {key};
            END IF;
            IF $2 IS NOT NULL THEN
                UPDATE {table} AS t SET {changes}
                    FROM json_populate_recordset(NULL::{table}, $2) AS n, json_populate_recordset(NULL::{table}, $3) AS o
                    WHERE {same} AND {same_old} AND t IS NOT DISTINCT FROM o;
                GET DIAGNOSTICS found_rows = ROW_COUNT;
                IF found_rows <> json_array_length($2) THEN
                    RAISE EXCEPTION 'counterfoil: a row is another' USING ERRCODE = '{moved}';
                END IF;
            END IF;
            IF $4 IS NOT NULL THEN
                PERFORM 1 FROM {table} AS t, json_populate_recordset(NULL::{table}, $4) AS n
                    WHERE {same} AND t IS NOT DISTINCT FROM n FOR UPDATE OF t;
                GET DIAGNOSTICS found_rows = ROW_COUNT;
                IF found_rows <> json_array_length($4) THEN
                    RAISE EXCEPTION 'counterfoil: a row is another' USING ERRCODE = '{moved}';
                END IF;
            END IF;
            IF $5 IS NOT NULL THEN
                PERFORM 1 FROM {table} AS t, json_populate_recordset(NULL::{table}, $5) AS n WHERE {same};
                IF FOUND THEN
                    RAISE EXCEPTION 'counterfoil: a row is there' USING ERRCODE = '{moved}';
                END IF;
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
        "moved": MOVED,
        "same_old": " AND ".join(f't."{name}" = o."{name}"' for name in key),
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
