"""Pages from bytes, remembering between scrapes. It owns the memory of a target, not the grammar of a line.

A server prints the same lines every time and only some values change. The reader keeps what stands before the values,
which all pages of a fleet share, and the values of the last page as they were printed: where one is unchanged, so is
its number. Only lines it never saw are parsed with care, so a scrape costs a comparison of lines and a `float` per
change, and a page that is remembered takes a tenth of its bytes.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from itertools import compress
from operator import add, ne

from monitor.errors import ExpositionError
from monitor.exposition.body import clean_body, is_openmetrics
from monitor.exposition.line import LARGEST, parse_tail
from monitor.exposition.page import Layout, Page
from monitor.exposition.vocabulary import KnownHead, Lines, Vocabulary

_COMMENT = ord("#")


def parse(body: bytes | str, content_type: str | None = None) -> Page:
    """Every series of one page; see `PageReader.read` for what it raises."""
    return PageReader().read(body.encode() if isinstance(body, str) else body, content_type)


class PageReader:
    """Reads the pages of one target, each faster than the first as long as they look alike.

    Readers that share a `Vocabulary` keep names, labels and layouts once for all of them.
    """

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self._vocabulary = vocabulary or Vocabulary()
        #: The bytes before the value, per line; lines that are no samples whole.
        self._prefixes = Lines()
        #: The bytes behind them, a line each; empty on lines that are no samples.
        self._tails = b""
        #: Their numbers; NaN where there is none.
        self._values: array[float] = array("d")
        self._layout = Layout((), {}, frozenset())

    def read(self, body: bytes, content_type: str | None = None) -> Page:
        """The page in these bytes.

        Series on it twice with one value count once (`layout.duplicates`), with two values have none. A value that is
        no finite number is None and the page stands; a line that is no sample line, or a body that is not whole,
        is no page.

        Raises:
            ExpositionError: see `clean_body`; `malformed` names the line and what was expected.
        """
        body = clean_body(body, content_type)
        lines = body.split(b"\n")
        tails = self._read_changes(lines) if len(lines) == len(self._prefixes) else None
        if tails is None:
            tails = self._read_all(lines)
        self._tails = b"\n".join(tails)
        values: list[float | None] = [value if value == value else None for value in self._values]
        conflicting = self._drop_contradicted(values)
        return Page(self._layout, values, is_openmetrics(body, content_type), conflicting, tails)

    def text(self) -> bytes:
        """The last page, line by line as it came; empty before the first."""
        return b"\n".join(map(add, self._prefixes, self._tails.split(b"\n")))

    def _read_changes(self, lines: Sequence[bytes]) -> Sequence[bytes] | None:
        """Take over a page of the known lines; its tails, or None (and nothing changed) where a line is not known."""
        if not all(map(bytes.startswith, lines, self._prefixes)):
            return None
        tails, before = list(map(bytes.removeprefix, lines, self._prefixes)), self._tails.split(b"\n")
        values = self._values[:]
        for index in compress(range(len(tails)), map(ne, tails, before)):
            if not before[index]:
                return None
            tail = tails[index]
            try:
                value = float(tail)
                values[index] = value if -LARGEST < value < LARGEST and b"_" not in tail else math.nan
            except ValueError:
                values[index] = _careful_value(tail, index)
        self._values = values
        return tails

    def _read_all(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Learn every line of a page whose lines are not those of the last; its tails."""
        heads: list[KnownHead | None] = [None] * len(lines)
        values = array("d", [math.nan]) * len(lines)
        prefixes, tails = list(lines), [b""] * len(lines)
        types: dict[str, str] = {}
        redeclared: set[str] = set()
        ended = False
        for index, line in enumerate(lines):
            if not line or line.isspace():
                continue
            if ended:
                raise ExpositionError("malformed", f"line {index + 1} stands after `# EOF`")
            if line[0] == _COMMENT:
                ended = line.rstrip() == b"# EOF"
                _note_type(line, types, redeclared)
                prefixes[index] = self._vocabulary.comment(line)
                continue
            head = heads[index] = self._find_head(line, index)
            prefixes[index], tails[index] = head.prefix, line[len(head.prefix) :]
            values[index] = _careful_value(tails[index], index)
        self._prefixes, self._values = self._vocabulary.lines(prefixes), values
        self._layout = self._vocabulary.layout(heads, types, frozenset(redeclared))
        return tails

    def _find_head(self, line: bytes, index: int) -> KnownHead:
        try:
            return self._vocabulary.head(line)
        except ValueError as error:
            raise ExpositionError("malformed", f"line {index + 1} is no sample: {_reason(error)}") from error

    def _drop_contradicted(self, values: list[float | None]) -> frozenset[int]:
        """Take away the value of series that stand on the page with several; the lines of those."""
        conflicting = [lines for lines in self._layout.duplicates if len({values[line] for line in lines}) > 1]
        for lines in conflicting:
            values[lines[0]] = None
        return frozenset(lines[0] for lines in conflicting)


def _careful_value(tail: bytes, index: int) -> float:
    """The number there; NaN where it is no finite one."""
    try:
        value = parse_tail(tail)[0]
    except ValueError as error:
        raise ExpositionError("malformed", f"line {index + 1}: {_reason(error)}") from error
    return math.nan if value is None else value


def _note_type(line: bytes, types: dict[str, str], redeclared: set[str]) -> None:
    if line.startswith(b"# TYPE "):
        words = line.decode("utf-8", "replace").split()
        if len(words) == 4:
            if words[2] in types:
                redeclared.add(words[2])
            types[words[2]] = words[3]


def _reason(error: ValueError) -> str:
    return "bytes that are not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
