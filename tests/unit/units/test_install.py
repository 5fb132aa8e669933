"""What is put in place, and what is taken away, on a host that is a folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from monitor.errors import ActionError
from monitor.units.install import adopted, install_plan, uninstall_plan
from monitor.units.permission import RULE, permitted, rule
from monitor.units.plan import Link, Plan, Put, Run

PROGRAM = Path("/opt/acceptd/bin/acceptd")


def paths(plan: Plan) -> set[str]:
    return {str(step.path) for step in plan.pending() if not isinstance(step, Run)}


def test_everything_the_service_needs_is_put_in_place(tmp_path: Path) -> None:
    plan = install_plan({"vllm@a.service"}, PROGRAM, tmp_path)
    assert paths(plan) == {
        "/etc/systemd/system/acceptd.service", "/etc/systemd/system/vllm@.service", "/etc/sysusers.d/acceptd.conf",
        "/etc/tmpfiles.d/acceptd.conf", "/etc/acceptd/acceptd.env", "/etc/acceptd/servers/NAME.env.example",
        str(RULE), "/usr/local/bin/acceptd",
    }  # fmt: skip
    plan.carry_out(lambda argv: None)
    assert install_plan({"vllm@a.service"}, PROGRAM, tmp_path).pending() == ()
    assert permitted(tmp_path) == {"vllm@a.service"}


def test_a_program_that_services_find_already_is_not_linked(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/acceptd").write_text("")
    assert not [step for step in install_plan((), PROGRAM, tmp_path).steps if isinstance(step, Link)]


@pytest.mark.parametrize("place", ["/home/me/venv/bin/acceptd", "/root/venv/bin/acceptd"])
def test_a_program_that_the_service_cannot_see_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(ActionError, match="where the service's user cannot look: install acceptd elsewhere"):
        install_plan((), Path(place), tmp_path)


def test_the_leave_names_what_is_configured_and_what_is_adopted(tmp_path: Path) -> None:
    folder = tmp_path / "etc/systemd/system/mine.service.d"
    folder.mkdir(parents=True)
    (folder / "50-acceptd.conf").write_text("")
    assert adopted(tmp_path) == {"mine.service"}
    install_plan({"vllm@a.service"}, PROGRAM, tmp_path).carry_out(lambda argv: None)
    assert permitted(tmp_path) == {"vllm@a.service", "mine.service"}
    install_plan((), PROGRAM, tmp_path).carry_out(lambda argv: None)
    assert permitted(tmp_path) == {"mine.service"}
    with pytest.raises(ActionError, match=r"`acceptd adopt --release mine\.service` first"):
        uninstall_plan(tmp_path)


def test_what_was_put_in_place_is_taken_away_but_for_what_was_edited(tmp_path: Path) -> None:
    install_plan((), PROGRAM, tmp_path).carry_out(lambda argv: None)
    unit = tmp_path / "etc/systemd/system/acceptd.service"
    unit.write_text(unit.read_text() + "# mine\n")
    plan = uninstall_plan(tmp_path, running=["vllm@a.service", "ssh.service"])
    assert plan.kept() == (Path("/etc/systemd/system/acceptd.service"),)
    assert paths(plan) == {
        "/etc/sysusers.d/acceptd.conf", "/etc/tmpfiles.d/acceptd.conf", str(RULE), "/usr/local/bin/acceptd",
    }  # fmt: skip
    assert any("vllm@.service stays, since vllm@a.service runs" in remark for remark in plan.remarks)
    ran: list[object] = []
    plan.carry_out(ran.append)
    assert ran == [("systemctl", "disable", "--now", "acceptd.service"), ("systemctl", "daemon-reload")]
    assert (tmp_path / "etc/acceptd/acceptd.env").exists() and unit.exists()
    assert uninstall_plan(tmp_path, running=["vllm@a.service"]).pending() == ()


def test_the_rule_names_units_and_verbs_and_nothing_wider() -> None:
    step = rule(["b.service", 'a"b.service'])
    assert isinstance(step, Put)
    [units] = re.findall(r"^    var units = (.*);$", step.text, re.MULTILINE)
    assert json.loads(units) == ['a"b.service', "b.service"]
    assert step.text.count("polkit.Result.YES") == 1 and 'subject.user === "acceptd"' in step.text


def test_a_rule_that_somebody_rewrote_is_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / RULE.relative_to("/")
    path.parent.mkdir(parents=True)
    path.write_text("polkit.addRule(function() { return polkit.Result.YES; });")
    with pytest.raises(ActionError, match="expected the rule of acceptd"):
        permitted(tmp_path)
