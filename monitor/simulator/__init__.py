"""Simulated inference servers: processes that look, restart and fail like vLLM 0.32 (V1), without a model or a GPU.

They exist so that the whole loop (scrape, decide, restart, judge) can be shown and tested anywhere. They share no code
with the tuner: what is true of a simulated server comes from its table (`tables/`), not from the model that judges it.
Everything a person reads from them is marked SIMULATED; metric names are not.

- One server: `python -m monitor.simulator --port P --speculative-config JSON --sim-load closed:clients=16 …`
  (`--help` lists the flags). It binds its port at once, refuses connections until `--sim-start-seconds` have passed,
  stops on SIGTERM (status 0), ends with status 1 where it cannot start or its engine dies, 2 where a flag is wrong.
- Many in one process: `monitor.simulator.fleet`. Without sockets and faster than time:
  `monitor.simulator.server.SimServer` with any clock. The four servers of the demo: `monitor.simulator.demo`.
- Control, from the loopback only: `GET /-/sim/state` (what is true), `POST /-/sim/fault` with
  `{"kind": …, "value": …, "after_seconds": …}` or `{"kind": …, "clear": true}`, `POST /-/sim/load` with `{"load": …}`.

`--sim-speed S` lets S simulated seconds pass in one second of the wall. All that the engine does is in simulated time:
latency histograms, step time, arrivals, the load's day, `@SECONDS` of faults, uptime. Wall time are start and stop
seconds, the shutdown timeout, `process_*` and `_created`. So at S > 1 counters grow S times as fast between two scrapes
while latencies stay what the table says: rates per wall second are S times too high, ratios and histograms true.
"""
