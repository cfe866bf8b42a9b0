"""Settings of the clients: how they are declared, checked, and read from files and the environment."""
