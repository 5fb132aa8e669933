"""From the operator's command line and a setting to the command that is started. It starts nothing.

A setting carries values only (method, count, schedule). Every argument and path comes from the command of the operator
on this host, of which nothing but the speculation flags is ever changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from monitor.drivers.protocol import Command
from monitor.errors import LaunchError
from monitor.launch import ParsedCommand, Target, diff_command, parse_command, redact, redact_text, render
from monitor.model.life import Setting
from monitor.model.server import Engine

_HIDDEN = "<secret>"
#: Shorter values are words of the language; hiding them would blacken every text.
_LEAST_SECRET = 6


class CommandLauncher:
    """Renders one server's command for its engine's version.

    `version` is asked only where a command other than the operator's own must be written.
    """

    def __init__(
        self,
        engine: Engine,
        argv: Sequence[str],
        *,
        version: Callable[[], str | None],
        environ: Mapping[str, str] | None = None,
        target: Callable[[ParsedCommand], Target] | None = None,
    ) -> None:
        """`environ` is what the operator adds for the server; it counts as part of the base command.

        `target` looks at the models of the command; it is asked once, where a command must be written.
        """
        self._look = target
        self._target: Target | None = None
        self._engine = engine
        self._argv = tuple(argv)
        self._environ = dict(environ or {})
        self._version = version
        self._parsed = parse_command(engine, self._argv)
        parts = [engine.value, *self._argv, *(f"{name}={value}" for name, value in sorted(self._environ.items()))]
        self._hash = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        self._setting = self._parsed.speculation.setting if self._parsed.speculation else Setting(
            num_speculative_tokens=0
        )

    @property
    def base_hash(self) -> str:
        """Hash of the operator's command and environment."""
        return self._hash

    @property
    def base_setting(self) -> Setting:
        """The speculation setting that the operator wrote; off where the command asks for none."""
        return self._setting

    @property
    def parsed(self) -> ParsedCommand:
        """What the operator's command says."""
        return self._parsed

    @property
    def environ(self) -> Mapping[str, str]:
        """What the operator adds to the server's environment."""
        return dict(self._environ)

    def version(self) -> str | None:
        """The engine's version as configured, else as the server says."""
        return self._version()

    def render(self, setting: Setting) -> Command:
        """The command for `setting`; the operator's own, to the letter, where that is what it says.

        Raises LaunchError where the version is not known or cannot do it, or where the command cannot be read for sure.
        """
        if setting == self._setting:
            return Command(self._argv, dict(self._environ))
        if self._parsed.part_of is not None:
            raise LaunchError(f"the server is {self._parsed.part_of}: it is watched, not changed")
        if self._parsed.problems:
            raise LaunchError(f"the command line cannot be changed safely: {'; '.join(self._parsed.problems)}")
        base = self._parsed.speculation
        if setting.is_off:
            speculation = None
        elif base is None:
            raise LaunchError(
                "the configured command has no speculation: its method and draft are not known here, so it cannot be"
                " switched on"
            )
        else:
            speculation = base.with_setting(replace(setting, method=setting.method or self._setting.method))
        version = self._version()
        if version is None:
            raise LaunchError("the engine's version is not known: set driver.engine_version")
        rendered = render(self._engine, version, self._argv, speculation, self._models())
        return Command(rendered.argv, {**self._environ, **rendered.env}, rendered.warnings)

    def _models(self) -> Target:
        if self._target is None:
            self._target = self._look(self._parsed) if self._look is not None else Target(environment=self._environ)
        return self._target

    def diff(self, old: Setting, new: Setting) -> tuple[str, ...]:
        """Lines of the command that change from `old` to `new`, secrets hidden."""
        return tuple(diff_command(self.render(old).argv, self.render(new).argv))

    def redact(self, text: str) -> str:
        """`text` without secrets: those of known shape, and the values that this command line itself carries."""
        hidden = redact_text(text)
        for value in self._secrets():
            hidden = hidden.replace(value, _HIDDEN)
        return hidden

    def _secrets(self) -> list[str]:
        """Values that stand on the command line or in its environment where a secret does, longest first."""
        line = [*self._argv, *(f"{name}={value}" for name, value in self._environ.items())]
        found = set()
        for item, shown in zip(line, redact(line), strict=True):
            if item != shown:
                # `--api-key=x` is shown as `--api-key=<secret>`: what the two have in common is no secret.
                kept = shown.partition(_HIDDEN)[0]
                found.add(item.removeprefix(kept))
        return sorted((value for value in found if len(value) >= _LEAST_SECRET), key=len, reverse=True)
