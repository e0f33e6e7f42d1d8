"""Importers: transcripts of other agents become conversations, one for each session, adding only what is new."""

from __future__ import annotations
