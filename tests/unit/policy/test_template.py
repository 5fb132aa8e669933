from __future__ import annotations

import pytest

from monitor.policy.matchers import parse_matcher
from monitor.policy.template import parse_template

VALUES = {
    "rate": 0.7123, "drafts": 123456.0, "age": 3725.0, "gone": None, "v[0]": 0.5, "step": 0.0123, "far": float("inf"),
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("plain", "plain"),
        ("{{ $labels.server }} is {{$value.rate}}", "a is 0.712"),
        ("{{ $value.rate | humanizePercentage }}", "71.2%"),
        ("{{ $value.drafts }} {{ $value.drafts | humanize }}", "123456 123.5k"),
        ("{{ $value.age | humanizeDuration }}", "1h2m5s"),
        ("{{ $value.step | humanizeDuration }}", "12ms"),
        ("{{ $value.v[0] | humanizePercentage }}", "50%"),
        ("{{ $value.gone }}, {{ $value.gone | humanizePercentage }}", "no data, no data"),
        ("{{ $value.unheard_of }}", "no data"),
        ("[{{ $labels.none }}]", "[]"),
        ("{{ $value.far }} {{ $value.far | humanizeDuration }}", "inf inf"),
    ],
)
def test_fields_are_filled_in(source: str, text: str) -> None:
    assert parse_template(source).render({"server": "a"}, VALUES) == text


def test_what_a_label_holds_is_not_read_as_a_template() -> None:
    assert parse_template("{{ $labels.server }}").render({"server": "{{ $value.rate }}"}, VALUES) == "{{ $value.rate }}"


@pytest.mark.parametrize(
    "source",
    ["{{ }}", "{{ .Labels.x }}", "{{ $labels }}", "{{ $value }}", "{{ $labels.a | humanize }}", "{{ $value.a | exec }}",
     "{{ $labels.a", "a }} b", "{{ $value.a[x] }}", "{{ $labels.a[0] }}", "{{ $value.a + 1 }}"],
)
def test_anything_else_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"\{\{"):
        parse_template(source)


@pytest.mark.parametrize(
    ("text", "labels", "fits"),
    [
        ('server="a"', {"server": "a"}, True),
        ("server = a", {"server": "a"}, True),
        ("server!=a", {"server": "a"}, False),
        ("server!=a", {}, True),
        ('alertname=~"Server.+"', {"alertname": "ServerDown"}, True),
        ('alertname=~"Server"', {"alertname": "ServerDown"}, False),
        ('alertname !~ "A|B"', {"alertname": "C"}, True),
        (r'x="a\"b"', {"x": 'a"b'}, True),
    ],
)
def test_matchers_are_read_as_alertmanager_reads_them(text: str, labels: dict[str, str], fits: bool) -> None:
    assert parse_matcher(text).matches(labels) is fits


@pytest.mark.parametrize("text", ["", "server", "server==a", "=a", 'a=~"("', "1a=b", "a=b c"])
def test_a_broken_matcher_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a matcher such as|a regular expression"):
        parse_matcher(text)
