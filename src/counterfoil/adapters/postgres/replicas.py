"""Replicas: a leader that is replaced takes acknowledged events with it unless they follow synchronously (INFRA 2)."""

from __future__ import annotations

from typing import Final

from counterfoil.adapters.postgres.connect import BoundedConnection, fetch
from counterfoil.adapters.postgres.place import PostgresPlace
from counterfoil.errors import ConfigInvalid

_BACKUPS: Final = ("pg_basebackup", "pg_receivewal")
"""They stream too, and nobody fails over to them."""

_HINT: Final = (
    "set synchronous_standby_names on the server, or add replicas=async to the address if acknowledged events may be "
    "lost by a failover"
)


def check_replicas(connection: BoundedConnection, place: PostgresPlace) -> tuple[str, ...]:
    """Notices about replicas that follow behind; such replicas are refused where that can be seen.

    A login without ``pg_monitor`` is not told what a replica is, so it is given a notice only. Raises ConfigInvalid.
    """
    rows = fetch(
        connection,
        "SELECT state, application_name, current_setting('synchronous_standby_names') FROM pg_stat_replication"
        " WHERE application_name IS NULL OR application_name <> ALL (%s::text[])",
        (list(_BACKUPS),),
    )
    if place.replicas_async or not rows or rows[0][2]:
        return ()
    said = f"{len(rows)} replicas of {place.shown} follow behind: after a failover, acknowledged events may be missing"
    if any(state == "streaming" for state, _, _ in rows):
        raise ConfigInvalid(said, hint=_HINT, place=place.shown)
    return (f"{said} ({_HINT})",)
