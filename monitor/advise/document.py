"""Advice as plain data: the JSON of `acceptd advise`."""

from __future__ import annotations

from monitor.advise.issues import KnownIssue
from monitor.advise.memory import Memory
from monitor.advise.options import Advised, Option


def advised_view(advised: Advised) -> dict[str, object]:
    """The whole answer; unknown numbers are None. Memory is for each GPU."""
    best = advised.best
    return {
        "best": {"method": best.method, "model": best.model} if best is not None else None,
        "options": [_option_view(option) for option in advised.options],
        "without_speculation": _memory_view(advised.without),
        "notes": list(advised.notes),
    }


def _option_view(option: Option) -> dict[str, object]:
    guess = option.forecast
    return {
        "method": option.method,
        "model": option.model,
        "possible": option.is_possible,
        "refusals": list(option.refusals),
        "num_speculative_tokens": guess.tokens,
        "gain": guess.gain,
        "gain_low": guess.gain_low,
        "gain_high": guess.gain_high,
        "tokens_per_step": guess.length,
        "quantization": option.quantization,
        "memory": _memory_view(option.memory),
        "vocabulary": (
            {"match": option.vocabulary.match.value, "sentence": option.vocabulary.sentence}
            if option.vocabulary is not None else None
        ),
        "argv": list(option.argv),
        "env": dict(option.env),
        "notes": list(option.notes),
        "known_issues": [_issue_view(issue) for issue in option.issues],
        "source": option.source,
    }  # fmt: skip


def _memory_view(memory: Memory) -> dict[str, object]:
    return {
        "fit": memory.fit.value,
        "sentence": memory.sentence,
        "budget_bytes": memory.budget_bytes,
        "target_bytes": memory.target_bytes,
        "draft_bytes": memory.draft_bytes,
        "other_bytes": memory.other_bytes,
        "cache_bytes": memory.cache_bytes,
        "bytes_per_token": memory.bytes_per_token,
        "capacity_tokens": memory.capacity_tokens,
        "needed_tokens": memory.needed_tokens,
    }


def _issue_view(issue: KnownIssue) -> dict[str, object]:
    return {"id": issue.id, "effect": issue.effect, "link": issue.link, "versions": str(issue.versions)}
