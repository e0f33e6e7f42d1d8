"""Renderers of the command line: pure functions from events and rows to lines of styled text."""

from __future__ import annotations
