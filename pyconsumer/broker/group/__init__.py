"""The group coordinator: who is in which consumer group, who reads what, and which offsets were committed."""
