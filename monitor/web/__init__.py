"""The daemon's own HTTP: metrics, health, readiness of servers for balancers, and the status page."""
