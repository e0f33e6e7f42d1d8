"""Children: runs that a run spawned, each in a conversation of its own, linked both ways (DESIGN 6, ADR 0175)."""
