"""Tests of the records layer: batches, message sets, compression, checksums."""
