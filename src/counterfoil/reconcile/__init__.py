"""Reconciling: a provider's own book (CSV, JSON Lines) held against what the ledger says was done."""

from __future__ import annotations
