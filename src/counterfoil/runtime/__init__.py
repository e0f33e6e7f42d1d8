"""Runs: admission, leases, memoised steps, model calls, recovery."""

from __future__ import annotations
