"""Pages from bytes, remembering between scrapes. It owns the memory of a target, not the grammar of a line.

A server prints the same lines every time and only some values change. The reader keeps the lines of the last page:
where a line is unchanged, so is its value; where only its value changed, the known name and labels still stand before
it. Only lines it never saw are parsed with care, so a scrape costs a comparison of lines and a `float` per change.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import ne

from monitor.errors import ExpositionError
from monitor.exposition.body import clean_body, is_openmetrics
from monitor.exposition.line import LARGEST, parse_tail
from monitor.exposition.page import Layout, Page
from monitor.exposition.vocabulary import KnownHead, Vocabulary

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
        self._lines: list[bytes] = []
        #: The bytes before the value, per line; empty on lines that are no samples.
        self._prefixes: list[bytes] = []
        self._values: list[float | None] = []
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
        if len(lines) != len(self._lines) or not self._read_changes(lines):
            self._read_all(lines)
        values, conflicting = self._resolve_duplicates()
        return Page(self._layout, values, is_openmetrics(body, content_type), conflicting, lines, self._prefixes)

    def text(self) -> bytes:
        """The last page, line by line as it came; empty before the first."""
        return b"\n".join(self._lines)

    def _read_changes(self, lines: Sequence[bytes]) -> bool:
        """Take over a page of the known lines; False (and nothing changed) where a line is not as before."""
        values, prefixes = self._values.copy(), self._prefixes
        changed = list(compress(range(len(lines)), map(ne, lines, self._lines)))
        for index in changed:
            line, prefix = lines[index], prefixes[index]
            if not prefix or not line.startswith(prefix):
                return False
            tail = line[len(prefix) :]
            try:
                value = float(tail)
                values[index] = value if -LARGEST < value < LARGEST and b"_" not in tail else None
            except ValueError:
                values[index] = _careful_value(tail, index)
        for index in changed:
            self._lines[index] = lines[index]
        self._values = values
        return True

    def _read_all(self, lines: Sequence[bytes]) -> None:
        """Learn every line of a page whose lines are not those of the last."""
        heads: list[KnownHead | None] = [None] * len(lines)
        values: list[float | None] = [None] * len(lines)
        kept = list(lines)
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
                kept[index] = self._vocabulary.comment(line)
                continue
            head = heads[index] = self._find_head(line, index)
            values[index] = _careful_value(line[len(head.prefix) :], index)
        self._lines, self._values = kept, values
        self._prefixes = [head.prefix if head else b"" for head in heads]
        self._layout = self._vocabulary.layout(heads, types, frozenset(redeclared))

    def _find_head(self, line: bytes, index: int) -> KnownHead:
        try:
            return self._vocabulary.head(line)
        except ValueError as error:
            raise ExpositionError("malformed", f"line {index + 1} is no sample: {_reason(error)}") from error

    def _resolve_duplicates(self) -> tuple[Sequence[float | None], frozenset[int]]:
        conflicting = [
            lines for lines in self._layout.duplicates if len({self._values[line] for line in lines}) > 1
        ]
        if not conflicting:
            return self._values, frozenset()
        values = self._values.copy()
        for lines in conflicting:
            values[lines[0]] = None
        return values, frozenset(lines[0] for lines in conflicting)


def _careful_value(tail: bytes, index: int) -> float | None:
    try:
        return parse_tail(tail)[0]
    except ValueError as error:
        raise ExpositionError("malformed", f"line {index + 1}: {_reason(error)}") from error


def _note_type(line: bytes, types: dict[str, str], redeclared: set[str]) -> None:
    if line.startswith(b"# TYPE "):
        words = line.decode("utf-8", "replace").split()
        if len(words) == 4:
            if words[2] in types:
                redeclared.add(words[2])
            types[words[2]] = words[3]


def _reason(error: ValueError) -> str:
    return "bytes that are not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
