"""Calls that would open a door are made nowhere: shells, evaluated text, pickles, requests that wait or wander."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

MONITOR = Path(__file__).resolve().parents[2] / "monitor"
FORBIDDEN = {
    "eval", "exec", "os.system", "os.popen", "pickle.load", "pickle.loads", "marshal.loads", "yaml.load",
    "yaml.unsafe_load", "tempfile.mktemp", "subprocess.getoutput", "subprocess.getstatusoutput",
}  # fmt: skip
#: Requests that do not go through the client of one server.
DIRECT = {"requests.get", "requests.post", "requests.request", "requests.put"}


def name_of(call: ast.Call) -> str:
    return ast.unparse(call.func)


def faults(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name, given = name_of(node), {word.arg: word.value for word in node.keywords}
        if name in FORBIDDEN:
            yield f"line {node.lineno}: {name}"
        if "shell" in given:
            yield f"line {node.lineno}: {name} with a shell"
        if name in DIRECT:
            redirects = given.get("allow_redirects")
            if "timeout" not in given or not (isinstance(redirects, ast.Constant) and redirects.value is False):
                yield f"line {node.lineno}: {name} without a timeout, or it follows redirects"
        verify = given.get("verify")
        if isinstance(verify, ast.Constant) and verify.value is False:
            yield f"line {node.lineno}: {name} does not verify"


@pytest.mark.parametrize("path", sorted(MONITOR.rglob("*.py")), ids=lambda path: str(path.relative_to(MONITOR)))
def test_no_call_opens_a_door(path: Path) -> None:
    assert list(faults(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    ["eval(x)", "os.system('ls')", "subprocess.run('ls', shell=True)", "requests.get(url)",
     "requests.post(url, timeout=1)", "requests.get(url, timeout=1, allow_redirects=False, verify=False)"],
)  # fmt: skip
def test_such_a_call_is_seen(source: str) -> None:
    assert list(faults(source))
