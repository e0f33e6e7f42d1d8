"""Repair: what went wrong is undone by new effects, recorded as a case of its own; facts are corrected, never edited."""

from __future__ import annotations
