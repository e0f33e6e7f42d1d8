"""The engines behind the store contract: memory, SQLite and PostgreSQL, and what they need of a file system."""
