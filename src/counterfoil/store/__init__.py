"""The store contract: append units, rows and guards, leases, feed, and the group-commit writer."""
