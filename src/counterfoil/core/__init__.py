"""The bytes: identifiers, canonical JSON, genesis, headers, sealed records, catalogue and chain; pure functions."""
