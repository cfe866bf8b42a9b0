"""Programs of the lane ``ports``. Each is started by its path, on an original or on our layer."""
