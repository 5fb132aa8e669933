from __future__ import annotations

from monitor.simulator.demo import CLIFF_AFTER_SECONDS, demo_servers
from monitor.simulator.options import SimOptions, parse_options


def by_name() -> dict[str, SimOptions]:
    return {server.name: parse_options(server.argv[3:]) for server in demo_servers(range(18200, 18204))}


def length_and_speed(options: SimOptions, k: int, batch: int = 24) -> tuple[float, float]:
    row = options.family.row(k, batch)
    return (row.acceptance_length - 1) / k, row.acceptance_length / row.step_seconds


def test_each_server_has_its_port_and_a_name_that_says_it_is_simulated() -> None:
    servers = demo_servers(range(18200, 18204))
    assert [parse_options(server.argv[3:]).port for server in servers] == [18200, 18201, 18202, 18203]
    for server in servers:
        assert server.name.startswith("sim-") and server.argv[1:3] == ["-m", "monitor.simulator"]
        assert parse_options(server.argv[3:]).model_name == server.name


def test_chat_is_above_70_percent_and_a_raise_pays() -> None:
    chat = by_name()["sim-chat"]
    k = chat.num_speculative_tokens
    rate, speed = length_and_speed(chat, k)
    assert rate > 0.75 and length_and_speed(chat, k + 1)[0] > 0.55
    assert length_and_speed(chat, k + 1)[1] > 1.1 * speed
    assert not chat.faults


def test_code_looks_the_same_and_a_raise_does_not_pay() -> None:
    code = by_name()["sim-code"]
    k = code.num_speculative_tokens
    rate, speed = length_and_speed(code, k)
    (worse,) = code.faults
    first_bad, factor = worse.numbers()
    assert rate > 0.75 and first_bad == k + 1
    assert length_and_speed(code, k + 1)[1] > speed  # the table alone says that it would pay
    for raised in (k + 1, k + 2):
        assert length_and_speed(code, raised)[1] / factor < 0.8 * speed


def test_rag_and_summary_need_no_change_until_the_cliff() -> None:
    for name in ("sim-rag", "sim-summary"):
        options = by_name()[name]
        k, clients = options.num_speculative_tokens, round(options.load.peak)
        rate, speed = length_and_speed(options, k, clients)
        assert 0.52 < rate < 0.68
        assert speed > 0.98 * max(length_and_speed(options, other, clients)[1] for other in (1, 2, 3, 4, 5))
    (cliff,) = by_name()["sim-rag"].faults
    assert cliff.kind == "cliff" and cliff.after_seconds == CLIFF_AFTER_SECONDS
