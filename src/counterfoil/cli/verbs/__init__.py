"""The commands of ``counterfoil``, one file for each."""

from __future__ import annotations
