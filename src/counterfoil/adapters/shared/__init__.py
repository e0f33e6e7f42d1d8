"""Rules that every engine with tables keeps alike, whatever its SQL: duplicates, refusals, leases, declared tables."""
