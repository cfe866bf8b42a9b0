"""The group coordinator on a fake clock, with a log in memory."""
