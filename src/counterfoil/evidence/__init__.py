"""Evidence: verifying what is stored, and saying what the proof covers and what it cannot see."""

from __future__ import annotations
