"""Simulated inference servers: processes that look, restart and fail like vLLM 0.32, without a GPU.

They exist so that the whole loop (scrape, decide, restart, judge) can be shown and tested anywhere. They share no code
with the tuner: what is true of a simulated server comes from its table (`tables/`), not from the model that judges it.
Everything a person reads from them is marked SIMULATED. `python -m monitor.simulator --help` lists the flags.
"""
