"""Search: a local FTS5 file that follows the feed; plain text is found as it stands, and the lag is said."""
