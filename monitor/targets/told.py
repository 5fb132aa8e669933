"""What a server tells of itself when asked: version and setting from `/version`, `/server_info` and `/props`.

vLLM has `/server_info` in development mode only (0.8.5 and newer: text; JSON where it knows `config_format`), SGLang
always, with its resolved arguments. llama-server's `/props` names the build; its `speculative.types` are those of a
default request and say `none` whatever the server does (seen on b11434), but `/slots` says whether a slot speculates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from monitor.errors import LaunchError, ScrapeError
from monitor.launch import Speculation, parse_command, redact_text
from monitor.model.life import Said, Setting, SettingSource
from monitor.model.server import Engine
from monitor.targets.saying import said_by, without_filled_model

Get = Callable[[str], object]

_SOURCE = SettingSource.SERVER_INFO
#: `speculative_config=None` or `SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3)` in vLLM's text.
_TEXT = re.compile(r"\bspeculative_config=(?:None\b|SpeculativeConfig\((?P<fields>[^)]*)\))")
_FIELD = re.compile(r"(\w+)=(?:'([^']*)'|(\d+)\b)")
_BUILD = re.compile(r"\bb?(\d{3,6})(?:-|$)")
#: Keys of SGLang's answer that are speculation flags.
_SGLANG = "speculative_"


@dataclass(frozen=True, slots=True)
class Told:
    """What a server told; `is_whole` is False where a question got no answer, so that asking again may help."""

    version: str | None = None
    said: Said | None = None
    is_whole: bool = True


def ask_server(engine: Engine, get: Get) -> Told:
    """Ask a server of that engine what it is.

    `get` gives the JSON at a path, None where the server has none there; it raises ScrapeError where no answer came.
    """
    ask = {Engine.VLLM: _ask_vllm, Engine.SGLANG: _ask_sglang, Engine.LLAMACPP: _ask_llamacpp}.get(engine)
    return ask(get) if ask is not None else Told()


def _ask_vllm(get: Get) -> Told:
    answers, is_whole = _ask(get, "/version", "/server_info?config_format=json")
    version = _text(answers[0], "version")
    return Told(version, read_vllm(answers[1]), is_whole)


def _ask_sglang(get: Get) -> Told:
    answers, is_whole = _ask(get, "/server_info")
    if is_whole and answers[0] is None:
        answers, is_whole = _ask(get, "/get_server_info")
    return Told(_text(answers[0], "version"), read_sglang(answers[0]), is_whole)


def _ask_llamacpp(get: Get) -> Told:
    answers, is_whole = _ask(get, "/props", "/slots")
    build = _BUILD.search(_text(answers[0], "build_info") or "")
    return Told(f"b{build[1]}" if build else None, read_slots(answers[1]), is_whole)


def _ask(get: Get, *paths: str) -> tuple[list[object], bool]:
    answers: list[object] = []
    is_whole = True
    for path in paths:
        try:
            answers.append(get(path))
        except ScrapeError:
            answers.append(None)
            is_whole = False
    return answers, is_whole


def read_vllm(answer: object) -> Said | None:
    """The setting in vLLM's `/server_info`, as JSON or as text; None where there is none to see."""
    config = answer.get("vllm_config") if isinstance(answer, Mapping) else None
    if isinstance(config, str):
        return _read_vllm_text(config)
    if not isinstance(config, Mapping) or "speculative_config" not in config:
        return None
    given = config["speculative_config"]
    return _said(given if isinstance(given, Mapping) else None)


def _read_vllm_text(text: str) -> Said | None:
    match = _TEXT.search(text)
    if match is None:
        return None
    if match["fields"] is None:
        return _said(None)
    fields = {name: text or (int(number) if number else None) for name, text, number in _FIELD.findall(match["fields"])}
    method, model = fields.get("method"), fields.get("model", fields.get("draft_model"))
    return _said({"method": method, "model": model, "num_speculative_tokens": fields.get("num_spec_tokens")})


#: What is read of vLLM's `speculative_config`; the rest (whole model configurations) is left alone.
_VLLM_KEYS = (
    "method",
    "model",
    "num_speculative_tokens",
    "num_speculative_tokens_per_batch_size",
    "enable_adaptive_verification",
)


def _said(given: Mapping[str, object] | None) -> Said:
    if given is None:
        return said_by(_SOURCE, None)
    try:
        speculation = Speculation.from_json({key: given.get(key) for key in _VLLM_KEYS})
    except LaunchError as error:
        return Said(source=_SOURCE, note=f"/server_info cannot be read: {redact_text(str(error))}")
    said = said_by(_SOURCE, speculation)
    return Said(source=_SOURCE, setting=without_filled_model(said.setting), adapts=said.adapts)


def read_sglang(answer: object) -> Said | None:
    """The setting in SGLang's `/server_info`: its arguments are read as the flags that they are."""
    if not isinstance(answer, Mapping) or "speculative_algorithm" not in answer:
        return None
    argv: list[str] = []
    for key, value in answer.items():
        if not str(key).startswith(_SGLANG) or value is None or value is False:
            continue
        flag = f"--{str(key).replace('_', '-')}"
        argv += [flag] if value is True else [flag, str(value)]
    speculation = parse_command(Engine.SGLANG, argv).speculation if answer["speculative_algorithm"] else None
    said = said_by(_SOURCE, speculation)
    if answer["speculative_algorithm"] and speculation is None:
        return Said(source=_SOURCE, setting=Setting(), note="/server_info: its speculation arguments cannot be read")
    return Said(source=_SOURCE, setting=without_filled_model(said.setting), adapts=said.adapts)


def read_slots(answer: object) -> Said | None:
    """Off where no slot of llama-server's `/slots` speculates; None where one does, since it does not say how."""
    slots = answer if isinstance(answer, list) else []
    speculates = [slot.get("speculative") for slot in slots if isinstance(slot, Mapping)]
    return said_by(_SOURCE, None) if speculates and all(one is False for one in speculates) else None


def _text(answer: object, key: str) -> str | None:
    value = answer.get(key) if isinstance(answer, Mapping) else None
    return value if isinstance(value, str) and value else None
