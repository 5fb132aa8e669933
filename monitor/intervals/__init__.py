"""Readings in a row: lives, heads, the intervals between them, and adding intervals up. It reads no pages itself."""
