"""Telling people: receivers that each say a notice in their own way, and the worker that empties the outbox."""
