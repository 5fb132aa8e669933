"""What a page says, in lines for people: from the JSON of `acceptd read`. It prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monitor.cli import words
from monitor.cli.output import number, share

#: Draft tokens from which none accepted is no accident but a draft that does not fit.
_NONE_ACCEPTED_TOKENS = 1000
#: Most engines of one model that are listed one by one.
_MOST_ENGINES = 16
#: Verdicts that leave no number to look at for oddities.
_WITHOUT_NUMBERS = frozenset({"scrape_error", "starting", "no_engine_metrics", "no_samples_yet"})

Line = tuple[str, str]


def headline(answer: Mapping[str, Any]) -> Iterator[Line]:
    """What this server is and whether anything is odd: lines, each with its style."""
    verdict = answer["verdict"]
    if answer["models"]:
        yield words.DIALECTS.get(answer["dialect"], answer["dialect"]), ""
    yield _verdict(answer), "green" if verdict == "ok" else "yellow"
    yield f"({verdict}: {answer['reason']})", "dim"
    if answer.get("state"):
        yield f"{words.STATES[answer['state']]} ({answer['state']})", ""
    odd = [f"Doubt: {words.FLAGS[flag]} ({flag})" for flag in answer["flags"]] + list(_oddities(answer))
    for line in odd:
        yield line, "yellow"
    if not odd and verdict in ("ok", "not_spec_decode", "spec_decode_no_drafts_yet"):
        yield "Nothing looks odd.", "green"


def _verdict(answer: Mapping[str, Any]) -> str:
    """The verdict in words, no surer than the page: some engines print their counters whether or not they speculate."""
    verdict, dialect = answer["verdict"], answer["dialect"]
    shown = [model["num_speculative_tokens"] for model in answer["models"]]
    if verdict == "spec_decode_no_drafts_yet" and dialect != "vllm_v0" and not any(shown):
        return "It has drafted nothing yet, and the page does not tell whether it is set up to. Acceptance is unknown."
    if verdict == "not_spec_decode" and _may_be_blind(answer):
        return "Its page shows no speculation; that need not mean that there is none."
    return words.VERDICTS.get(verdict, str(verdict))


def _may_be_blind(answer: Mapping[str, Any]) -> bool:
    """Whether a server that speculates could print this page as well: old builds, several engines, a cut page."""
    counted = any(model["lifetime"]["num_drafts"] is not None for model in answer["models"])
    if answer["dialect"] == "llamacpp":
        return not counted
    if answer["dialect"] == "sglang":
        return False
    several = any(len(model["engines"]) > 1 for model in answer["models"])
    old = "prints nothing of speculation" in answer["reason"]
    return answer["dialect"] == "vllm_v0" or several or old or bool(answer["flags"])


def _oddities(answer: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the numbers themselves, although they can be believed."""
    if answer["verdict"] in _WITHOUT_NUMBERS:
        return
    for model in answer["models"]:
        reading = model["interval"] if (model["interval"] or {}).get("num_draft_tokens") else model["lifetime"]
        drafted, accepted = reading["num_draft_tokens"] or 0, reading["num_accepted_tokens"]
        if accepted == 0 and drafted >= _NONE_ACCEPTED_TOKENS:
            yield (
                f"Odd: none of {drafted:,.0f} draft tokens was accepted. That is a draft model or head that does not "
                "fit, or a fault, and no matter of their number."
            )


def model_lines(model: Mapping[str, Any], verdict: str) -> Iterator[str]:
    """One model's numbers."""
    tokens = model["num_speculative_tokens"]
    engines = model["engines"]
    speculates = verdict != "not_spec_decode"
    yield f"num_speculative_tokens   {_tokens(tokens, speculates)}"
    yield f"running / waiting        {number(model['running'], 0)} / {number(model['waiting'], 0)}"
    yield f"KV cache (fullest)       {share(model['kv_usage_max'])}"
    if 1 < len(engines) <= _MOST_ENGINES and speculates:
        rates = ((name, part["lifetime"]["acceptance_rate"]) for name, part in model["per_engine"].items())
        yield "acceptance by engine     " + ", ".join(f"{name}: {share(rate)}" for name, rate in rates)
    if model["interval"] is not None:
        hidden = " (a restart hides a part of it)" if model["interval"]["partial"] else ""
        yield f"between the pages{hidden}:"
        yield from _reading_lines(model["interval"], tokens, speculates)
    is_one_of_several = verdict == "inconsistent_endpoint"
    yield "since the start of the process that answered last:" if is_one_of_several else "since its start:"
    yield from _reading_lines(model["lifetime"], tokens, speculates)


def _tokens(tokens: int | None, speculates: bool) -> str:
    if tokens is not None:
        return str(tokens)
    return "not shown by the page" if speculates else "none: off, as far as the page shows"


def _reading_lines(reading: Mapping[str, Any], tokens: int | None, speculates: bool) -> Iterator[str]:
    if speculates:
        most = f" of at most {tokens + 1}" if tokens else ""
        yield f"  acceptance rate        {share(reading['acceptance_rate'])}  (accepted / draft tokens)"
        yield f"  acceptance length      {number(reading['acceptance_length'])}{most}  (tokens a draft)"
        at = reading["acceptance_rate_per_position"] or []
        if any(rate is not None for rate in at):
            yield f"  per position           {' '.join(share(rate) for rate in at)}  (1st token of a draft, 2nd, …)"
        yield f"  drafts                 {number(reading['num_drafts'], 0)}"
    yield f"  generated tokens       {number(reading['generation_tokens'], 0)}"
    speed = reading["generation_tokens_per_second"]
    if speed is not None:
        yield f"  tokens per second      {'at least ' if reading['partial'] else ''}{number(speed, 1)}"


def model_title(model: Mapping[str, Any]) -> str:
    """Which model, and how many engines serve it."""
    name = f"model {model['model']}" if model["model"] else "the model (the page does not name it)"
    return name + (f", {len(model['engines'])} engines" if len(model["engines"]) > 1 else "")
