"""Artifacts: bytes outside the events, classified, encrypted in chunks, stored once for a subject; spilled values."""

from __future__ import annotations

from counterfoil.artifacts.handle import Artifact
from counterfoil.artifacts.keep import keep
from counterfoil.artifacts.vault import Vault

__all__ = ["Artifact", "Vault", "keep"]
