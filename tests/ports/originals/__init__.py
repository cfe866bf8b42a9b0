"""Fixtures and lists for the originals' own tests: see ``test_original_suites``."""
