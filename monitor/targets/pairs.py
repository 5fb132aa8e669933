"""What the files of a target and its draft on this host say of their fit: vocabularies and prediction heads."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.launch import ParsedCommand, Target
from monitor.targets.model_files import count_in, find_readable

#: How configurations name the tokens that a head predicts at once (MLP speculators and MTP; DeepSeek, GLM, Qwen).
_HEADS = ("n_predict", "num_nextn_predict_layers", "mtp_num_hidden_layers")


def target_of(command: ParsedCommand, environ: Mapping[str, str]) -> Target:
    """What can be known of the models of a command line; None for what no file here says.

    `environ` is the server's environment: it says where models are kept. Files that cannot be read say nothing.
    """
    speculation = command.speculation
    target = _config(command.model, environ)
    draft = _config(speculation.model, environ) if speculation is not None else {}
    # Without a draft of its own the heads are the target's.
    own = draft if speculation is not None and speculation.model is not None else target
    return Target(
        n_predict=next((count for name in _HEADS if (count := count_in(own, name))), None),
        vocab_size=count_in(target, "vocab_size"),
        draft_vocab_size=count_in(draft, "vocab_size"),
        environment=dict(environ),
    )


def _config(name: str | None, environ: Mapping[str, str]) -> Mapping[str, object]:
    files = find_readable(name, environ)
    return files.text_config if files is not None else {}
