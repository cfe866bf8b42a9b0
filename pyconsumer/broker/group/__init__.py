"""The group coordinator: the members of each group, their assignments, and committed offsets."""
