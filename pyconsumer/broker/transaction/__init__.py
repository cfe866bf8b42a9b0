"""The transaction coordinator of a broker (KIP-98, KIP-360, KIP-890)."""
