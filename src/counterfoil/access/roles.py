"""Roles: what each may do with which class of content, as data; and the authorizer that goes by them (DESIGN 9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import force_setattr

from counterfoil.abc.authorizer import ACTIONS, AccessDecision, AccessRequest, Actor
from counterfoil.core.event_types import CLASSES
from counterfoil.core.forms import is_label
from counterfoil.core.several import several
from counterfoil.errors import InvalidForm

ALL: Final = frozenset(CLASSES)
ABOUT_NOBODY: Final = frozenset({"public", "internal"})
COMMON: Final = ABOUT_NOBODY | {"confidential"}

NO_ROLE: Final = "no-role"
"""The rule that refuses whoever was given no role."""

NOT_IN_ROLE: Final = "not-in-role"
"""The rule that refuses what none of the roles gives."""

PERMISSION: Final = "permission"
"""The rule that refuses a role that does not hold what the operation that made an artifact needed."""

OTHER_PRINCIPAL: Final = "other-principal"
"""The rule that refuses a run what an operation made for another person."""


class Role(Struct, frozen=True):
    """What a role may do: actions with the classes they reach, and the permissions it holds.

    ``permissions`` are names or patterns (``payment.*``) that artifacts are held against: what an operation recorded as
    ``permission`` is read only by who holds it. Raises InvalidForm for an action or a class that there is not.
    """

    actions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    permissions: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        checked = {_action(action): _classes(action, given) for action, given in self.actions.items()}
        force_setattr(self, "actions", MappingProxyType(checked))
        force_setattr(self, "permissions", frozenset(several(self.permissions, "permissions")))

    def gives(self, request: AccessRequest) -> bool:
        """Whether the action is in it, up to the class that is asked for."""
        classes = self.actions.get(request.action)
        if classes is None or request.klass is None:
            return classes is not None
        # A reading up to a class shows the ones below it too.
        return classes.issuperset(CLASSES[: CLASSES.index(request.klass) + 1])

    def holds(self, permission: str) -> bool:
        """Whether it holds what an operation needed."""
        return any(fnmatchcase(permission, held) for held in self.permissions)


def _action(action: str) -> str:
    if action not in ACTIONS:
        raise InvalidForm(f"an action is one of {', '.join(ACTIONS)}", argument="actions")
    return action


def _classes(action: str, given: Collection[str]) -> frozenset[str]:
    classes = frozenset(several(given, action))
    if not classes <= ALL:
        raise InvalidForm(f"a class is one of {', '.join(CLASSES)}", argument=action)
    return classes


_ANY: Final = frozenset({"*"})

DEFAULT_ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {
        # Workers and recovery need what a run was told and what its tools answered, whatever its class.
        "worker": Role({"read": ALL}, _ANY),
        "recovery": Role({"read": ALL}, _ANY),
        # Operators see what is open anyway and what is about nobody; for more they break the glass, or ask.
        "operator": Role({"read": ABOUT_NOBODY}),
        "auditor": Role(
            {"read": ALL - {"secret"}, "search": COMMON, "export": ALL - {"secret"}, "disclose": COMMON}, _ANY
        ),
        # Retention erases without reading.
        "retention": Role({"erase": ALL}),
        "security": Role({"read": ALL, "search": ALL, "export": ALL, "disclose": ALL, "glass": ALL}, _ANY),
    }
)
"""The roles of DESIGN 9 with what they may do unless you say otherwise (seed 004: roles that reflect real duties)."""

PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"agent": ("worker",), "worker": ("worker",), "system": ("recovery",)}
)
"""The roles of programs that were given none by name: code that runs here reads what it resumes and recovers from."""


class RoleAuthorizer:
    """Decides by roles.

    ``people`` gives each name its roles; somebody who is not in it has none. ``roles`` replaces or adds to
    :data:`DEFAULT_ROLES`. Raises InvalidForm for a role that is not there.

    >>> from counterfoil.access import AccessRequest, Actor, RoleAuthorizer
    >>> authorizer = RoleAuthorizer({"ann@example.org": ["auditor"]})
    >>> authorizer.decide(AccessRequest("read", Actor("ann@example.org"), "yearly audit", klass="personal"))
    AccessDecision(allowed=True, rule='auditor')
    >>> authorizer.decide(AccessRequest("erase", Actor("ann@example.org"), "yearly audit", klass="personal"))
    AccessDecision(allowed=False, rule='not-in-role')
    """

    def __init__(
        self, people: Mapping[str, Collection[str]] | None = None, roles: Mapping[str, Role] | None = None
    ) -> None:
        self.roles: Mapping[str, Role] = MappingProxyType({**DEFAULT_ROLES, **(roles or {})})
        if not all(map(is_label, self.roles)):
            raise InvalidForm("a role is named by a label: 1 to 128 of A-Za-z0-9_.:/+-", argument="roles")
        self._people: dict[str, tuple[str, ...]] = {
            name: self._known(several(given, "roles of a person")) for name, given in (people or {}).items()
        }

    def _known(self, names: Iterable[str]) -> tuple[str, ...]:
        found = tuple(names)
        for name in found:
            if name not in self.roles:
                raise InvalidForm(
                    "a person was given a role that there is not",
                    hint=f"the roles are {', '.join(self.roles)}",
                    argument="people",
                )
        return found

    def roles_of(self, actor: Actor) -> tuple[str, ...]:
        """The roles somebody has, in the order in which they were given."""
        named = self._people.get(actor.name)
        return PROGRAMS.get(actor.type, ()) if named is None else named

    def decide(self, request: AccessRequest) -> AccessDecision:
        """The first role that gives it; see :class:`counterfoil.abc.Authorizer`."""
        names = self.roles_of(request.actor)
        giving = [name for name in names if self.roles[name].gives(request)]
        if not giving:
            return AccessDecision(allowed=False, rule=NOT_IN_ROLE if names else NO_ROLE)
        if request.permission is not None:
            giving = [name for name in giving if self.roles[name].holds(request.permission)]
            if not giving:
                return AccessDecision(allowed=False, rule=PERMISSION)
        if self._for_another(request):
            return AccessDecision(allowed=False, rule=OTHER_PRINCIPAL)
        return AccessDecision(allowed=True, rule=giving[0])

    @staticmethod
    def _for_another(request: AccessRequest) -> bool:
        """A run reads what was made for the person it acts for; people read by their roles, whoever it was made for."""
        by_run = request.actor.type in ("agent", "worker")
        return by_run and request.principal is not None and request.principal != request.acts_for


def role_of(given: Mapping[str, Any]) -> Role:
    """A role as a table of ``counterfoil.toml``: one list of classes an action, and a list ``permissions``.

    Raises InvalidForm for anything else.
    """
    actions = {name: value for name, value in given.items() if name != "permissions"}
    return Role(actions, frozenset(several(given.get("permissions", ()), "permissions")))
