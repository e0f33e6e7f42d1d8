"""Approvals: a person's permission, bound to the digest of one call, asked here and answered anywhere, used once."""

from __future__ import annotations
