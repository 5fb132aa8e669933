"""The command line of a simulated server: vLLM's real flags, and `--sim-…` for what is simulated."""

from __future__ import annotations

import argparse
import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from monitor.errors import ConfigError, LaunchError
from monitor.simulator.engine import Limits
from monitor.simulator.faults import Fault, parse_fault
from monitor.simulator.load import Load, parse_load
from monitor.simulator.speculation import Speculation, parse_speculation
from monitor.simulator.tables import Family, find_family
from monitor.simulator.vllm_flags import IGNORED_SWITCHES, IGNORED_WITH_VALUE

#: Correlation of two drafts of one request: at 50 drafts a request a design effect of 2 (short prompts show 2 to 7).
_DEFAULT_CORRELATION = 0.03
#: Share of steps that find an n-gram match (live servers: 0.2 to 0.8).
_LOOKUP_COVERAGE = 0.5
_SIZES = Limits()
DEFAULT_MODEL = "sim-llama-8b"
_LOOKUP_METHODS = ("ngram", "ngram_gpu", "suffix")
_DEFAULT_TABLE = "gsm8k-eagle3"
_DEFAULT_TABLES = {**dict.fromkeys(_LOOKUP_METHODS, "sharegpt-ngram"), "mtp": "qwen35-mtp"}


@dataclass(frozen=True, slots=True)
class SimOptions:
    """Everything one simulated server is started with; times are seconds of simulated time unless named otherwise."""

    port: int
    host: str = "127.0.0.1"
    model: str = DEFAULT_MODEL
    served_names: tuple[str, ...] = ()
    api_key: str | None = field(default=None, repr=False)
    speculation: Speculation | None = None
    family: Family = field(default_factory=lambda: find_family(_DEFAULT_TABLE))
    load: Load = field(default_factory=Load)
    limits: Limits = field(default_factory=Limits)
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    speed: float = 1.0
    correlation: float = _DEFAULT_CORRELATION
    coverage: float = 1.0
    #: Wall seconds from the start of the process until it listens.
    start_seconds: float = 1.0
    #: Wall seconds from SIGTERM to the exit, once nothing is in flight.
    stop_seconds: float = 0.2
    #: Wall seconds that SIGTERM leaves requests in flight to finish; 0 aborts them, as in vLLM.
    shutdown_timeout: float = 0.0
    log_stats: bool = True
    ignored: tuple[str, ...] = ()

    @property
    def model_name(self) -> str:
        """The name in labels and answers."""
        return self.served_names[0] if self.served_names else self.model

    @property
    def num_speculative_tokens(self) -> int:
        """Configured draft length; 0 = speculation off."""
        return self.speculation.num_speculative_tokens if self.speculation else 0


def parse_options(argv: Sequence[str], env: Mapping[str, str] | None = None) -> SimOptions:
    """Read a command line as `vllm serve` would be given it; `env` may hold VLLM_API_KEY.

    Raises:
        SystemExit: status 2 with a usage message on stderr: an unknown flag or a malformed value.
        LaunchError: a speculative configuration that vLLM 0.32 refuses while it starts.
    """
    parser = _parser()
    words = list(argv[1:] if argv[:1] == ["serve"] else argv)
    given = parser.parse_args(words)
    try:
        speculation = _speculation(given)
        coverage = given.sim_coverage
        if coverage is None:
            coverage = _LOOKUP_COVERAGE if speculation and speculation.method in _LOOKUP_METHODS else 1.0
        table = given.sim_table or _DEFAULT_TABLES.get(speculation.method if speculation else "", _DEFAULT_TABLE)
        return SimOptions(
            port=given.port,
            host=given.host if _is_loopback(given.host) else "127.0.0.1",
            model=given.model or given.model_tag or DEFAULT_MODEL,
            served_names=tuple(given.served_model_name or ()),
            api_key=given.api_key or (env or {}).get("VLLM_API_KEY") or None,
            speculation=speculation,
            family=find_family(table),
            load=parse_load(given.sim_load),
            limits=Limits(
                max_num_seqs=given.max_num_seqs,
                max_model_len=given.max_model_len,
                kv_tokens=given.sim_kv_tokens,
                step_noise=given.sim_step_noise,
            ),
            faults=tuple(parse_fault(text) for text in given.sim_fault),
            seed=given.sim_seed,
            speed=given.sim_speed,
            correlation=given.sim_correlation,
            coverage=coverage,
            start_seconds=given.sim_start_seconds,
            stop_seconds=given.sim_stop_seconds,
            shutdown_timeout=given.shutdown_timeout,
            log_stats=not given.disable_log_stats,
            ignored=_ignored(given),
        )
    except ConfigError as error:
        parser.error(str(error))


def _speculation(given: argparse.Namespace) -> Speculation | None:
    short = {"method": given.spec_method, "model": given.spec_model, "num_speculative_tokens": given.spec_tokens}
    short = {key: value for key, value in short.items() if value is not None}
    if short and given.speculative_config:
        raise LaunchError("--speculative-config and --spec-… are mutually exclusive")
    if short:
        model = short.get("model")
        return parse_speculation(_json({**short, "model": model}))
    return parse_speculation(given.speculative_config) if given.speculative_config else None


def _json(values: Mapping[str, object]) -> str:
    return json.dumps({key: value for key, value in values.items() if value is not None})


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _ignored(given: argparse.Namespace) -> tuple[str, ...]:
    names = [flags.split()[0] for flags in (*IGNORED_WITH_VALUE, *IGNORED_SWITCHES)]
    ignored = [name for name in names if getattr(given, name[2:].replace("-", "_")) not in (None, False)]
    if not _is_loopback(given.host):
        ignored.append(f"--host {given.host} (only the loopback is served)")
    return tuple(ignored)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m monitor.simulator",
        description="SIMULATED vLLM server: real flags, real metrics page, no model and no GPU.",
        allow_abbrev=False,
    )
    real = parser.add_argument_group("flags of vLLM that are followed")
    real.add_argument("model_tag", nargs="?", help="model name (also --model)")
    real.add_argument("--model")
    real.add_argument("--host", default="127.0.0.1", help="only loopback addresses are served")
    real.add_argument("--port", type=int, default=8000)
    real.add_argument("--served-model-name", nargs="+")
    real.add_argument("--speculative-config", "-sc", metavar="JSON")
    real.add_argument("--spec-method")
    real.add_argument("--spec-model")
    real.add_argument("--spec-tokens", type=int)
    real.add_argument("--max-num-seqs", type=_at_least(1, int), default=256)
    real.add_argument("--max-model-len", type=_at_least(16, int), default=1024)
    real.add_argument("--shutdown-timeout", type=_at_least(0, float), default=0.0)
    real.add_argument("--api-key")
    real.add_argument("--disable-log-stats", action="store_true", help="no vllm: series, as in vLLM")
    simulated = parser.add_argument_group("what is simulated")
    simulated.add_argument("--sim-table", help="shipped family or table file (default: by method)")
    simulated.add_argument("--sim-load", default="none", help="none, closed:clients=N,… or open:rate=R,…")
    simulated.add_argument("--sim-fault", action="append", default=[], metavar="KIND[=VALUE][@SECONDS]")
    simulated.add_argument("--sim-seed", type=_at_least(0, int), default=0)
    simulated.add_argument("--sim-speed", type=_above_zero, default=1.0, help="simulated seconds a wall second")
    simulated.add_argument("--sim-start-seconds", type=_at_least(0, float), default=1.0)
    simulated.add_argument("--sim-stop-seconds", type=_at_least(0, float), default=0.2)
    simulated.add_argument("--sim-correlation", type=_share, default=_DEFAULT_CORRELATION)
    simulated.add_argument("--sim-coverage", type=_share_or_one, help="share of steps that have a draft")
    simulated.add_argument("--sim-kv-tokens", type=_at_least(64, int), default=_SIZES.kv_tokens)
    simulated.add_argument("--sim-step-noise", type=_share, default=_SIZES.step_noise)
    ignored = parser.add_argument_group("flags of vLLM that are accepted and ignored")
    for flags in IGNORED_WITH_VALUE:
        ignored.add_argument(*flags.split(), help=argparse.SUPPRESS)
    for flag in IGNORED_SWITCHES:
        ignored.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    return parser


def _at_least(low: float, kind: type[int] | type[float]):  # type: ignore[no-untyped-def]
    def read(text: str) -> float:
        value = kind(text)
        if not low <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"found {text}, expected at least {low}")
        return value

    return read


def _above_zero(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text}, expected a number above 0")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 0.95:
        raise argparse.ArgumentTypeError(f"found {text}, expected 0 to 0.95")
    return value


def _share_or_one(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"found {text}, expected above 0, at most 1")
    return value
