"""Programs with clients of other languages: ``go`` is a module of Go, ``kafkajs`` a package of npm."""
