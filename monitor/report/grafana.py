"""A dashboard for Grafana over acceptd's own metrics: the curves of the page, for those who have Grafana anyway."""

from __future__ import annotations

from typing import Any

from monitor import names

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN = '{group=~"$group", server=~"$server"}'
#: An objective has a group, a server of a group, or a model, and no value for the others.
_OBJECTIVES = '{group=~"$group|", server=~"$server|"}'
_OBJECTIVE = "{{slo}} {{group}} {{server}} {{model}}"
#: Title, unit in Grafana's words, expressions with their legends.
_PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Acceptance rate", "percentunit", ((f"{names.ACCEPTANCE_RATE}{_CHOSEN}", "{{server}}"),)),
    ("Acceptance by position", "percentunit",
     ((f"avg by (group, position) ({names.POSITION_RATE}{_CHOSEN})", "{{group}} position {{position}}"),)),
    ("Acceptance length (bonus token included)", "none", ((f"{names.ACCEPTANCE_LENGTH}{_CHOSEN}", "{{server}}"),)),
    ("num_speculative_tokens", "none", ((f"{names.NUM_SPECULATIVE_TOKENS}{_CHOSEN}", "{{server}}"),)),
    ("Engine step", "s", ((f"{names.STEP_SECONDS}{_CHOSEN}", "{{server}}"),)),
    ("Time per output token, 95th percentile", "s", ((f"{names.OUTPUT_TOKEN_P95}{_CHOSEN}", "{{server}}"),)),
    ("Time to first token, 95th percentile", "s", ((f"{names.FIRST_TOKEN_P95}{_CHOSEN}", "{{server}}"),)),
    ("Generated tokens per second", "none",
     ((f"sum by (group) ({names.GENERATION_THROUGHPUT}{_CHOSEN})", "{{group}}"),)),
    ("Goodput: tokens per second and request", "none", ((f"{names.GOODPUT}{_CHOSEN}", "{{server}}"),)),
    ("Requests", "none", ((f"sum by (group) ({names.RUNNING}{_CHOSEN})", "{{group}} running"),
                          (f"sum by (group) ({names.WAITING}{_CHOSEN})", "{{group}} waiting"))),
    ("KV cache in use", "percentunit", ((f"{names.KV_USAGE}{_CHOSEN}", "{{server}}"),)),
    ("Error budget left", "percentunit",
     ((f"acceptd:slo_error_budget_remaining:ratio{_OBJECTIVES}", _OBJECTIVE),)),
    ("Burn rate, last hour", "none", ((f"acceptd:slo_burn_rate:1h{_OBJECTIVES}", _OBJECTIVE),)),
    ("Alerts firing", "none", ((f"sum by (severity) ({names.ALERTS_FIRING})", "{{severity}}"),)),
)  # fmt: skip
_WIDTH, _HEIGHT = 12, 8
#: Least time between two points of an annotation.
_STEP = "60s"
_SETTING = f"{names.NUM_SPECULATIVE_TOKENS}{_CHOSEN}"
#: What stands across all panels: name, expression, text, colour. Grafana asks for 100 points of annotations, however
#: long the time shown (every 15 minutes of a day), so the window must be its own; a setting is also compared with the
#: last one known before, as there is none while a server restarts.
_ANNOTATIONS = (
    ("Setting changed",
     f"changes({_SETTING}[$__rate_interval]) > 0"
     f" or ({_SETTING} != bool last_over_time({_SETTING}[1h] offset $__rate_interval)) > 0",
     "{{server}} changed num_speculative_tokens", "purple"),
    ("Changes that ended", f'increase({names.CHANGES}{{group=~"$group"}}[$__rate_interval]) > 0',
     "{{group}}: {{outcome}}", "blue"),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it. The data source is asked for; changes stand as annotations."""
    return {
        "title": "acceptd: speculative decoding",
        "uid": "acceptd-speculation",
        "editable": True,
        "graphTooltip": 1,
        "tags": ["acceptd", "vllm"],
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [_source_variable(), _variable("group", names.RUNNING),
                                _variable("server", f'{names.RUNNING}{{group=~"$group"}}')]},
        "annotations": {"list": [_annotation(*one) for one in _ANNOTATIONS]},
        "panels": [_panel(number, *panel) for number, panel in enumerate(_PANELS)],
    }  # fmt: skip


def _panel(number: int, title: str, unit: str, targets: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {
        "id": number + 1,
        "title": title,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": {"x": number % 2 * _WIDTH, "y": number // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "custom": {"spanNulls": False}}, "overrides": []},
        "options": {"legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
                    "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(65 + index), "datasource": _SOURCE, "expr": expr, "legendFormat": legend}
            for index, (expr, legend) in enumerate(targets)
        ],
    }  # fmt: skip


def _source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0,
            "regex": ""}  # fmt: skip


def _variable(name: str, metric: str) -> dict[str, Any]:
    return {
        "name": name, "type": "query", "datasource": _SOURCE, "query": f"label_values({metric}, {name})", "refresh": 2,
        "multi": True, "includeAll": True, "current": {"text": "All", "value": "$__all"}, "sort": 1, "hide": 0,
        "regex": "",
    }  # fmt: skip


def _annotation(name: str, expr: str, text: str, colour: str) -> dict[str, Any]:
    """An annotation with its query twice: Grafana reads `target`, releases up to 11 `expr` and `step`."""
    return {"name": name, "datasource": _SOURCE, "enable": True, "titleFormat": text, "iconColor": colour,
            "target": {"refId": "Anno", "expr": expr, "interval": _STEP, "range": True},
            "expr": expr, "step": _STEP}  # fmt: skip
