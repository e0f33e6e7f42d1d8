"""``[access]`` in ``counterfoil.toml``: who has which role, what roles may do, and whether reading must be on record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from counterfoil.access.roles import Role, RoleAuthorizer, role_of
from counterfoil.errors import ConfigInvalid, InvalidForm

_MEMBERS: Final = ("people", "required", "roles")


class Guarding(Struct, frozen=True):
    """What the file says of access. With ``required`` commands show content only to who says who they are, and why."""

    authorizer: RoleAuthorizer
    required: bool = True


def guarding_of(given: Any, where: str) -> Guarding:
    """The table as found in the file ``where``. Raises ConfigInvalid naming the member, never a person."""
    if not isinstance(given, Mapping):
        raise ConfigInvalid(
            f"access in {where} must be a table", hint="begin it with [access]", member="access"
        )
    for name in given:
        if name not in _MEMBERS:
            raise ConfigInvalid(
                f"{where} has a member access.{name} that this version does not know",
                hint=f"it knows {', '.join(_MEMBERS)}",
                member=f"access.{name}",
            )
    required = given.get("required", True)
    if not isinstance(required, bool):
        raise ConfigInvalid(f"access.required in {where} must be true or false", member="access.required")
    roles, people = _table(given, "roles", where), _table(given, "people", where)
    found: dict[str, Role] = {}
    for name, told in roles.items():
        if not isinstance(told, Mapping):
            raise ConfigInvalid(f"access.roles.{name} in {where} must be a table", member="access.roles")
        found[name] = _sound(where, "access.roles", role_of, told)
    return Guarding(_sound(where, "access.people", RoleAuthorizer, people, found), required)


def _table(given: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    table = given.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigInvalid(f"access.{name} in {where} must be a table", member=f"access.{name}")
    return table


def _sound(where: str, member: str, make: Any, *given: Any) -> Any:
    try:
        return make(*given)
    except InvalidForm as error:
        raise ConfigInvalid(
            f"{member} in {where}: {error.message}", hint=error.hint, member=member
        ) from error
