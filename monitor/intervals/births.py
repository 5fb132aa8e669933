"""Lives: how they begin, what is learned of them later. It decides no beginning, it only writes it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from monitor.dialects import llamacpp, sglang, vllm_v1
from monitor.dialects.detect import is_blind
from monitor.intervals.sayings import Weighed, weigh
from monitor.intervals.track import Context, Event, EventKind, Seen
from monitor.model.life import DIFFUSION, Life, LifeId, Said, Setting, SettingSource, StartEvidence
from monitor.model.reading import Reading, Verdict
from monitor.model.server import ServerName

_NUMBER = "num_speculative_tokens"
_DIFFUSION = Said(source=SettingSource.PAGE, setting=Setting(method=DIFFUSION))


def page_tokens(reading: Reading, seen: Seen, version: str | None) -> int | None:
    """num_speculative_tokens as far as the page shows it; 0 where its silence means "off", None where it means nothing.

    V1 prints its speculation series if and only if speculation is configured, but some releases print none with several
    data-parallel engines (vllm-project/vllm#23776), some none at all, and the Rust frontend and Ray (whose pages have
    no start times) none before the first draft. A page without generated tokens lost more than those series.
    llama-server prints them at 0 when off.
    """
    if seen.engine.num_speculative_tokens is not None:
        return seen.engine.num_speculative_tokens
    if reading.verdict is not Verdict.NOT_SPEC_DECODE or seen.engine.is_diffusion:
        return None
    traffic = seen.engine.counts.traffic
    if reading.dialect == vllm_v1.DIALECT:
        is_whole = traffic is not None and traffic.generation_tokens is not None and seen.engine.prints_zeros
        alone = len(reading.engines) == 1
        tells = alone and is_whole and seen.starts.is_known() and not is_blind(reading.dialect, version)
        return 0 if tells else None
    return 0 if reading.dialect == llamacpp.DIALECT and seen.engine.counts.speculation is not None else None


def known_setting(tokens: int | None, seen: Seen, context: Context) -> Weighed:
    """The setting by the page (`tokens`, None where it does not say) and by all other sources."""
    said = context.said
    if seen.engine.is_diffusion:
        said = (_DIFFUSION, *said)
    elif tokens is not None and not _is_within(tokens, seen, said):
        said = (Said(source=SettingSource.PAGE, setting=Setting(num_speculative_tokens=tokens)), *said)
    return weigh(said, has_drafted=_has_drafted(seen))


def _is_within(tokens: int, seen: Seen, said: Sequence[Said]) -> bool:
    """Whether a page that shows a lower bound agrees with what another source says."""
    return not seen.engine.prints_zeros and any((one.setting.num_speculative_tokens or 0) >= tokens for one in said)


def _has_drafted(seen: Seen) -> bool:
    counts = seen.engine.counts.speculation
    return counts is not None and bool(counts.num_drafts)


def begin_life(
    server: ServerName,
    seen: Seen,
    evidence: StartEvidence,
    *,
    counts_from_zero: bool,
    tokens: int | None,
    context: Context,
) -> Life:
    """A life that this page is the first to show."""
    known = known_setting(tokens, seen, context)
    name = f"{server}\0{seen.engine.model}\0{seen.engine.engine}\0{seen.moment.at.isoformat()}"
    return Life(
        id=LifeId(blake2b(name.encode(), digest_size=10).hexdigest()),
        server=server,
        model=seen.engine.model,
        engine=seen.engine.engine,
        first_seen=seen.moment.at,
        evidence=evidence,
        counts_from_zero=counts_from_zero,
        engine_version=context.engine_version,
        setting=known.setting,
        sources=known.sources,
        adapts=known.adapts,
        setting_notes=known.notes,
        process_start=seen.starts.process,
        created=seen.starts.created,
        start_mark=seen.starts.mark,
    )


def learn(life: Life, seen: Seen, tokens: int | None, context: Context) -> Life:
    """The same life with what was unknown and is known now; what was known stays (a change is a new life).

    Only the page overrules another source, in the number of tokens. A page that does not say it now goes on saying
    what it said, and one that drafts refutes that speculation is off.
    """
    by_page = life.sources.get(_NUMBER) is SettingSource.PAGE
    is_refuted = life.setting.is_off and _has_drafted(seen)
    said_now = tokens if tokens is not None or not by_page or is_refuted else life.setting.num_speculative_tokens
    known = known_setting(said_now, seen, context)
    knows_better = _page_knows_better(known, by_page) or _shows_more(life, seen, tokens)
    learned = _learned_setting(life, known, keep_number=not is_refuted and not knows_better)
    adapts = life.adapts or known.adapts or _moves(life, seen, tokens)
    notes = known.notes if adapts is None else tuple(note for note in known.notes if not note.startswith(_NUMBER))
    new = {
        "setting": learned.setting,
        "sources": learned.sources,
        "adapts": adapts,
        "setting_notes": notes,
        "engine_version": life.engine_version or context.engine_version,
        "process_start": life.process_start if life.process_start is not None else seen.starts.process,
        "created": life.created if life.created is not None else seen.starts.created,
        "start_mark": life.start_mark if life.start_mark is not None else seen.starts.mark,
    }
    changed = {name: value for name, value in new.items() if value != getattr(life, name)}
    return replace(life, **changed) if changed else life  # type: ignore[arg-type]


def _page_knows_better(known: Weighed, by_page: bool) -> bool:
    return known.sources.get(_NUMBER) is SettingSource.PAGE and not by_page


def _shows_more(life: Life, seen: Seen, tokens: int | None) -> bool:
    """Whether a page that lacks what is still 0 shows a further position for the first time."""
    return not seen.engine.prints_zeros and tokens is not None and tokens > (life.setting.num_speculative_tokens or 0)


def _learned_setting(life: Life, known: Weighed, *, keep_number: bool) -> Weighed:
    """The life's setting with the parts that it did not know."""
    old, new = life.setting, known.setting
    keep_number = keep_number and old.num_speculative_tokens is not None
    filled = Setting(
        method=old.method if old.method is not None else new.method,
        num_speculative_tokens=old.num_speculative_tokens if keep_number else new.num_speculative_tokens,
        draft_model=old.draft_model if old.draft_model is not None else new.draft_model,
        schedule=old.schedule or new.schedule,
    )
    if filled == old and keep_number:
        return Weighed(old, life.sources)
    kept = {name: source for name, source in life.sources.items() if name != _NUMBER or keep_number}
    return Weighed(filled, {**known.sources, **kept})


def _moves(life: Life, seen: Seen, tokens: int | None) -> str | None:
    """How the page of a SGLang server in adaptive mode shows it: another number than the one its life began with."""
    began = life.setting.num_speculative_tokens
    by_page = life.sources.get(_NUMBER) is SettingSource.PAGE
    if seen.dialect != sglang.DIALECT or not by_page or not began or not tokens or tokens == began:
        return None
    return f"its page shows {tokens} tokens where it showed {began}"


def noted(life: Life, before: Life | None = None) -> tuple[Event, ...]:
    """What is new about how the life's setting is known: sources that disagree, an engine that moves it itself."""
    known = before.setting_notes if before is not None else ()
    texts = [note for note in life.setting_notes if note not in known]
    if life.adapts is not None and (before is None or before.adapts is None):
        texts.append(f"the engine moves num_speculative_tokens itself: {life.adapts}")
    return tuple(Event(EventKind.NOTED, life.id, text) for text in texts)
