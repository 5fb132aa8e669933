"""acceptd: the SLO and tuning daemon for fleets that serve LLMs with speculative decoding."""

__version__ = "0.1.0"
