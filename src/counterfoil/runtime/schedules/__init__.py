"""Schedules: inputs that come by themselves, once, every so often or by the calendar; each due time exactly once."""

from __future__ import annotations
