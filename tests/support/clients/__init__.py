"""Programs with clients of other languages: a module of Go, a package of npm, sources of Java."""
