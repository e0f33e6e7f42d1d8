"""The tenant whose turn this is: a context variable, captured where a turn begins (seed 000)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

DEFAULT_TENANT: Final = "default"

_tenant: ContextVar[str] = ContextVar("counterfoil_journal_tenant", default=DEFAULT_TENANT)


def current_tenant() -> str:
    """The tenant of this context."""
    return _tenant.get()


@contextmanager
def tenant_scope(tenant: str) -> Iterator[None]:
    """Work for a tenant inside this block; turns begun in it belong to the tenant, whichever thread writes them."""
    token = _tenant.set(tenant)
    try:
        yield
    finally:
        _tenant.reset(token)
