"""Which data folder this is: a name made once that stays with it, so that two daemons of one host name are told apart.

It is no secret, and says for people where the folder was made.
"""

from __future__ import annotations

import logging
import secrets
import socket
from pathlib import Path

log = logging.getLogger(__name__)

FILE = "instance"


def read_instance(folder: Path) -> str | None:
    """The folder's name; None where no daemon that shares a database has run there, or it cannot be read."""
    try:
        return (folder / FILE).read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def own_instance(folder: Path) -> str:
    """The folder's name, `ID@MACHINE:FOLDER`; made where it has none, for this process only if it is not writable."""
    known = read_instance(folder)
    if known is not None:
        return known
    made = f"{secrets.token_hex(6)}@{socket.gethostname()}:{folder.absolute()}"
    partial = folder / f"{FILE}.part"
    try:
        partial.write_text(made + "\n")
        partial.replace(folder / FILE)
    except OSError as error:
        log.warning("the name of data folder %s is not written down: %s", folder, error.strerror)
    return made
