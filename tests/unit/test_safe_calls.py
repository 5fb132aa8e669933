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
#: Requests that go neither through the client of one server nor through a receiver's exchange: they follow redirects,
#: wait without end, and put a login of somebody's `.netrc` in place of what is configured.
DIRECT = {f"requests.{verb}" for verb in ("get", "post", "put", "patch", "delete", "head", "options", "request")}
#: A session that is told `trust_env = False` looks into no `.netrc`.
SESSIONS = {"requests.Session", "requests.session", "Session"}


def name_of(call: ast.Call) -> str:
    return ast.unparse(call.func)


def faults(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    is_closed = any(isinstance(node, ast.Assign) and ast.unparse(node).endswith(".trust_env = False")
                    for node in ast.walk(tree))  # fmt: skip
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name, given = name_of(node), {word.arg: word.value for word in node.keywords}
        if name in FORBIDDEN:
            yield f"line {node.lineno}: {name}"
        if "shell" in given:
            yield f"line {node.lineno}: {name} with a shell"
        if name in DIRECT:
            yield f"line {node.lineno}: {name}"
        if name in SESSIONS and "requests" in source and not is_closed:
            yield f"line {node.lineno}: {name} that may use a .netrc"
        verify = given.get("verify")
        if isinstance(verify, ast.Constant) and verify.value is False:
            yield f"line {node.lineno}: {name} does not verify"


@pytest.mark.parametrize("path", sorted(MONITOR.rglob("*.py")), ids=lambda path: str(path.relative_to(MONITOR)))
def test_no_call_opens_a_door(path: Path) -> None:
    assert list(faults(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    ["eval(x)", "os.system('ls')", "subprocess.run('ls', shell=True)", "requests.get(url)",
     "requests.post(url, timeout=1, allow_redirects=False)", "client.get(url, verify=False)", "s = requests.Session()"],
)  # fmt: skip
def test_such_a_call_is_seen(source: str) -> None:
    assert list(faults(source))
