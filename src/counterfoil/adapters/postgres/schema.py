"""Schema 2 on PostgreSQL: every table, index, trigger and function with the sentence that explains it.

Tables that are truth: ``stream`` (genesis), ``event``, ``event_content``. All others are derived or say what the
schema is. Nothing on the way of an append is global: no sequence, no counter row, no foreign key, so that the tables
can be spread by ``stream_id`` (DESIGN 4). Text sorts by code point (COLLATE "C") as in every other adapter.
"""

from __future__ import annotations

from typing import Final

from counterfoil.adapters.postgres.routines import ROUTINES

SCHEMA: Final = 2

TRUTH: Final = ("stream", "event", "event_content")
"""Tables whose rows are never changed or deleted, except under a permit."""

BY_TENANT: Final = ("stream", "head", "event", "event_content", "checkpoint")
"""Tables with a ``tenant`` column of their own, by which row-level security tells tenants apart."""

TABLES: Final[dict[str, str]] = {
    # What this schema is: schema number, ledger id.
    "meta": "CREATE TABLE {s}.meta (name text PRIMARY KEY, value text NOT NULL)",
    # One row a stream.
    "stream": """CREATE TABLE {s}.stream (
        stream_id text COLLATE "C" PRIMARY KEY,
        tenant    text COLLATE "C" NOT NULL,
        kind      text COLLATE "C" NOT NULL,
        genesis   bytea NOT NULL
    )""",
    # Where each stream ends, and who may write for its run. Room in the page lets an update stay in it (HOT).
    "head": """CREATE TABLE {s}.head (
        stream_id   text COLLATE "C" PRIMARY KEY,
        tenant      text COLLATE "C" NOT NULL,
        seq         bigint NOT NULL,
        hash        bytea NOT NULL,
        token       bigint NOT NULL DEFAULT 0,
        lease_owner text COLLATE "C",
        lease_until bigint
    ) WITH (fillfactor = 50)""",
    # One row an event. `xact` is the transaction that wrote it, which the feed is ordered by. All columns but
    # `header` and `hash` are copies that verify compares.
    "event": """CREATE TABLE {s}.event (
        stream_id   text COLLATE "C" NOT NULL,
        seq         bigint NOT NULL,
        event_id    text COLLATE "C" NOT NULL,
        event_type  text COLLATE "C" NOT NULL,
        run_id      text COLLATE "C",
        recorded_at bigint NOT NULL,
        tenant      text COLLATE "C" NOT NULL,
        xact        bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
        header      bytea NOT NULL,
        hash        bytea NOT NULL,
        PRIMARY KEY (stream_id, seq),
        UNIQUE (stream_id, event_id)
    )""",
    # One row a sealed record.
    "event_content": """CREATE TABLE {s}.event_content (
        stream_id text COLLATE "C" NOT NULL,
        seq       bigint NOT NULL,
        part      smallint NOT NULL,
        tenant    text COLLATE "C" NOT NULL,
        record    bytea NOT NULL,
        PRIMARY KEY (stream_id, seq, part)
    )""",
    # The newest checkpoint of each projection: an acceleration, never the record.
    "checkpoint": """CREATE TABLE {s}.checkpoint (
        stream_id      text COLLATE "C" NOT NULL,
        projection     text COLLATE "C" NOT NULL,
        version        bigint NOT NULL,
        tenant         text COLLATE "C" NOT NULL,
        up_to_sequence bigint NOT NULL,
        commitment     text NOT NULL,
        record         bytea NOT NULL,
        PRIMARY KEY (stream_id, projection, version)
    )""",
    # Which row tables exist, under which version of their declaration; `stale` until rows are rebuilt.
    "row_table": """CREATE TABLE {s}.row_table (
        name          text COLLATE "C" PRIMARY KEY,
        version       bigint NOT NULL,
        spec          text NOT NULL,
        stream_column text,
        stale         boolean NOT NULL DEFAULT false
    )""",
    # A permit lets the transaction it names change guarded tables. Only the owner and the functions below write one.
    "permit": "CREATE TABLE {s}.permit (xact bigint PRIMARY KEY, ground text NOT NULL)",
    # Which tenants a login sees ('*': all), itself or through a role it is a member of. The owner sees everything.
    "tenant_login": """CREATE TABLE {s}.tenant_login (
        login  name NOT NULL,
        tenant text COLLATE "C" NOT NULL,
        PRIMARY KEY (login, tenant)
    )""",
}

INDEXES: Final[dict[str, str]] = {
    # Streams of one tenant in the order they were made.
    "stream_by_tenant": "CREATE INDEX stream_by_tenant ON {s}.stream (tenant, stream_id)",
    # A run is a filtered view of its conversation.
    "event_by_run": "CREATE INDEX event_by_run ON {s}.event (stream_id, run_id, seq) WHERE run_id IS NOT NULL",
    # The feed over all streams.
    "event_by_xact": "CREATE INDEX event_by_xact ON {s}.event (xact, stream_id, seq)",
}

# Sealed records are encrypted: trying to compress them costs time and wins nothing.
SETTINGS: Final = (
    "ALTER TABLE {s}.event_content ALTER COLUMN record SET STORAGE EXTERNAL",
    "ALTER TABLE {s}.checkpoint ALTER COLUMN record SET STORAGE EXTERNAL",
)

FUNCTIONS: Final[dict[str, str]] = {
    # UPDATE, DELETE and TRUNCATE of truth are refused, whoever asks; grants refuse most of them earlier.
    "refuse_change": """CREATE FUNCTION {s}.refuse_change() RETURNS trigger LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            IF TG_LEVEL = 'ROW' AND EXISTS (
                SELECT 1 FROM {s}.permit WHERE xact = pg_current_xact_id()::text::bigint
            ) THEN
                RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
            END IF;
            RAISE EXCEPTION 'counterfoil: rows of % are never changed or deleted', TG_TABLE_NAME
                USING ERRCODE = 'insufficient_privilege';
        END $$""",
    # The tenants that whoever is logged in may see. Asked once for each statement (DESIGN 4, row-level security).
    "my_tenants": """CREATE FUNCTION {s}.my_tenants() RETURNS text[] LANGUAGE sql STABLE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        SELECT coalesce(array_agg(t.tenant), '{{}}') FROM {s}.tenant_login t JOIN pg_roles r ON r.rolname = t.login
        WHERE pg_has_role(session_user, r.oid, 'MEMBER') $$""",
    # The tenant of a login that sees exactly one; what it writes where nothing else tells the tenant is that one's.
    "my_only_tenant": """CREATE FUNCTION {s}.my_only_tenant() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        SELECT CASE WHEN cardinality({s}.my_tenants()) = 1 THEN ({s}.my_tenants())[1] END $$""",
    "sees": """CREATE FUNCTION {s}.sees(wanted text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        SELECT wanted = ANY ({s}.my_tenants()) OR '*' = ANY ({s}.my_tenants())
            OR pg_has_role(session_user, (SELECT nspowner FROM pg_namespace WHERE nspname = {literal}), 'MEMBER')
        $$""",
    # Let a login see a tenant, or take that back. The owner's alone.
    "admit": """CREATE FUNCTION {s}.admit(login name, tenant text) RETURNS void LANGUAGE sql AS $$
        INSERT INTO {s}.tenant_login VALUES (login, tenant) ON CONFLICT DO NOTHING $$""",
    "dismiss": """CREATE FUNCTION {s}.dismiss(login name, tenant text) RETURNS void LANGUAGE sql AS $$
        DELETE FROM {s}.tenant_login t WHERE t.login = dismiss.login AND t.tenant = dismiss.tenant $$""",
    # The audited ways by which truth is removed; the facts that say why go into the same transaction (FORMAT 13).
    "remove_content": """CREATE FUNCTION {s}.remove_content(of_stream text, seqs bigint[], parts smallint[], ground text)
        RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE removed bigint;
        BEGIN
            IF NOT {s}.sees((SELECT tenant FROM {s}.stream WHERE stream_id = of_stream)) THEN
                RAISE EXCEPTION 'counterfoil: no such stream for this login' USING ERRCODE = 'insufficient_privilege';
            END IF;
            INSERT INTO {s}.permit VALUES (pg_current_xact_id()::text::bigint, ground);
            DELETE FROM {s}.event_content c USING unnest(seqs, parts) AS w(seq, part)
                WHERE c.stream_id = of_stream AND c.seq = w.seq AND c.part = w.part;
            GET DIAGNOSTICS removed = ROW_COUNT;
            DELETE FROM {s}.permit WHERE xact = pg_current_xact_id()::text::bigint;
            RETURN removed;
        END $$""",
    "remove_stream": """CREATE FUNCTION {s}.remove_stream(of_stream text, ground text)
        RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        DECLARE removed bigint; declared record;
        BEGIN
            IF NOT {s}.sees((SELECT tenant FROM {s}.stream WHERE stream_id = of_stream)) THEN
                RAISE EXCEPTION 'counterfoil: no such stream for this login' USING ERRCODE = 'insufficient_privilege';
            END IF;
            INSERT INTO {s}.permit VALUES (pg_current_xact_id()::text::bigint, ground);
            DELETE FROM {s}.event_content WHERE stream_id = of_stream;
            DELETE FROM {s}.event WHERE stream_id = of_stream;
            GET DIAGNOSTICS removed = ROW_COUNT;
            DELETE FROM {s}.checkpoint WHERE stream_id = of_stream;
            DELETE FROM {s}.head WHERE stream_id = of_stream;
            DELETE FROM {s}.stream WHERE stream_id = of_stream;
            FOR declared IN SELECT name, stream_column FROM {s}.row_table WHERE stream_column IS NOT NULL LOOP
                EXECUTE format('DELETE FROM %I.%I WHERE %I = $1', {literal}, 'row_' || declared.name,
                               declared.stream_column) USING of_stream;
            END LOOP;
            DELETE FROM {s}.permit WHERE xact = pg_current_xact_id()::text::bigint;
            RETURN removed;
        END $$""",
}

PUBLIC_FUNCTIONS: Final = ("my_tenants()", "my_only_tenant()", "sees(text)")
"""What row-level security calls as whoever is logged in."""

PRIVATE_FUNCTIONS: Final = (
    "refuse_change()",
    "admit(name, text)",
    "dismiss(name, text)",
    "remove_content(text, bigint[], smallint[], text)",
    "remove_stream(text, text)",
)
"""PostgreSQL lets everybody run a new function; these are taken back."""


def quoted(schema: str) -> str:
    """The schema's name in SQL."""
    return f'"{schema}"'


def in_schema(statement: str, schema: str) -> str:
    """A statement of this module for one schema."""
    return statement.format(s=quoted(schema), literal=f"'{schema}'")


def triggers(schema: str) -> dict[str, str]:
    """The guards on the tables that are truth, by name."""
    made = {}
    for table in TRUTH:
        made[f"{table}_guard"] = (
            f"CREATE TRIGGER {table}_guard BEFORE UPDATE OR DELETE ON {quoted(schema)}.{table} "
            f"FOR EACH ROW EXECUTE FUNCTION {quoted(schema)}.refuse_change()"
        )
        made[f"{table}_truncate"] = (
            f"CREATE TRIGGER {table}_truncate BEFORE TRUNCATE ON {quoted(schema)}.{table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {quoted(schema)}.refuse_change()"
        )
    return made


def policy(schema: str, table: str, condition: str) -> list[str]:
    """Row-level security of one table: a row is there for whoever its condition admits."""
    name = f"{quoted(schema)}.{table}"
    return [
        f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY by_tenant ON {name} USING ({condition}) WITH CHECK ({condition})",
    ]


def of_my_tenants(schema: str, column: str = "tenant") -> str:
    """The condition that a column names a tenant the login sees; the subqueries run once for each statement."""
    mine = f"((SELECT {quoted(schema)}.my_tenants())::text[])"
    return f"({column} = ANY {mine} OR '*' = ANY {mine})"


def creation(schema: str) -> list[str]:
    """Everything that makes an empty ledger in one transaction, apart from the values of ``meta``."""
    made = [f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}"]
    made += [in_schema(sql, schema) for sql in (*TABLES.values(), *INDEXES.values(), *SETTINGS)]
    made += [in_schema(sql, schema) for sql in (*FUNCTIONS.values(), *ROUTINES.values())]
    made += triggers(schema).values()
    made += [sql for table in BY_TENANT for sql in policy(schema, table, of_my_tenants(schema))]
    made += [f"REVOKE ALL ON FUNCTION {quoted(schema)}.{name} FROM PUBLIC" for name in PRIVATE_FUNCTIONS]
    return made
