"""Benchmarks of a server by the serving benchmark of its own vLLM: what is sent, running it, comparing results.

It measures what a person orders, on a server that serves nobody else; the daemon never runs it.
"""
