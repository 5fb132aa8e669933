"""Putting acceptd's units in place and taking servers' units over: plans that are shown first, then carried out."""
