"""Every way to speculate with a model, best first: settings, memory, vocabulary, command line, known issues. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from monitor.advise.catalog import Catalog, DraftEntry, PairEntry
from monitor.advise.forecast import Forecast, forecast
from monitor.advise.issues import LONG_PROMPT_TOKENS, Condition, KnownIssue, applying
from monitor.advise.memory import Fit, Memory, Room, estimate
from monitor.advise.shapes import ModelShape, Precision
from monitor.advise.vocabulary import Comparison, Match, compare
from monitor.errors import LaunchError
from monitor.launch import Speculation, Target, render
from monitor.launch.versions import Version, parse_version
from monitor.launch.vllm_keys import BY_NAME as KEYS
from monitor.model.server import Engine

#: Methods that need neither a draft nor the target's own heads.
_LOOKUPS = ("ngram", "suffix")
#: Lookup window to begin with: the guides' 4, from pairs on (single tokens match everywhere).
_LOOKUP_MAX, _LOOKUP_MIN = 4, 2
_EAGLES = frozenset({"eagle", "eagle3"})
#: What vLLM makes of a 16-bit draft at its start: 8-bit weights.
_EIGHT_BIT = "fp8"
_HETEROGENEOUS = "use_heterogeneous_vocab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: a target, a version of vLLM, GPUs and load.

    `shape_of` and `tokens_of` look a draft up (shape, and tokens with their ids) and give None where nothing is known;
    `argv` is the server's command line without speculation; `drafts` are drafts of the asker's own.
    """

    target: ModelShape
    version: str
    room: Room
    argv: Sequence[str]
    kind: str = "chat"
    drafts: Sequence[DraftEntry] = ()
    shape_of: Callable[[str], ModelShape | None] = lambda name: None
    tokens_of: Callable[[str], Mapping[str, int] | None] = lambda name: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to speculate. `refusals` say why it is not possible; empty where it is."""

    method: str
    model: str | None
    forecast: Forecast
    memory: Memory
    vocabulary: Comparison | None = None
    quantization: str | None = None
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    issues: tuple[KnownIssue, ...] = ()
    source: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether nothing stands against it."""
        return not self.refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """All options, those that are possible first, each kind by what it may bring; and the memory without any."""

    options: tuple[Option, ...]
    without: Memory
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Option | None:
        """The option to begin with; None where none is possible or none pays."""
        first = self.options[0] if self.options else None
        return first if first is not None and first.is_possible and first.forecast.pays else None


def advise(question: Question, catalog: Catalog, issues: Sequence[KnownIssue]) -> Advised:
    """Every option for the question. Raises LaunchError where the version is none."""
    version = parse_version(Engine.VLLM, question.version)
    pair = catalog.pair(question.target.name)
    options = [_option(question, version, entry, catalog, issues) for entry in _entries(question, pair)]
    options.sort(key=lambda one: (not one.is_possible, -one.forecast.gain))
    notes = [pair.note] if pair is not None and pair.note else []
    if pair is None and not question.drafts:
        notes.append(f"no drafts are listed for {question.target.name}: name one with --draft")
    without = estimate(question.target, question.room, 0)
    if without.fit is Fit.DOES_NOT_FIT:
        notes.append(f"the target does not fit by itself: {without.sentence}")
    return Advised(options=tuple(options), without=without, notes=tuple(notes))


def _entries(question: Question, pair: PairEntry | None) -> Iterator[DraftEntry]:
    """What is to be looked at, once each: the asker's drafts, those listed, the target's own heads, lookups."""
    found = [*question.drafts, *(pair.drafts if pair is not None else ())]
    if question.target.own_heads and all(entry.method != "mtp" for entry in found):
        found.append(DraftEntry(method="mtp"))
    found += [DraftEntry(method=method) for method in _LOOKUPS]
    seen: set[tuple[str, str | None]] = set()
    for entry in found:
        if (entry.method, entry.model) not in seen:
            seen.add((entry.method, entry.model))
            yield entry


def _option(
    question: Question, version: Version, entry: DraftEntry, catalog: Catalog, issues: Sequence[KnownIssue]
) -> Option:
    known = catalog.methods[entry.method]
    draft = _draft(question, entry)
    guess = forecast(
        entry.method, known, kind=question.kind, concurrency=question.room.concurrency,
        draft_ratio=_ratio(question.target, draft) if entry.method == "draft_model" else None,
        **_steps(question.target, entry.method),
    )  # fmt: skip
    notes, refusals, extra = ([entry.note] if entry.note else []), [], {}
    comparison = None
    if entry.method == "draft_model" and draft is not None:
        comparison = _compared(question, entry, draft)
        if comparison.match is Match.DIFFERENT:
            if _may_translate(question.target, draft, version):
                extra[_HETEROGENEOUS] = True
                notes.append(f"{comparison.sentence}: {_HETEROGENEOUS} translates, with greedy drafting only")
            else:
                refusals.append(comparison.sentence)
        if question.target.family and draft.family and question.target.family != draft.family:
            notes.append(
                "the draft is of another family: under 30 % acceptance is usual then, which is slower than no draft"
            )
    memory, quantization = _memory(question, entry, draft, guess.tokens)
    if quantization:
        notes.append("the draft's weights only fit at 8 bit (half the memory)")
    if memory.fit is Fit.DOES_NOT_FIT:
        refusals.append(memory.sentence)
    speculation = Speculation(
        method=entry.method, model=entry.model, num_speculative_tokens=guess.tokens, quantization=quantization,
        extra=extra, prompt_lookup_max=_LOOKUP_MAX if entry.method == "ngram" else None,
        prompt_lookup_min=_LOOKUP_MIN if entry.method == "ngram" else None,
    )  # fmt: skip
    option = Option(
        method=entry.method, model=entry.model, forecast=guess, memory=memory, vocabulary=comparison,
        quantization=quantization, notes=tuple(notes), source=known.source,
        issues=applying(issues, version, entry.method, _conditions(question, quantization)),
    )  # fmt: skip
    return _rendered(option, question, speculation, draft, refusals)


def _draft(question: Question, entry: DraftEntry) -> ModelShape | None:
    """The draft's shape: its own where known, else that of a head for this target; None for lookups.

    Heads that the target was trained with are among its weights; their context is theirs.
    """
    if entry.method == "mtp":
        return replace(
            question.target, name="its own head", parameters=0.0, stored_bytes=None,
            layers=max(question.target.own_heads, 1) if question.target.layers is not None else None,
        )  # fmt: skip
    if entry.model is None:
        return None
    known = question.shape_of(entry.model)
    if known is None and entry.method in _EAGLES:
        known = question.target.eagle_head(is_third=entry.method == "eagle3")
    return known if known is not None else ModelShape(name=entry.model)


def _ratio(target: ModelShape, draft: ModelShape | None) -> float | None:
    ours, theirs = target.weight_bytes(), draft.weight_bytes() if draft is not None else None
    return theirs / ours if ours and theirs else None


def _steps(target: ModelShape, method: str) -> dict[str, int]:
    """Counts that the target's own heads take: up to their number, or multiples of it."""
    heads = target.own_heads if method == "mtp" else 0
    return {"least": heads, "step": heads} if heads > 1 else {}


def _compared(question: Question, entry: DraftEntry, draft: ModelShape) -> Comparison:
    assert entry.model is not None
    try:
        ours, theirs = question.tokens_of(question.target.name), question.tokens_of(entry.model)
    except ValueError as error:
        found = compare(question.target, draft)
        return replace(found, sentence=f"{found.sentence} ({error})")
    return compare(question.target, draft, ours, theirs)


def _may_translate(target: ModelShape, draft: ModelShape, version: Version) -> bool:
    """Whether the release maps between two vocabularies; equal sizes with other words it would not notice."""
    return target.vocabulary != draft.vocabulary and version in KEYS[_HETEROGENEOUS].accepted


def _memory(
    question: Question, entry: DraftEntry, draft: ModelShape | None, tokens: int
) -> tuple[Memory, str | None]:
    """The memory, and the quantization of a draft model that fits with it alone."""
    found = estimate(question.target, question.room, tokens, draft)
    if found.fit is Fit.DOES_NOT_FIT and entry.method == "draft_model" and draft is not None:
        if draft.precision is Precision.BF16:
            smaller = estimate(question.target, question.room, tokens, draft, Precision.EIGHT_BIT)
            if smaller.fit in (Fit.FITS, Fit.TIGHT):
                return smaller, _EIGHT_BIT
    return found, None


def _conditions(question: Question, quantization: str | None) -> Collection[Condition]:
    """What known issues may ask for, from the command line and the load."""
    found = set()
    words = [item.partition("=")[0].replace("_", "-") for item in question.argv]
    for flag, condition in (
        ("--enable-lora", Condition.LORA), ("--pipeline-parallel-size", Condition.PIPELINE_PARALLEL),
        ("-pp", Condition.PIPELINE_PARALLEL), ("--data-parallel-size", Condition.DATA_PARALLEL),
        ("-dp", Condition.DATA_PARALLEL),
    ):  # fmt: skip
        if flag in words:
            found.add(condition)
    if (question.room.prompt_tokens or 0.0) >= LONG_PROMPT_TOKENS:
        found.add(Condition.LONG_CONTEXT)
    if quantization:
        found.add(Condition.DRAFT_QUANTIZATION)
    return found


def _rendered(
    option: Option, question: Question, speculation: Speculation, draft: ModelShape | None, refusals: Sequence[str]
) -> Option:
    """The option with its command line; what the version cannot do is a refusal."""
    target = Target(
        tensor_parallel_size=question.room.tensor_parallel, n_predict=question.target.own_heads or None,
        vocab_size=question.target.vocabulary, draft_vocab_size=draft.vocabulary if draft is not None else None,
    )  # fmt: skip
    if option.method != "mtp":
        target = replace(target, n_predict=None)
    if option.vocabulary is not None and option.vocabulary.match is Match.DIFFERENT:
        # Said already, in better words.
        target = replace(target, vocab_size=None, draft_vocab_size=None)
    try:
        made = render(Engine.VLLM, question.version, question.argv, speculation, target)
    except LaunchError as error:
        return replace(option, refusals=(*refusals, str(error)))
    return replace(
        option, argv=made.argv, env=made.env, notes=(*option.notes, *made.warnings), refusals=tuple(refusals)
    )
