"""Lives: how they begin, what is learned of them later. It decides no beginning, it only writes it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from monitor.dialects import llamacpp, vllm_v1
from monitor.dialects.detect import is_blind
from monitor.intervals.track import Context, Seen
from monitor.model.life import Life, LifeId, Setting, SettingSource, StartEvidence
from monitor.model.reading import Reading, Verdict
from monitor.model.server import ServerName


def page_tokens(reading: Reading, seen: Seen, version: str | None) -> int | None:
    """num_speculative_tokens as far as the page shows it; 0 where its silence means "off", None where it means nothing.

    V1 prints its speculation series if and only if speculation is configured, but some releases print none with several
    data-parallel engines (vllm-project/vllm#23776), some none at all, and the Rust frontend (whose pages have no start
    times) none before the first draft. llama-server prints them at 0 when off.
    """
    if seen.engine.num_speculative_tokens is not None:
        return seen.engine.num_speculative_tokens
    if reading.verdict is not Verdict.NOT_SPEC_DECODE:
        return None
    if reading.dialect == vllm_v1.DIALECT:
        tells = len(reading.engines) == 1 and seen.starts.is_known() and not is_blind(reading.dialect, version)
        return 0 if tells else None
    return 0 if reading.dialect == llamacpp.DIALECT and seen.engine.counts.speculation is not None else None


def known_setting(tokens: int | None, context: Context) -> tuple[Setting, Mapping[str, SettingSource]]:
    """The setting from all sources; the page wins over what others say of the number of tokens.

    A page without speculation series does not overrule a command line that asks for speculation (several releases
    lose the series), so "off" from a page only fills a gap.
    """
    setting, sources = context.setting, dict(context.sources)
    said = setting.num_speculative_tokens
    if tokens is None or (tokens == 0 and said):
        return setting, sources
    sources["num_speculative_tokens"] = SettingSource.PAGE
    return replace(setting, num_speculative_tokens=tokens), sources


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
    setting, sources = known_setting(tokens, context)
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
        setting=setting,
        sources=sources,
        process_start=seen.starts.process,
        created=seen.starts.created,
    )


def learn(life: Life, seen: Seen, tokens: int | None, context: Context) -> Life:
    """The same life with what was unknown and is known now; what was known stays (a change is a new life).

    Only the page overrules another source, in the number of tokens.
    """
    setting, sources = known_setting(tokens, context)
    old, number = life.setting, "num_speculative_tokens"
    page_knows_better = sources.get(number) is SettingSource.PAGE and life.sources.get(number) is not SettingSource.PAGE
    keeps_number = old.num_speculative_tokens is not None and not page_knows_better
    filled = Setting(
        method=old.method if old.method is not None else setting.method,
        num_speculative_tokens=old.num_speculative_tokens if keeps_number else setting.num_speculative_tokens,
        draft_model=old.draft_model if old.draft_model is not None else setting.draft_model,
        schedule=old.schedule or setting.schedule,
    )
    version = life.engine_version or context.engine_version
    process = life.process_start if life.process_start is not None else seen.starts.process
    created = life.created if life.created is not None else seen.starts.created
    if (filled, version, process, created) == (old, life.engine_version, life.process_start, life.created):
        return life
    return replace(
        life,
        setting=filled,
        sources={**sources, **life.sources, **({number: SettingSource.PAGE} if page_knows_better else {})},
        engine_version=version,
        process_start=process,
        created=created,
    )
