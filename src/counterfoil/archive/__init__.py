"""Archives: conversations as they are stored, taken out and in again byte for byte; key packages beside them."""
