"""Servers that sources found, as if they stood in the file."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from monitor.app.feeds import make_feeds
from monitor.config.found import with_found
from monitor.config.model import Config
from monitor.targets.service_discovery import Found
from monitor.watchdog import Watchdog
from tests.fakes.fake_clock import FakeClock

SOURCE = {"name": "fleet", "file_sd": {"files": ["/x/*.json"]}}


def config(**source: Any) -> Config:
    return Config.model_validate(
        {
            "servers": [{"name": "own", "url": "http://10.0.0.9:8000"}],
            "sources": [{**SOURCE, **source}, {"name": "host", "local": True}],
        }
    )


def test_each_becomes_a_server_with_name_group_labels_and_credentials() -> None:
    given = config(group="rest", auth={"bearer_token": "s3cret"})
    found = {
        "fleet": [
            Found("10.0.0.1:8000", {"acceptd_group": "chat", "zone": "b", "__scheme__": "https"}),
            Found("[fd00::7]:8000", {"acceptd_name": "gpu-7"}),
        ],
        "host": [Found("127.0.0.1:8001")],
    }
    joined = with_found(given, found)
    made = joined.config
    assert joined.left_out == ()
    assert joined.source_of == {"10.0.0.1-8000": "fleet", "gpu-7": "fleet", "127.0.0.1-8001": "host"}
    assert [server.name for server in joined.only({"own", "gpu-7"}).servers] == ["own", "gpu-7"]
    own, first, second, third = made.servers
    assert own.name == "own"
    assert (first.name, first.group, first.url) == ("10.0.0.1-8000", "chat", "https://10.0.0.1:8000")
    assert (first.labels, first.metrics_url) == ({"zone": "b"}, "https://10.0.0.1:8000/metrics")
    assert first.auth is not None and first.auth.bearer_token is not None
    assert (second.name, second.group, second.labels) == ("gpu-7", "rest", {})
    assert (third.name, third.group, third.auth) == ("127.0.0.1-8001", None, None)
    assert given.servers == (own,)


def test_what_is_known_already_or_cannot_be_a_server_is_left_out_with_a_reason() -> None:
    found = {
        "fleet": [
            Found("10.0.0.9:8000"),
            Found("10.0.0.8:8000", {"acceptd_name": "own"}),
            Found("10.0.0.7:8000", {"acceptd_name": "a b"}),
            Found("10.0.0.6:8000"),
        ],
        "host": [Found("10.0.0.6:8000"), Found("10.0.0.5:99999")],
        "nobody": [Found("10.0.0.4:8000")],
    }
    joined = with_found(config(), found)
    made, left_out = joined.config, joined.left_out
    assert [server.name for server in made.servers] == ["own", "10.0.0.6-8000"]
    assert left_out[0].startswith("source fleet: 10.0.0.7:8000: name is 'a b', expected")
    assert left_out[1] == "source fleet: 10.0.0.8:8000: is server own already"
    assert left_out[2] == "source fleet: 10.0.0.9:8000: is server own already"
    assert left_out[3].startswith("source host: 10.0.0.5:99999: url is")
    assert left_out[4] == "source host: 10.0.0.6:8000: is server 10.0.0.6-8000 of source fleet already"


def test_of_one_that_is_listed_twice_the_same_entry_counts_in_whatever_order_they_come() -> None:
    twice = [Found("10.0.0.1:8000", {"acceptd_group": group}) for group in ("b", "a")]
    for found in (twice, twice[::-1]):
        joined = with_found(config(), {"fleet": found})
        assert [server.group for server in joined.config.servers] == [None, "a"]
        assert joined.left_out == ("source fleet: 10.0.0.1:8000: is server 10.0.0.1-8000 of source fleet already",)


@pytest.mark.parametrize("kinds", [{}, {"local": True, "http_sd": {"url": "http://x"}}])
def test_a_source_is_of_one_kind(kinds: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="exactly one of file_sd, http_sd, prometheus, local"):
        Config.model_validate({"sources": [{"name": "x", **kinds}]})


def test_a_target_of_a_store_keeps_its_label_whatever_its_address_is_as_a_url() -> None:
    """Asked for by host and port, a target `gpu-1/vllm-0` never had a sample."""
    given = config(file_sd=None, prometheus={"url": "http://10.0.0.2:9090", "selector": "{}"})
    joined = with_found(given, {"fleet": [Found("gpu-1/vllm-0"), Found("10.0.0.1:8000")], "host": [Found("h:1")]})
    assert joined.left_out == ()
    assert {(one.name, one.through, one.instance) for one in joined.config.servers} == {
        ("own", None, None), ("gpu-1-vllm-0", "fleet", "gpu-1/vllm-0"), ("10.0.0.1-8000", "fleet", "10.0.0.1:8000"),
        ("h-1", None, None),
    }
    (name, feed), = make_feeds(joined.config, None, Watchdog(FakeClock()), FakeClock(), lambda: True)  # type: ignore[arg-type]
    assert (name, feed._instances) == ("fleet", {"gpu-1/vllm-0": "gpu-1-vllm-0", "10.0.0.1:8000": "10.0.0.1-8000"})
    feed.close()
