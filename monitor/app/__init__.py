"""The daemon: built from a configuration, started, reloaded, stopped. Construction does no I/O; `start` does."""
