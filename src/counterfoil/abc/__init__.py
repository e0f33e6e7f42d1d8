"""The protocols that a host may implement itself: clock, ids, key provider, key store."""

from __future__ import annotations

from counterfoil.abc.keys import KeyProvider, KeyRow, KeyStore, SubjectRow
from counterfoil.abc.time import Clock, Ids

__all__ = ["Clock", "Ids", "KeyProvider", "KeyRow", "KeyStore", "SubjectRow"]
