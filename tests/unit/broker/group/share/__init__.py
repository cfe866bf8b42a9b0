"""Tests of share groups in the group coordinator."""
