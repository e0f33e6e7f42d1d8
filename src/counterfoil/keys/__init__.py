"""Keys: data keys wrapped and cached, subject links, the tenant's index key, rotation, the file provider."""
