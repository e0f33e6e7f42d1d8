"""The engines behind the store contract: memory and SQLite, and what they need of a file system."""
