"""llama-server's command-line flags as data. Source: `common/arg.cpp` of builds b9093, b9297, b10204 and b11434."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from monitor.launch.argv import Flag, Habits, Kind, Takes
from monitor.launch.versions import Span

OLDEST: Final = "b9093"
NEWEST: Final = "b11434"

#: No `--flag=value`, no beginnings; underscores count as dashes; a flag takes the next item whatever it is.
HABITS: Final = Habits(equals=False, underscores=True, beginnings=False, dotted=False, greedy=True)

TYPE: Final = "spec_type"
MODEL: Final = "spec_draft_model"
MODEL_REPO: Final = "spec_draft_hf"
DRAFT_COUNT: Final = "spec_draft_n_max"
MOD_LEAST: Final = "spec_ngram_mod_n_min"
DEFAULT: Final = "spec_default"


def _flag(*names: str, kind: Kind = Kind.TEXT, takes: Takes = Takes.VALUE, span: Span | None = None) -> Flag:
    key = next(name for name in names if name.startswith("--")).removeprefix("--").replace("-", "_")
    return Flag(names, key, kind, takes, span or Span())


_WHOLE = Kind.WHOLE
_NGRAM_COUNTS = ("n_min", "n_max", "n_match")
_NGRAM_KINDS = ("simple", "map-k", "map-k4v")

#: Flags of the draft and of the n-gram kinds, by their long name with underscores.
SPECULATION_FLAGS: Final = (
    _flag("--spec-type"),
    # The short form is what people know; both spellings exist in every build read.
    Flag(("-md", "--spec-draft-model", "--model-draft"), MODEL),
    _flag("--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft"),
    _flag("--spec-draft-n-max", kind=_WHOLE),
    _flag("--spec-draft-n-min", kind=_WHOLE),
    _flag("--spec-draft-p-split", "--draft-p-split", kind=Kind.NUMBER),
    _flag("--spec-draft-p-min", "--draft-p-min", kind=Kind.NUMBER),
    _flag("--spec-draft-ngl", "-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft"),
    _flag("--spec-draft-device", "-devd", "--device-draft"),
    _flag("--spec-draft-ctx-size", "-cd", "--ctx-size-draft", kind=_WHOLE, span=Span("b9093", "b9296")),
    _flag("--spec-draft-replace", "--spec-replace", takes=Takes.PAIR, span=Span("b9093", "b9296")),
    _flag(
        "--spec-draft-backend-sampling",
        "--no-spec-draft-backend-sampling",
        kind=Kind.TRUTH,
        takes=Takes.SWITCH,
        span=Span("b9094"),
    ),
    _flag("--spec-draft-sampling", span=Span("b10205")),
    _flag("--spec-synth-len", kind=Kind.NUMBER, span=Span("b10205")),
    _flag("--spec-synth-rates", span=Span("b10205")),
    _flag("--spec-draft-threads", "-td", "--threads-draft", kind=_WHOLE),
    _flag("--spec-draft-threads-batch", "-tbd", "--threads-batch-draft", kind=_WHOLE),
    _flag("--spec-draft-cpu-mask", "-Cd", "--cpu-mask-draft"),
    _flag("--spec-draft-cpu-range", "-Crd", "--cpu-range-draft"),
    _flag("--spec-draft-cpu-strict", "--cpu-strict-draft"),
    _flag("--spec-draft-prio", "--prio-draft", kind=_WHOLE),
    _flag("--spec-draft-poll", "--poll-draft"),
    _flag("--spec-draft-cpu-mask-batch", "-Cbd", "--cpu-mask-batch-draft"),
    _flag("--spec-draft-cpu-range-batch", "-Crbd", "--cpu-range-batch-draft"),
    _flag("--spec-draft-cpu-strict-batch", "--cpu-strict-batch-draft"),
    _flag("--spec-draft-prio-batch", "--prio-batch-draft", kind=_WHOLE),
    _flag("--spec-draft-poll-batch", "--poll-batch-draft"),
    _flag("--spec-draft-type-k", "-ctkd", "--cache-type-k-draft"),
    _flag("--spec-draft-type-v", "-ctvd", "--cache-type-v-draft"),
    _flag("--spec-draft-override-tensor", "-otd", "--override-tensor-draft"),
    _flag("--spec-draft-cpu-moe", "-cmoed", "--cpu-moe-draft", kind=Kind.TRUTH, takes=Takes.SWITCH),
    _flag("--spec-draft-n-cpu-moe", "--spec-draft-ncmoe", "-ncmoed", "--n-cpu-moe-draft", kind=_WHOLE),
    *(_flag(f"--spec-ngram-mod-{part.replace('_', '-')}", kind=_WHOLE) for part in _NGRAM_COUNTS),
    *(
        _flag(f"--spec-ngram-{kind}-{part}", kind=_WHOLE)
        for kind in _NGRAM_KINDS
        for part in ("size-n", "size-m", "min-hits")
    ),
    _flag("--spec-default", kind=Kind.TRUTH, takes=Takes.SWITCH),
)

#: Parsed and then refused ("the argument has been removed") in every build read: the server does not start.
REMOVED_FLAGS: Final = (
    Flag(("--draft-max", "--draft", "--draft-n"), DRAFT_COUNT, _WHOLE),
    Flag(("--draft-min", "--draft-n-min"), "spec_draft_n_min", _WHOLE),
    Flag(("--spec-ngram-size-n",), "spec_ngram_size_n", _WHOLE),
    Flag(("--spec-ngram-size-m",), "spec_ngram_size_m", _WHOLE),
    Flag(("--spec-ngram-min-hits",), "spec_ngram_min_hits", _WHOLE),
)

OTHER_FLAGS: Final = tuple(
    Flag(names, key, kind, takes, is_speculation=False)
    for names, key, kind, takes in (
        (("-m", "--model"), "model", Kind.TEXT, Takes.VALUE),
        (("-hf", "-hfr", "--hf-repo"), "hf_repo", Kind.TEXT, Takes.VALUE),
        (("-a", "--alias"), "served_model_name", Kind.TEXT, Takes.VALUE),
        (("--host",), "host", Kind.TEXT, Takes.VALUE),
        (("--port",), "port", Kind.WHOLE, Takes.VALUE),
        (("-np", "--parallel"), "max_num_seqs", Kind.WHOLE, Takes.VALUE),
        (("--metrics",), "enable_metrics", Kind.TRUTH, Takes.SWITCH),
    )
)

FLAGS: Final = SPECULATION_FLAGS + REMOVED_FLAGS + OTHER_FLAGS


@dataclass(frozen=True, slots=True)
class Type:
    """One value of `--spec-type`: our method, the flag of its count, and the builds that know it."""

    name: str
    method: str
    #: Key of the flag that limits the tokens of a draft; None where no flag does.
    count: str | None
    #: Key of the flag for the length looked up (n-gram kinds).
    lookup: str | None = None
    needs_model: bool = False
    #: The last build read without it, and the first read with it: between the two nothing is known.
    absent: str | None = None
    seen: str = OLDEST


TYPES: Final = (
    Type("draft-simple", "draft_model", DRAFT_COUNT, needs_model=True, absent="b9093", seen="b9297"),
    Type("draft-eagle3", "eagle3", DRAFT_COUNT, needs_model=True, absent="b9093", seen="b9297"),
    Type("draft-mtp", "mtp", DRAFT_COUNT, absent="b9093", seen="b9297"),
    Type("draft-dflash", "dflash", DRAFT_COUNT, needs_model=True, absent="b9297", seen="b10204"),
    Type("draft-dspark", "dspark", DRAFT_COUNT, needs_model=True, absent="b9297", seen="b10204"),
    Type("ngram-simple", "ngram", "spec_ngram_simple_size_m", "spec_ngram_simple_size_n"),
    Type("ngram-map-k", "ngram-map-k", "spec_ngram_map_k_size_m", "spec_ngram_map_k_size_n"),
    Type("ngram-map-k4v", "ngram-map-k4v", "spec_ngram_map_k4v_size_m", "spec_ngram_map_k4v_size_n"),
    Type("ngram-mod", "ngram-mod", "spec_ngram_mod_n_max", "spec_ngram_mod_n_match"),
    Type("ngram-cache", "ngram-cache", None),
)
#: `--spec-type` takes a comma list from here on; b9093 took one n-gram kind, and a draft model was simply used.
LISTS_TYPES: Final = Span("b9297")
#: Tokens of an n-gram draft (`--spec-ngram-*-size-m`, `-n-max`).
NGRAM_COUNT_LIMIT: Final = 1024
#: A draft of ngram-mod shorter than `--spec-ngram-mod-n-min` is thrown away; its default.
MOD_LEAST_DEFAULT: Final = 48
#: Tokens of an ngram-cache draft, built in.
CACHE_COUNT: Final = 8
#: What `--spec-default` stands for.
SPEC_DEFAULT: Final = {TYPE: "ngram-mod", "spec_ngram_mod_n_match": 24, MOD_LEAST: 48, "spec_ngram_mod_n_max": 64}
