"""Used by both group protocols: settings, committed offsets, results of requests, and the interface to the log."""
