"""A launcher for tests: any base command, speculation as `--speculative-config JSON`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from monitor.drivers.protocol import Command
from monitor.errors import LaunchError
from monitor.launch import ParsedCommand, parse_command
from monitor.model.life import Setting
from monitor.model.server import Engine


@dataclass(frozen=True)
class FakeLauncher:
    """Renders `base` and then the speculation; refuses more tokens than `limit`."""

    base: tuple[str, ...]
    setting: Setting = field(default_factory=lambda: Setting(method="ngram", num_speculative_tokens=2))
    limit: int = 100
    secrets: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    engine_version: str | None = "0.32.0"

    @property
    def base_hash(self) -> str:
        return hashlib.sha256("\0".join(self.base).encode()).hexdigest()[:16]

    @property
    def base_setting(self) -> Setting:
        return self.setting

    @property
    def parsed(self) -> ParsedCommand:
        return parse_command(Engine.VLLM, self.base)

    @property
    def environ(self) -> dict[str, str]:
        return self.env

    def version(self) -> str | None:
        return self.engine_version

    def render(self, setting: Setting) -> Command:
        tokens = setting.num_speculative_tokens
        if tokens is None or tokens > self.limit:
            raise LaunchError(f"this engine takes at most {self.limit} tokens, not {tokens}")
        config = {"method": setting.method, "num_speculative_tokens": tokens}
        extra = ("--speculative-config", json.dumps(config)) if tokens else ()
        return Command(argv=(*self.base, *extra), env=self.env)

    def diff(self, old: Setting, new: Setting) -> tuple[str, ...]:
        before, after = (" ".join(self.render(s).argv[len(self.base) :]) for s in (old, new))
        return () if before == after else (f"- {before}", f"+ {after}")

    def redact(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "<secret>")
        return text
