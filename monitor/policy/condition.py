"""Conditions of rules: CEL over signals, checked when loaded, three-valued when evaluated. It owns no files.

Language: https://github.com/google/cel-spec. Numbers are doubles, so literals in arithmetic need a point (`2.0`).
A signal without value is not bound at all: CEL then cannot decide what rests on it (`a || b` with `a` true is still
true), which is how "no data" is told from false. `known(SIGNAL)` asks whether a signal has a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from monitor.model.outcome import Truth
from monitor.model.signal import NoData, SignalSet
from monitor.policy import language
from monitor.policy.condition_check import EVALUATION_ERRORS, VECTOR, Mistake, first_sentence, position, trial

#: Functions a condition may call besides operators and macros; anything with a clock or a text has no use here.
FUNCTIONS = ("double", "int", "size")
MACROS = ("all", "exists", "exists_one", "filter", "map")

_KNOWN = re.compile(r"(?<![\w.])known\(\s*([A-Za-z_]\w*)\s*\)")
_BOUND_BY_MACRO = re.compile(rf"\.(?:{'|'.join(MACROS)})\(\s*([A-Za-z_]\w*)\s*,")
_QUOTE_OR_COMMENT = re.compile(r"""\"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*""")
_SYNTAX = re.compile(r"<input>:(\d+):(\d+): (.*)")


class BadCondition(ValueError):
    """A condition that cannot be used; `mistakes` lists all that were found."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(f"{m.found}: expected {m.expected}" for m in mistakes))


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A compiled condition and the signals that it names, in alphabetical order."""

    source: str
    scalars: tuple[str, ...]
    vectors: tuple[str, ...]
    known: tuple[str, ...]
    _program: language.Program = field(repr=False)
    #: Every signal it names.
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(dict.fromkeys((*self.scalars, *self.vectors, *self.known))))

    def evaluate(self, signals: SignalSet) -> tuple[Truth, str]:
        """Truth of the condition over `signals`, and in words why there is no data.

        Where CEL cannot decide because speculation is off, the condition is false: it is known not to apply.
        """
        bindings, missing = self._bind(signals)
        try:
            if self._program.execute(bindings):
                return Truth.TRUE, ""
            return Truth.FALSE, ""
        except EVALUATION_ERRORS as error:
            reasons = [absence(signals, name) for name in missing]
            if NoData.SPECULATION_OFF in reasons:
                return Truth.FALSE, ""
            if missing:
                pairs = zip(missing, reasons, strict=True)
                return Truth.NO_DATA, ", ".join(f"{name}: {reason or NoData.NOT_KNOWN}" for name, reason in pairs)
            return Truth.NO_DATA, f"cannot be decided on these numbers: {first_sentence(str(error))}"

    def _bind(self, signals: SignalSet) -> tuple[dict[str, object], list[str]]:
        bindings: dict[str, object] = {}
        missing: list[str] = []
        scalars = signals.scalars
        for name in self.scalars:
            signal = scalars.get(name)
            if signal is None or signal.value is None or signal.value != signal.value:
                missing.append(name)
            else:
                bindings[name] = float(signal.value)
        for name in self.vectors:
            values = known_positions(signals, name)
            if values:
                bindings[name] = values
            else:
                missing.append(name)
        for name in self.known:
            bindings[f"known_{name}_"] = signals.value(name) is not None or bool(known_positions(signals, name))
        return bindings, missing


def known_positions(signals: SignalSet, name: str) -> list[float]:
    """Values of the vector `name` up to the first unknown position; empty where there are none."""
    vector = signals.vectors.get(name)
    values: list[float] = []
    for value in vector.values if vector else ():
        if value is None or value != value:
            break
        values.append(float(value))
    return values


def absence(signals: SignalSet, name: str) -> NoData | None:
    """Why the signal `name` has no value; None where it has one."""
    signal = signals.scalars.get(name) or signals.vectors.get(name)
    return signal.reason if signal else NoData.NOT_KNOWN


def compile_condition(source: str, vocabulary: Mapping[str, str]) -> Condition:
    """The condition in `source` over the signals of `vocabulary` (name to kind, `scalar` or `vector`).

    Raises BadCondition where the syntax is wrong, a name is not in the vocabulary, a function does not exist, or a
    trial evaluation of the whole and of each of its parts does not give true or false.
    """
    text = _QUOTE_OR_COMMENT.sub(lambda m: " " * len(m[0]) if m[0].startswith("//") else m[0], source)
    text = _KNOWN.sub(lambda match: f"known_{match[1]}_".ljust(len(match[0])), text)
    try:
        program = language.compile(text)
    except ValueError as error:
        raise BadCondition([_syntax_mistake(str(error))]) from None
    asked = tuple(sorted(set(_KNOWN.findall(source))))
    flags = {f"known_{name}_" for name in asked}
    locals_ = set(_BOUND_BY_MACRO.findall(text))
    used = [name for name in program.variables() if name not in locals_ and name not in flags]
    mistakes = [_unknown(source, name, vocabulary) for name in (*used, *asked) if name not in vocabulary]
    mistakes += [
        Mistake(f"`{name}` as a local name", "a local name that is no signal", *_place(source, name))
        for name in sorted(locals_ & set(vocabulary))
    ]
    mistakes += [
        Mistake(f"the function `{name}`", f"one of {', '.join((*FUNCTIONS, 'known', *MACROS))}", *_place(source, name))
        for name in program.functions() if name[0].isalpha() and name not in FUNCTIONS
    ]
    if not mistakes:
        mistakes = list(trial(text, used, flags, vocabulary))
    if mistakes:
        raise BadCondition(mistakes)
    scalars = tuple(name for name in used if vocabulary[name] != VECTOR)
    vectors = tuple(name for name in used if vocabulary[name] == VECTOR)
    return Condition(source, scalars, vectors, asked, program)


def _syntax_mistake(message: str) -> Mistake:
    match = _SYNTAX.search(message)
    if not match:
        return Mistake(first_sentence(message), "a CEL condition such as `acceptance_rate > 0.70`")
    line, column, what = match.groups()
    what = what.split(" expecting ")[0][:160]
    return Mistake(what, "a CEL condition such as `acceptance_rate > 0.70`", int(line), int(column))


def _unknown(source: str, name: str, vocabulary: Mapping[str, str]) -> Mistake:
    return Mistake(f"the name `{name}`", signal_expected(name, vocabulary), *_place(source, name))


def signal_expected(name: str, vocabulary: Mapping[str, str]) -> str:
    """What is allowed where the unknown `name` stands: the signals spelled most alike."""
    near = get_close_matches(name, vocabulary, n=4, cutoff=0.5)
    return f"a signal, such as {', '.join(near)}" if near else "a signal (docs/rules.md lists them)"


def _place(source: str, name: str) -> tuple[int, int]:
    match = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", source)
    return position(source, match.start() if match else 0)
