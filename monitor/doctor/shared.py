"""The fleet's database: whether it can be had, fits this version, lets us work, and who has this host's name there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from monitor.clock import Clock
from monitor.config.fleet import host_name
from monitor.config.instance import read_instance
from monitor.config.load import secret
from monitor.config.model import Config
from monitor.doctor.finding import Area, Finding, Subject
from monitor.doctor.host import SKEW_SECONDS
from monitor.errors import ConfigError, StoreError
from monitor.store import open_store
from monitor.store.fitness import Fitness, fitness
from monitor.store.naming import folder_of, name_lease
from monitor.store.schema import Schema
from monitor.store.sql import SqlStore

_GRANT = "make the user of `store.shared` the owner of the tables (docs/configuration.md, one database for a fleet)"


def check_shared(config: Config, folder: Path, clock: Clock, *, is_running: bool) -> Iterator[Finding]:
    """Look at `store.shared`, if there is one; `is_running` is whether a daemon runs on `folder`."""
    settings = config.store.shared
    if settings is None:
        return
    of = Subject(Area.STORE, "the fleet's database")
    try:
        store = open_store(settings.url, password=secret(settings, "password"))
    except ConfigError:
        return  # said with the files of secrets
    try:
        yield _schema(of, store)
        before = clock.now()
        found = fitness(store)
        yield _clocks(of, found, before, clock.now())
        yield from _rights(of, found)
        yield from _days(of, found)
        yield from _name(of, store, host_name(config), read_instance(folder), clock.now(), is_running=is_running)
    except StoreError as error:
        yield of.problem(str(error), _todo(str(error)))
    finally:
        store.close()


def _schema(of: Subject, store: SqlStore) -> Finding:
    store.check()
    found = store.revision()
    if found is not None and found > Schema().pending(None)[-1]:
        return of.note(f"schema {found} is of a newer acceptd, which this one can work with", "install that version")
    return of.ok(f"{store.name} answers, schema {found}")


def _clocks(of: Subject, found: Fitness, before: datetime, after: datetime) -> Finding:
    apart = max((found.now - after).total_seconds(), (before - found.now).total_seconds(), 0.0)
    if apart > SKEW_SECONDS:
        ahead = "ahead of" if found.now > after else "behind"
        return of.problem(f"its clock is {apart:.0f} s {ahead} this host's: reports of several hosts disagree",
                          "run NTP on both; leases go by the database's clock and are not harmed")
    return of.ok(f"its clock and this host's agree within {max(apart, (after - before).total_seconds()):.1f} s")


def _rights(of: Subject, found: Fitness) -> Iterator[Finding]:
    if not found.is_writable:
        yield of.problem("is read-only", "point `store.shared.url` at the primary server, not at a standby")
    if found.missing_rights:
        yield of.problem(f"the user lacks rights: {'; '.join(found.missing_rights)[:300]}", _GRANT)
    elif found.unmanaged:
        yield of.problem(f"days of intervals are made and dropped by nobody: {found.unmanaged}", _GRANT)
    else:
        yield of.ok("the user may do all that a daemon does")


def _days(of: Subject, found: Fitness) -> Iterator[Finding]:
    if found.missing_days:
        yield of.problem(f"no partition for {', '.join(found.missing_days)}", "acceptd db upgrade --shared makes"
                         " them; a daemon does every night at 03:19 UTC: its log says why it did not")
    if found.astray:
        rows = ", ".join(f"{count:,}{'+' if count == 1000 else ''} of {table}" for table, count in found.astray.items())
        yield of.note(f"rows outside all days: {rows}", "a host's clock was wrong, or old data was imported: they are"
                      " pruned by age, or moved when their day is made")


def _name(
    of: Subject, store: SqlStore, host: str, own: str | None, now: datetime, *, is_running: bool
) -> Iterator[Finding]:
    with store.read() as unit:
        held = {lease.name: (lease, in_force) for lease, in_force in unit.leases.standing(name_lease(host), now)}
    lease, in_force = held.get(name_lease(host), (None, False))
    if lease is None or not in_force:
        if is_running:
            yield of.problem(f"the daemon of host {host} gives no sign of life there",
                             "journalctl -u acceptd: the line \"the fleet's database cannot be used\" says why")
        else:
            yield of.note(f"nobody has the name of host {host} there now", "start the daemon")
        return
    holder = folder_of(lease)
    if holder == own:
        yield of.ok(f"the name of host {host} is this daemon's")
    else:
        yield of.problem(f"the name of host {host} is another daemon's ({holder}): this one does nothing in the fleet",
                         "give it another `host` and restart it, or stop the other; if this data folder was made anew,"
                         " wait for one `store.shared.lease`")


def _todo(text: str) -> str:
    """What to do about a refusal: most say it themselves after a colon."""
    if "acceptd db upgrade" in text:
        return "acceptd db upgrade --shared, once for the fleet"
    if "newer acceptd" in text:
        return "install the acceptd that upgraded it, or a newer one"
    if "does not accept user and password" in text:
        return "look at `store.shared.url`, `password_file`, and pg_hba.conf of the server"
    if "SSL" in text or "certificate" in text:
        return ("give the server a certificate and name its CA by `?sslrootcert=FILE` in `store.shared.url`, or say"
                " there which `?sslmode=` will do (docs/configuration.md, a fleet with one database)")
    return "docs/runbooks/daemon-fleet-store-away.md; the daemon goes on alone meanwhile"
