"""Lists of servers in Prometheus' forms: what is in them, and which mistake is in a bad one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from monitor.targets.service_discovery import DiscoveryError, Found, changed_at, parse_groups, read_answer, read_files

GROUPS = [
    {"targets": ["10.0.0.1:8000", "10.0.0.2:8000"], "labels": {"acceptd_group": "chat", "zone": "b"}},
    {"targets": ["gpu-9:8443"], "labels": {"__scheme__": "https", "__metrics_path__": "m", "__meta_x": "y"}},
    {"targets": []},
]


def test_servers_have_their_address_and_their_group_s_labels() -> None:
    first, second, third = parse_groups(GROUPS, "x")
    assert first == Found("10.0.0.1:8000", {"acceptd_group": "chat", "zone": "b"})
    assert (second.base_url, second.metrics_url) == ("http://10.0.0.2:8000", "http://10.0.0.2:8000/metrics")
    assert (third.base_url, third.metrics_url) == ("https://gpu-9:8443", "https://gpu-9:8443/m")
    assert (first.shown_labels, third.shown_labels) == ({"acceptd_group": "chat", "zone": "b"}, {})


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"targets": []}, "found a mapping, expected a list"),
        (["10.0.0.1:8000"], "group 0: found text, expected `targets`"),
        ([{"targets": ["a:1"], "labels": {"port": 8000}}], "group 0: label 'port' is 8000, expected a text"),
        ([{"targets": ["a:1"], "labels": ["port"]}], "group 0: labels are a list, expected names and texts"),
        ([{"labels": {"__scheme__": "http://evil/?"}}], "group 0: __scheme__ is 'http://evil/.', expected http"),
        ([{"targets": ["me:pw@a:1"]}], "group 0: target '<secret>@a:1', expected host:port"),
        ([{"targets": ["a:1?x=y"]}], "group 0: target 'a:1.x=y', expected host:port"),
        ([{"targets": ["a:1\u202e"]}], r"group 0: target 'a:1.u202e', expected host:port"),
        ([{"targets": [["a:1"] * 10**6]}], "group 0: target a list, expected host:port"),
        ([{}, {"targets": "a:1"}], "group 1: targets 'a:1', expected a list"),
        ([{"targets": ["http://a:1"]}], "group 0: target 'http://a:1', expected host:port without scheme"),
        ([{"targets": [""]}], "group 0: target '', expected host:port"),
        ([{"targets": [7]}], "group 0: target 7, expected host:port"),
    ],
)
def test_a_list_with_a_mistake_is_refused_naming_it(tree: object, words: str) -> None:
    with pytest.raises(DiscoveryError, match=f"^list.json: {words}"):
        parse_groups(tree, "list.json: ".removesuffix(": "))


def test_files_are_read_in_order_of_their_names_json_and_yaml(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text("- targets: ['c:1']\n  labels: {zone: a}\n")
    (tmp_path / "a.json").write_text(json.dumps([{"targets": ["a:1", "b:1"]}]))
    (tmp_path / "empty.yaml").write_text("")
    found = read_files([tmp_path / "*.json", str(tmp_path / "*.y*ml")])
    assert [one.address for one in found] == ["a:1", "b:1", "c:1"]
    assert read_files([tmp_path / "none*.json"]) == ()


def test_a_file_that_is_missing_or_broken_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match=r"gone\.json: No such file"):
        read_files([tmp_path / "gone.json"])
    (tmp_path / "half.json").write_text('[{"targets": ["a:')
    with pytest.raises(DiscoveryError, match=r"half\.json: is not JSON"):
        read_files([tmp_path / "*.json"])
    (tmp_path / "bad.yml").write_text("- targets: [")
    with pytest.raises(DiscoveryError, match=r"bad\.yml: is not YAML"):
        read_files([tmp_path / "bad.yml"])


def test_a_yaml_file_is_read_as_prometheus_reads_it(tmp_path: Path) -> None:
    one = "targets: ['a:1']\n  labels: &all {rack: 012, on: yes}"
    other = "targets: ['b:1']\n  labels: {<<: *all, zone: ''}"
    (tmp_path / "a.yml").write_text(f"- {one}\n- {other}\n- targets:\n  labels: ~\n")
    first, second = read_files([tmp_path / "a.yml"])
    assert (first.labels, second.labels) == ({"rack": "012", "on": "yes"}, {"rack": "012", "on": "yes", "zone": ""})


def aliases(levels: int, first: str, again: str) -> str:
    """Lines of which each repeats the one before it nine times."""
    lines = [f"a0: &a0 {first}", *(again.format(n, ", ".join([f"*a{n - 1}"] * 9)) for n in range(1, levels))]
    return "- labels:\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "[" * 100_000, "is not JSON"),
        ("a.yml", "[" * 20_000 + "]" * 20_000, "is not YAML"),
        ("a.yml", aliases(12, "[x]", "a{0}: &a{0} [{1}]"), "is not YAML .more than 2000000 values"),
        ("a.yml", aliases(12, "{x: y}", "a{0}: &a{0} {{<<: [{1}], k{0}: z}}"), "is not YAML .more than 2000000 values"),
        ("a.yml", "- &a [*a]\n", "is not YAML .more than 2000000 values"),
        ("a.yml", "- targets: !!python/object:os.system x\n", "is not YAML"),
        ("a.yml", "- labels: {x: [" + "y, " * 100_000 + "]}\n", "group 0: label 'x' is a list, expected a text"),
        ("a.yml", "- labels: {x: !!int 7}\n", "group 0: label 'x' is 7, expected a text"),
    ],
)
def test_a_file_built_to_fill_memory_or_log_is_refused_in_a_line(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DiscoveryError, match=words) as caught:
        read_files([tmp_path / name])
    assert len(str(caught.value)) < len(str(tmp_path)) + 300


def test_a_file_without_end_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match="/dev/zero: more than 33554432 bytes"):
        read_files(["/dev/zero"])


def test_half_a_character_in_a_label_is_replaced(tmp_path: Path) -> None:
    (found,) = read_answer("http://x", 200, "application/json", rb'[{"targets": ["a:1"], "labels": {"x": "y\ud800"}}]')
    assert found.labels == {"x": "y\ufffd"}


def test_the_token_of_an_endpoint_s_url_is_not_shown() -> None:
    with pytest.raises(DiscoveryError, match="token=<secret>: answers 403"):
        read_answer("http://x/list?token=hunter2", 403, "text/html", b"")


def test_a_change_of_a_file_shows_also_when_one_appears_or_goes(tmp_path: Path) -> None:
    path, patterns = tmp_path / "a.json", [tmp_path / "*.json"]
    marks = [changed_at(patterns)]
    path.write_text("[]")
    marks.append(changed_at(patterns))
    os.utime(path, ns=(1, 1))
    marks.append(changed_at(patterns))
    path.write_text("[ ]")
    marks.append(changed_at(patterns))
    assert len(set(marks)) == 4
    path.unlink()
    assert changed_at(patterns) == marks[0]


def test_an_endpoint_must_answer_as_prometheus_asks_of_it() -> None:
    body = json.dumps(GROUPS).encode()
    assert len(read_answer("http://x", 200, "application/json; charset=utf-8", body)) == 3
    with pytest.raises(DiscoveryError, match="answers 503, expected 200"):
        read_answer("http://x", 503, "application/json", body)
    with pytest.raises(DiscoveryError, match="content type 'text/html', expected application/json"):
        read_answer("http://x", 200, "text/html", body)
    with pytest.raises(DiscoveryError, match="is not JSON"):
        read_answer("http://x", 200, "application/json", b"<html>")
