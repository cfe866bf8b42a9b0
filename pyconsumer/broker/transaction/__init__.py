"""The transaction coordinator of a broker (KIP-98, KIP-360, KIP-890), and what other parts of a broker need of it."""
