"""Tests of the test helpers."""
