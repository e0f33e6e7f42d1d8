"""The protocols that a host may implement itself: clock, ids, key provider, key store."""

from __future__ import annotations

from counterfoil.abc.keys import EpochKeyProvider, KeyProvider, KeyRow, KeyStore, SubjectRow
from counterfoil.abc.time import Clock, Ids

__all__ = ["Clock", "EpochKeyProvider", "Ids", "KeyProvider", "KeyRow", "KeyStore", "SubjectRow"]
