"""What the local file system must give a ledger: a place that keeps what it says, and a turn between processes."""
