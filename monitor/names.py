"""Every name of acceptd's own metrics and of the labels it uses, in one place. It owns no values."""

from __future__ import annotations

# Labels: low cardinality, reasons come from enums.
SERVER = "server"
GROUP = "group"
REASON = "reason"
VERDICT = "verdict"
RECEIVER = "receiver"
JOB = "job"
ALERTNAME = "alertname"
SEVERITY = "severity"
STATE = "state"
ACTION = "action"
SLO = "slo"
MODEL = "model"
POSITION = "position"
OUTCOME = "outcome"

# Scraping.
SCRAPES = "acceptd_scrapes_total"
SCRAPE_SECONDS = "acceptd_scrape_duration_seconds"
SCRAPES_LATE = "acceptd_scrapes_late_total"
SCRAPES_MISSED = "acceptd_scrapes_missed_total"
SCRAPES_OVERLAPPING = "acceptd_scrapes_overlapping_total"
UNKNOWN_SERIES = "acceptd_unknown_series_total"
LAST_SUCCESS = "acceptd_last_success_timestamp_seconds"

# What was read, per server.
ACCEPTANCE_RATE = "acceptd_acceptance_rate_ratio"
ACCEPTANCE_LENGTH = "acceptd_acceptance_length_tokens"
NUM_SPECULATIVE_TOKENS = "acceptd_num_speculative_tokens"
GENERATION_THROUGHPUT = "acceptd_generation_tokens_per_second"
STEP_SECONDS = "acceptd_step_duration_seconds"
SERVER_UP = "acceptd_server_up"

GOODPUT = "acceptd_goodput_tokens_per_second"
EFFICIENCY = "acceptd_efficiency_ratio"
RUNNING = "acceptd_requests_running"
WAITING = "acceptd_requests_waiting"
KV_USAGE = "acceptd_kv_usage_ratio"
FIRST_TOKEN_P95 = "acceptd_time_to_first_token_p95_seconds"
OUTPUT_TOKEN_P95 = "acceptd_time_per_output_token_p95_seconds"
POSITION_RATE = "acceptd_acceptance_rate_at_position_ratio"

# Objectives.
SLO_GOOD = "acceptd_slo_good_events_total"
SLO_VALID = "acceptd_slo_valid_events_total"
SLO_KNOWN = "acceptd_slo_known_seconds"

# The loop.
CYCLES = "acceptd_cycles_total"
CYCLE_SECONDS = "acceptd_cycle_duration_seconds"
JOBS_LATE = "acceptd_jobs_missed_total"
JOBS_FAILED = "acceptd_jobs_failed_total"
INTERVALS_STORED = "acceptd_intervals_stored_total"
STORE_AWAY = "acceptd_store_away_seconds"
FLEET_STORE_AWAY = "acceptd_fleet_store_away_seconds"
UNSHIPPED = "acceptd_unshipped_intervals"
GIVEN_UP = "acceptd_given_up_intervals_total"
SPOOL_PAGES = "acceptd_spool_pages"
SPOOL_FILL = "acceptd_spool_fill_ratio"
SPOOL_LOST = "acceptd_spool_lost_pages_total"
ERRORS = "acceptd_unexpected_errors_total"

# Deciding and acting.
DECISIONS = "acceptd_decisions_total"
CHANGES = "acceptd_changes_total"
ALERTS_FIRING = "acceptd_alerts_firing"
PAUSED = "acceptd_paused"

# Telling.
NOTICES = "acceptd_notices_total"
OUTBOX_PENDING = "acceptd_outbox_pending"
SLACK_SOCKET = "acceptd_slack_socket_connected"

BUILD_INFO = "acceptd_build_info"
