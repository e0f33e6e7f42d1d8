"""``counterfoil init``: makes a ledger, and says where its keys lie and what losing them means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options, pass_face
from counterfoil.cli.render.line import Line, Span
from counterfoil.cli.render.marks import marked

if TYPE_CHECKING:
    from counterfoil.adapters.postgres.roles import Role
    from counterfoil.client.ledger import Ledger

SERVERS: Final = ("postgresql://", "postgres://")


@click.command(name="init", short_help="Make a ledger.")
@click.argument("directory", required=False, type=click.Path(path_type=str), metavar="[PLACE]")
@click.option("--clear", is_flag=True, help="Keep content in the clear, not encrypted. Fixed for ever.")
@click.option(
    "--roles", is_flag=True, help="On PostgreSQL: make the database roles, and print what each may do."
)
@face_options(ledger=True)
@pass_face
def command(face: Face, directory: str | None, clear: bool, roles: bool) -> None:
    """Make a ledger in PLACE: a directory, or postgresql://USER@HOST/DATABASE?schema=NAME.

    The default is the ledger that commands would use. One that is there stays as it is.
    """
    from counterfoil.client.ledger import open as open_ledger

    face.ledger = directory or face.ledger
    place = face.place
    if roles and not place.startswith(SERVERS):
        raise click.UsageError("--roles is for a ledger on PostgreSQL; in a directory, files have owners")
    tenant = face.tenant or face.config.tenant
    with open_ledger(place, tenant=tenant, content="clear" if clear else None, clock=face.clock) as ledger:
        if not ledger.created:
            # One that is there and cannot be written is not simply there: it says what is missing.
            ledger.check_writable()
        made = _make_roles(place) if roles else []
        if face.as_json:
            told = {
                "ledger": ledger.id,
                "place": ledger.place,
                "created": ledger.created,
                "content": ledger.content,
                "key_encryption_keys": _kek(ledger),
            }
            if roles:
                told["roles"] = [{"name": role.name, "may": list(role.may)} for role in made]
            face.give(told)
            return
        face.say(_lines(ledger, _kek(ledger)))
        if roles:
            face.say(_role_lines(made, tenant))


def _make_roles(place: str) -> list[Role]:
    from counterfoil.adapters.postgres.roles import make_roles_at

    return make_roles_at(place)


def _kek(ledger: Ledger) -> str | None:
    """Where the key-encryption keys lie; None where content is in the clear or no directory holds them."""
    directory = getattr(ledger.keyring.provider, "directory", None)
    return str(directory) if directory is not None and ledger.content == "sealed" else None


def _lines(ledger: Ledger, kek: str | None) -> list[Line]:
    shown = marked(ledger.place)
    words = "made" if ledger.created else "is there already, and stays as it is:"
    lines = [Line(Span("✓ ", "good"), f"ledger {ledger.id} {words} in {shown}")]
    if ledger.content == "clear":
        lines.append(Line("  content is kept in the clear: whoever reads the files reads it"))
    elif kek is None:
        lines.append(Line("  content is encrypted; the key that opens its keys is given by the environment"))
    else:
        server = ledger.place.startswith(SERVERS)
        keys = "the schema of its keys or that directory" if server else "keys.db or kek/"
        lines += [
            Line("  content is encrypted; the key that opens its keys lies in ", Span(marked(kek), "strong")),
            Line(f"  Whoever loses {keys} loses all content for ever. The chain still verifies."),
            Line("  Keep a copy of both apart from the ledger's own backups."),
        ]
    lines.append(Line(Span(f"  next: counterfoil import FILE --ledger {shown}", "quiet")))
    return lines


def _role_lines(roles: Sequence[Role], tenant: str) -> list[Line]:
    lines = [Line(), Line("Database roles; what is not said here, the database refuses:")]
    for role in roles:
        lines.append(Line("  ", Span(role.name, "strong")))
        lines += [Line(f"      {ability}") for ability in role.may]
    worker = roles[0].name
    schema = worker.rpartition("_")[0]
    lines += [
        Line(),
        Line("They have no login. A login is made a member, and admitted to the tenants it may see:"),
        Line(Span(f"  GRANT {worker} TO some_login;", "quiet")),
        Line(Span(f"  SELECT {schema}.admit('some_login', '{tenant}');", "quiet")),
    ]
    return lines
