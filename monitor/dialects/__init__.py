"""What each serving engine prints, read into one kind of reading: a module a dialect, name tables as data."""

from monitor.dialects.read import Dialects, ServerReader, read_page

__all__ = ["Dialects", "ServerReader", "read_page"]
