"""Commands that run the daemon: run, demo."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from monitor.cli.context import Context, demo_folder, find_config, state_folder
from monitor.cli.output import console
from monitor.cli.setting_up import look
from monitor.clock import SystemClock
from monitor.config.load import load
from monitor.config.model import Config
from monitor.config.running import is_running, read_running
from monitor.errors import ConfigError, FatalError, MonitorError, Problem
from monitor.simulator.demo import DEMO_SIZE, demo_servers
from monitor.targets.local import find_servers

if TYPE_CHECKING:
    from monitor.app.daemon import Daemon

_DEFAULT_LISTEN = "127.0.0.1:9747"
#: What a demo leaves in its folder, so that the next one finds servers of one that was killed.
_DEMO_FILE = "demo.json"


def run(
    ctx: typer.Context,
    no_demo: Annotated[bool, typer.Option("--no-demo", help="Fail rather than start the demo.")] = False,
) -> None:
    """Run the daemon: on your configuration, else on the servers of this host, else on a simulated fleet."""
    context: Context = ctx.obj
    path = find_config(context.config_path)
    if path is not None:
        _serve(lambda: _with_folder(load(path), context), path)
        return
    found = find_servers()
    if found:
        urls = [server.base_url for server in found]
        console.print(f"No configuration; watching the inference servers of this host: {', '.join(urls)}", markup=False)
        console.print("Nothing is restarted without one: `acceptd init` writes it.", markup=False)
        data = {
            "data_dir": str(context.data_dir or state_folder()),
            "mode": "recommend",
            "web": {"listen": _free_listen()},
            "servers": [{"name": one.name, "url": one.url} for one in look(urls)],
        }
        _serve(lambda: Config.model_validate(data), None)
        return
    if no_demo:
        raise ConfigError([Problem("configuration", "none, and no inference server on this host", "--config FILE")])
    console.print("No configuration (acceptd.yaml, /etc/acceptd/acceptd.yaml) and no inference server on this host.")
    demo(ctx)


def demo(ctx: typer.Context) -> None:
    """Run on a small simulated fleet: recommendation, restart, verdict and a fault within two minutes."""
    context: Context = ctx.obj
    folder = _demo_folder(context)
    data = demo_config(folder)
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    (folder / _DEMO_FILE).write_text(json.dumps(data))
    console.print("[bold white on red] SIMULATED [/] Starting a simulated fleet of "
                  f"{len(data['servers'])} servers: nothing below is real.")
    # Here and below: the help of all commands waits for no daemon.
    from monitor.app.run import Process

    config = Config.model_validate(data)
    process = Process(config, SystemClock(), reload=lambda: config, config_file=None, on_started=_say_demo)
    set_up_log(config, simulated=True)
    try:
        process.run()
    finally:
        # They belong to the demo; real servers would go on. An impatient second Ctrl-C must not leave them behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _stop_all(config)
        console.print("Demo stopped, simulated servers too.")


def _demo_folder(context: Context) -> Path:
    """The folder for this demo, empty unless one was given; a demo that runs already keeps its own."""
    given = context.data_dir
    if given is not None:
        if _is_of_a_real_daemon(given):
            found = f"{str(given)!r}, where acceptd watches real servers"
            raise ConfigError([Problem("--data-dir", found, "a folder of its own for the demo")])
        return given
    folder = demo_folder()
    if is_running(folder):
        return folder.with_name(f"{folder.name}-{os.getpid()}")
    _stop_what_was_left(folder)
    if folder.exists():
        shutil.rmtree(folder)
    return folder


def _is_of_a_real_daemon(folder: Path) -> bool:
    try:
        return not read_running(folder).simulated
    except MonitorError:
        return False


def _stop_what_was_left(folder: Path) -> None:
    """Stop the simulated servers of a demo that was killed: nobody else would."""
    try:
        config = Config.model_validate_json((folder / _DEMO_FILE).read_text())
    except (OSError, ValueError):
        return
    _stop_all(config)


def _stop_all(config: Config) -> None:
    from monitor.app.parts import stop_all

    stop_all(config, SystemClock())


def demo_config(folder: Path) -> dict[str, Any]:
    """The demo's configuration: short windows, so that two minutes show what takes hours in earnest."""
    servers = []
    for server in demo_servers(_free_ports(DEMO_SIZE)):
        port = server.argv[server.argv.index("--port") + 1]
        servers.append(
            {
                "name": server.name,
                "url": f"http://127.0.0.1:{port}",
                "driver": {"kind": "process", "command": server.argv, "env": server.env},
            }
        )
    limits = {
        "max_speculative_tokens": 8, "allow_downtime": True, "changes_per_day": 20, "cooldown": "20s",
        "drain_limit": "3s", "cut_after_drain": True, "stop_limit": "10s", "start_limit": "30s", "warmup": "3s",
        "observe": "45s", "restarts_per_day": 50,
    }
    return {
        "data_dir": str(folder),
        "simulated": True,
        "mode": "auto",
        "servers": servers,
        "groups": [{"name": server["name"], "limits": limits} for server in servers],
        "scrape": {"interval": "1s", "timeout": "1s"},
        "rules": {"tuning": "threshold", "interval": "2s", "baseline_window": "5s", "parameters": demo_parameters()},
        # Taken by another daemon or demo, even since: then the page is on a free port.
        "web": {"listen": _DEFAULT_LISTEN},
        "log": {"level": "warning"},
    }


def demo_parameters() -> dict[str, str]:
    """Times of the rules in the demo."""
    return {
        "raise-tokens.window": "15s", "raise-tokens.for": "6s", "lower-tokens.window": "15s", "lower-tokens.for": "6s",
        "AcceptanceCliff.window": "10s", "AcceptanceCliff.for": "3s",
    }


def _say_demo(daemon: Daemon) -> None:
    url = daemon.web.url if daemon.web is not None else ""
    console.print(f"Status page  {url}/", markup=False)
    console.print(f"Report       {url}/report", markup=False)
    console.print("In another terminal: acceptd status, acceptd why sim-chat, acceptd report --week", markup=False)
    console.print("Ctrl-C stops everything.", markup=False)


def _serve(read: Callable[[], Config], path: Path | None) -> None:
    from monitor.app.run import Process

    config = read()
    set_up_log(config, simulated=False)
    process = Process(config, SystemClock(), reload=read, config_file=path, on_started=_say_started)
    process.run()


def _say_started(daemon: Daemon) -> None:
    url = daemon.web.url if daemon.web is not None else ""
    count = len(daemon.servers)
    console.print(f"acceptd watches {count} server{'s' if count != 1 else ''}; status page {url}/", markup=False)


def _with_folder(config: Config, context: Context) -> Config:
    return config if context.data_dir is None else config.model_copy(update={"data_dir": context.data_dir})


class LogHandler(logging.StreamHandler[TextIO]):
    """Lines of the log. What there is no memory for is left out, without logging's traceback: the daemon ends then."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Tell of a line that could not be written, unless it was for want of memory."""
        if not isinstance(sys.exc_info()[1], MemoryError):
            super().handleError(record)


def set_up_log(config: Config, *, simulated: bool) -> None:
    """Log to standard error: with a time at a terminal, without one where the journal adds its own."""
    stamp = "" if "JOURNAL_STREAM" in os.environ else "%(asctime)s "
    mark = "SIMULATED " if simulated else ""
    logging.basicConfig(
        level=getattr(logging, config.log.level.upper()), handlers=[LogHandler(sys.stderr)], force=True,
        format=f"{stamp}{mark}%(levelname)s %(name)s: %(message)s",
    )
    # Libraries that repeat requests, with their addresses, at lower levels.
    for name in ("urllib3", "slack_sdk", "apscheduler", "waitress", "matplotlib", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _free_listen() -> str:
    """The usual address, or a free port where that is taken."""
    host, _, port = _DEFAULT_LISTEN.partition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError:
            return f"{host}:0"
    return _DEFAULT_LISTEN


#: Where ports for the demo are looked for: above what services use, below what the kernel gives to connections.
_DEMO_PORTS = range(18100, 32000)


def _free_ports(count: int) -> list[int]:
    """So many free loopback ports, of which another demo that starts at the same moment looks at others first."""
    found: list[int] = []
    begin = os.getpid() * count % len(_DEMO_PORTS)
    for port in (*_DEMO_PORTS[begin:], *_DEMO_PORTS[:begin]):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise FatalError("no free loopback ports for the demo")
