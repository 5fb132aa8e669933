"""Targets and drafts of servers of this host: whether they speak the same tokens, from their files on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from monitor.advise.shapes import shape_of_config
from monitor.advise.vocabulary import Match, compare, tokens_of
from monitor.doctor.finding import Area, Finding, Subject
from monitor.targets.local import LocalServer
from monitor.targets.model_files import ModelFiles, find_model

#: Methods whose draft is a model of its own, with its own tokenizer; heads share the target's.
_OWN_TOKENIZER = frozenset({"draft_model"})


def check_pair(name: str, server: LocalServer) -> Iterator[Finding]:
    """Compare the vocabularies of one server's target and draft; nothing where either is not on this host."""
    of = Subject(Area.SERVERS, name)
    setting = server.setting
    target, draft = server.command.model, setting.draft_model
    if target is None or draft is None or setting.method not in _OWN_TOKENIZER:
        return
    try:
        ours, theirs = find_model(target), find_model(draft)
        if ours is None or theirs is None:
            return
        found = compare(
            shape_of_config(target, ours.config, ours.stored_bytes),
            shape_of_config(draft, theirs.config, theirs.stored_bytes), _tokens(ours), _tokens(theirs),
        )  # fmt: skip
    except (ValueError, OSError) as error:
        yield of.note(f"target and draft not compared: {error}")
        return
    if found.match is Match.DIFFERENT:
        yield of.problem(f"{target} and its draft {draft}: {found.sentence}",
                         "a draft must share the target's tokenizer: `acceptd advise` knows pairs, n-gram needs none")
    elif found.match is not Match.UNKNOWN:
        yield of.ok(f"target and draft: {found.sentence}")


def _tokens(files: ModelFiles) -> Mapping[str, int] | None:
    return tokens_of(files.tokenizer.read_bytes(), str(files.tokenizer)) if files.tokenizer is not None else None
