"""What each serving engine prints, read into one kind of reading: a module a dialect, name tables as data."""

from monitor.dialects.read import NO_DIALECT, Dialects, ServerReader, read_page

__all__ = ["NO_DIALECT", "Dialects", "ServerReader", "read_page"]
