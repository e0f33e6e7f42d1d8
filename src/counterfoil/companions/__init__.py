"""Companions: rows that an application keeps beside its events, sealed, and written only in an append (seed 003)."""
