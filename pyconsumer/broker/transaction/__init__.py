"""The transaction coordinator of a broker (KIP-98, KIP-360, KIP-890), and its interface to the broker's other parts."""
