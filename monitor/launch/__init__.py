"""Command lines of vLLM, SGLang and llama.cpp, parsed, rendered and checked per version. It starts nothing."""

from monitor.launch.contract import render_json
from monitor.launch.diff import diff_command
from monitor.launch.outcome import Rendered, Target
from monitor.launch.parse import ParsedCommand, parse_command
from monitor.launch.program import looks_like_server
from monitor.launch.redact import redact, redact_text, redact_url
from monitor.launch.render import render
from monitor.launch.speculation import Speculation
from monitor.launch.target import grace_seconds, target_arguments

__all__ = [
    "ParsedCommand",
    "Rendered",
    "Speculation",
    "Target",
    "diff_command",
    "grace_seconds",
    "looks_like_server",
    "parse_command",
    "redact",
    "redact_text",
    "redact_url",
    "render",
    "render_json",
    "target_arguments",
]
