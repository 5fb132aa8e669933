"""What a command line, or a server's own arguments, say of a setting, as one source among several."""

from __future__ import annotations

from monitor.launch import Speculation
from monitor.model.life import Said, Setting, SettingSource

#: Switches by which an engine moves num_speculative_tokens, or how many of them it verifies, by itself.
_ADAPTIVE = {
    "speculative_adaptive": "SGLang's adaptive mode (--speculative-adaptive)",
    "enable_adaptive_verification": "vLLM's adaptive verification (enable_adaptive_verification)",
}
#: Methods whose `model` the engine fills in itself: with the method's name, or with the target.
_WITHOUT_DRAFT_MODEL = frozenset({"ngram", "ngram_gpu", "suffix", "mtp", "extract_hidden_states", "custom_class"})


def said_by(source: SettingSource, speculation: Speculation | None) -> Said:
    """What `source` says if that is its speculation; None is off."""
    if speculation is None:
        return Said(source=source, setting=Setting(num_speculative_tokens=0))
    adapts = next((words for key, words in _ADAPTIVE.items() if speculation.extra.get(key) is True), None)
    return Said(source=source, setting=speculation.setting, adapts=adapts)


def without_filled_model(setting: Setting) -> Setting:
    """The setting without a draft model that is none: engines put a word or the target's name there."""
    if setting.method not in _WITHOUT_DRAFT_MODEL:
        return setting
    return Setting(
        method=setting.method, num_speculative_tokens=setting.num_speculative_tokens, schedule=setting.schedule
    )
