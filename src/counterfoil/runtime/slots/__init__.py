"""State slots: named values of a conversation, each with versions; what runs read, and what was where at any sequence."""

from __future__ import annotations
