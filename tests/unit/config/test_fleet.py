"""From settings to servers, groups, limits and credentials."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from monitor.config.fleet import (
    action_limits,
    configured_settings,
    credentials,
    groups,
    host_name,
    servers,
    tuning_sets,
)
from monitor.config.model import Config, Limits
from monitor.errors import ConfigError
from monitor.model.life import Setting
from monitor.model.server import ActionLimits, Mode

DRIVER = {"kind": "process", "command": ["vllm", "serve", "m"]}


def config(*found: dict[str, Any], **more: Any) -> Config:
    given = [{"url": f"http://10.0.0.{n}:8000", **one} for n, one in enumerate(found)]
    return Config.model_validate({"servers": given, **more})


class TestServers:
    def test_each_has_its_page_group_and_whether_it_is_managed(self) -> None:
        made = servers(
            config(
                {"name": "a", "group": "chat", "driver": DRIVER, "gpu": "L4", "labels": {"team": "x"}},
                {"name": "b", "metrics_url": "http://10.0.0.9:9000/m"}, simulated=True,
            )
        )
        assert [(s.name, s.group, s.metrics_url, s.managed) for s in made] == [
            ("a", "chat", "http://10.0.0.0:8000/metrics", True), ("b", "b", "http://10.0.0.9:9000/m", False),
        ]  # fmt: skip
        assert all(server.simulated for server in made)
        assert (made[0].gpu, made[0].labels) == ("L4", {"team": "x"})

    def test_what_the_operator_says_of_speculation(self) -> None:
        told = config({"name": "a", "speculation": {"method": "ngram", "num_speculative_tokens": 0}}, {"name": "b"})
        assert configured_settings(told) == {"a": Setting(method="ngram", num_speculative_tokens=0)}

    def test_the_host_has_the_name_that_was_given(self) -> None:
        assert host_name(config(host="gpu-7")) == "gpu-7"
        assert host_name(config())


class TestGroups:
    def test_they_are_those_that_servers_name_in_that_order(self) -> None:
        made = groups(config({"name": "b", "group": "z"}, {"name": "c"}, {"name": "a", "group": "z"}))
        assert [(group.name, group.servers) for group in made] == [("z", ("b", "a")), ("c", ("c",))]

    def test_a_mode_and_limits_of_their_own_go_before_the_global_ones(self) -> None:
        told = config(
            {"name": "a"}, {"name": "b"}, mode="observe",
            groups=[{"name": "a", "mode": "auto", "rules": "goodput", "limits": {"max_speculative_tokens": 4}}],
        )
        first, second = groups(told)
        assert (first.mode, first.limits.max_speculative_tokens) == (Mode.AUTO, 4)
        assert (second.mode, second.limits) == (Mode.OBSERVE, action_limits(Limits.model_validate({})))
        assert tuning_sets(told) == {"a": "goodput", "b": "guarded"}

    def test_every_limit_reaches_the_one_who_acts(self) -> None:
        told: dict[str, Any] = {
            "min_speculative_tokens": 2, "max_speculative_tokens": 7, "allow_off": True, "allow_downtime": True,
            "changes_per_day": 3, "cooldown": "11s", "drain_limit": "12s", "stop_limit": "13s", "start_limit": "14s",
            "first_start_extra": "15s", "cut_after_drain": True, "keep_running": True, "warmup": "16s",
            "observe": "17s", "restarts_per_day": 9, "restart_stuck": True, "never": [5], "hold_after_drift": "18s",
            "maintenance": [{"opens": "0 2 * * sun", "lasts": "3h", "timezone": "Europe/Berlin"}],
        }  # fmt: skip
        assert set(told) == set(Limits.model_fields)
        made, usual = action_limits(Limits.model_validate(told)), ActionLimits()
        same = [f.name for f in dataclasses.fields(made) if getattr(made, f.name) == getattr(usual, f.name)]
        assert same == []


class TestCredentials:
    def of(self, **server: Any) -> Any:
        return credentials(config({"name": "a", **server}).servers[0])

    def test_secrets_are_read_when_they_are_needed(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("first\nsecond line\n")
        assert self.of(auth={"bearer_token_file": str(token)}).bearer_token == "first"
        assert self.of(auth={"bearer_token": "t"}).bearer_token == "t"
        found = self.of(auth={"username": "ann", "password": "p"})
        assert (found.username, found.password, found.bearer_token) == ("ann", "p", None)
        token.unlink()
        with pytest.raises(ConfigError, match="bearer_token_file"):
            self.of(auth={"bearer_token_file": str(token)})

    def test_they_are_never_shown(self) -> None:
        assert "hunter2" not in repr(self.of(auth={"username": "ann", "password": "hunter2"}))
        assert "hunter2" not in repr(self.of(auth={"bearer_token": "hunter2"}))

    def test_certificates_are_checked_unless_that_is_switched_off(self) -> None:
        assert self.of().verify is True
        found = self.of(tls={"ca_file": "/ca", "cert_file": "/c", "key_file": "/k", "insecure_skip_verify": True})
        assert (found.ca_file, found.cert_file, found.key_file, found.verify) == ("/ca", "/c", "/k", False)
