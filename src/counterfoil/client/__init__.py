"""The ledger as applications use it: opening, running, reading, recovering."""

from __future__ import annotations
