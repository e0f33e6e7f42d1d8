"""The key store's own schema: other grants, another backup than the ledger's (FORMAT 12)."""

from __future__ import annotations

from typing import Final

from counterfoil.adapters.postgres.place import PostgresPlace
from counterfoil.adapters.postgres.schema import of_my_tenants, quoted

SCHEMA: Final = 1

TABLES: Final[dict[str, str]] = {
    "meta": "CREATE TABLE {k}.meta (name text PRIMARY KEY, value text NOT NULL)",
    # One key-encryption key serves one tenant, so that a key's tenant can be told from the row. `held` means nothing:
    # who may change it may lock the row, and that is all.
    "epoch": """CREATE TABLE {k}.epoch (
        tenant text COLLATE "C" PRIMARY KEY,
        kek_id text COLLATE "C" NOT NULL UNIQUE,
        held   boolean
    )""",
    # `tenant` is for keys that are not wrapped (clear ledgers), which no epoch tells the tenant of.
    "data_key": """CREATE TABLE {k}.data_key (
        key_id    text COLLATE "C" PRIMARY KEY,
        stream_id text COLLATE "C" NOT NULL,
        kek_id    text COLLATE "C" NOT NULL,
        wrapped   bytea NOT NULL,
        "check"   bytea NOT NULL,
        tenant    text COLLATE "C" DEFAULT {s}.my_only_tenant(),
        made_at   timestamptz NOT NULL DEFAULT clock_timestamp()
    )""",
    # Positions rise for ever, so that the first link of a subject stays the first.
    "subject": """CREATE TABLE {k}.subject (
        position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        key_id   text COLLATE "C" NOT NULL REFERENCES {k}.data_key (key_id),
        kek_id   text COLLATE "C" NOT NULL,
        lookup   bytea NOT NULL,
        box      bytea NOT NULL
    )""",
}

INDEXES: Final = (
    "CREATE INDEX data_key_by_stream ON {k}.data_key (stream_id, key_id)",
    "CREATE INDEX data_key_by_kek ON {k}.data_key (kek_id)",
    "CREATE INDEX subject_by_key ON {k}.subject (key_id)",
    "CREATE INDEX subject_by_lookup ON {k}.subject (lookup)",
)


# Whoever makes keys may take one back that somebody else was quicker to make, and nobody but the owner and the role
# security may destroy one that something may have been sealed under.
GUARD: Final = (
    """CREATE FUNCTION {k}.refuse_destroying() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            IF OLD.made_at > clock_timestamp() - interval '1 minute' OR EXISTS (
                SELECT 1 FROM pg_roles r WHERE pg_has_role(session_user, r.oid, 'MEMBER')
                AND (r.rolname = {security} OR r.oid = (SELECT nspowner FROM pg_namespace WHERE nspname = {name}))
            ) THEN
                RETURN OLD;
            END IF;
            RAISE EXCEPTION 'counterfoil: this login may not destroy data keys'
                USING ERRCODE = 'insufficient_privilege';
        END $$""",
    "CREATE TRIGGER data_key_guard BEFORE DELETE ON {k}.data_key"
    " FOR EACH ROW EXECUTE FUNCTION {k}.refuse_destroying()",
    "REVOKE ALL ON FUNCTION {k}.refuse_destroying() FROM PUBLIC",
)


def creation(place: PostgresPlace) -> list[str]:
    """Everything that makes an empty key store in one transaction, apart from the values of ``meta``."""
    names = {
        "s": quoted(place.schema),
        "k": quoted(place.keys_schema),
        "security": f"'{place.schema}_security'",
        "name": f"'{place.keys_schema}'",
    }
    made = [f"CREATE SCHEMA IF NOT EXISTS {names['k']}"]
    made += [sql.format(**names) for sql in (*TABLES.values(), *INDEXES, *GUARD)]
    mine = of_my_tenants(place.schema)
    epochs = f"(SELECT e.kek_id FROM {names['k']}.epoch e)"
    # The subquery is itself under the policy of `epoch`, so it names the key-encryption keys of my tenants alone.
    conditions = {
        "epoch": mine,
        "data_key": f"kek_id IN {epochs} OR (kek_id = '' AND {mine})",
        "subject": f"EXISTS (SELECT 1 FROM {names['k']}.data_key d WHERE d.key_id = subject.key_id)",
    }
    for table, condition in conditions.items():
        made.append(f"ALTER TABLE {names['k']}.{table} ENABLE ROW LEVEL SECURITY")
        made.append(
            f"CREATE POLICY by_tenant ON {names['k']}.{table} USING ({condition}) WITH CHECK ({condition})"
        )
    return made
