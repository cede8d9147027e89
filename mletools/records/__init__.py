"""Floor 1: records as JSON Lines: reading, writing, schemas, identities, resuming, workers. Imports no other floor."""
