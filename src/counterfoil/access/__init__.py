"""Access: who may see what, as data; each read session decided once and recorded before content is shown (DESIGN 9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from counterfoil.abc.authorizer import AccessDecision, AccessRequest, Actor, Authorizer
from counterfoil.core.exports import exports

if TYPE_CHECKING:
    from counterfoil.access.embedded import EmbeddedAuthorizer
    from counterfoil.access.roles import DEFAULT_ROLES, Role, RoleAuthorizer

__all__ = [
    "DEFAULT_ROLES",
    "AccessDecision",
    "AccessRequest",
    "Actor",
    "Authorizer",
    "EmbeddedAuthorizer",
    "Role",
    "RoleAuthorizer",
]

__getattr__: Callable[[str], Any] = exports(
    __name__,
    {
        "DEFAULT_ROLES": "roles",
        "EmbeddedAuthorizer": "embedded",
        "Role": "roles",
        "RoleAuthorizer": "roles",
    },
)
