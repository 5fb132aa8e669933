"""Whether a server is part of a larger engine, from its options. Such a server is watched, never restarted alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from monitor.launch.speculation import load_json

#: Options that make a server one of several, from which value on.
_ONE_OF: Final = (
    ("nnodes", 2, "one of several nodes"),
    ("node_rank", 1, "one of several nodes"),
    ("data_parallel_rank", 0, "one rank of an external data-parallel group"),
    ("data_parallel_start_rank", 1, "one node of a data-parallel group"),
)
_SWITCHES: Final = (
    ("data_parallel_external_lb", "one rank of an external data-parallel group"),
    ("data_parallel_hybrid_lb", "one node of a data-parallel group"),
    ("headless", "a node without an API of its own"),
)
#: Connectors that keep KV blocks of one server elsewhere, as long as their role is `kv_both`; the others of vLLM
#: 0.32.0 (`kv_connector/factory.py`) move them between servers.
_OFFLOADING: Final = frozenset(
    {
        "FlexKVConnectorV1",
        "LMCacheConnectorV1",
        "LMCacheMPConnector",
        "OffloadingConnector",
        "SimpleCPUOffloadConnector",
    }
)


def part_of(options: Mapping[str, object]) -> str | None:
    """Why the server is part of a larger engine, naming the option; None where it stands alone.

    In doubt (a connector that is not known) it is told to be part of one.
    """
    for key, least, words in _ONE_OF:
        value = options.get(key)
        if isinstance(value, int) and value >= least:
            return f"{words} ({_flag(key)} {value})"
    for key, words in _SWITCHES:
        if options.get(key) is True:
            return f"{words} ({_flag(key)})"
    here, everywhere = options.get("data_parallel_size_local"), options.get("data_parallel_size")
    if isinstance(here, int) and isinstance(everywhere, int) and here < everywhere:
        return f"one node of a data-parallel group ({here} of {everywhere} ranks are here)"
    if "kv_transfer_config" in options and not _is_offloading(options["kv_transfer_config"]):
        return "one side of a prefill/decode pair (--kv-transfer-config)"
    if options.get("disaggregation_mode", "null") != "null":
        return f"one side of a prefill/decode pair (--disaggregation-mode {options['disaggregation_mode']})"
    return None


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _is_offloading(text: object) -> bool:
    try:
        config = load_json(str(text))
    except ValueError:
        return False
    return (
        isinstance(config, dict)
        and config.get("kv_role") == "kv_both"
        and config.get("kv_connector") in _OFFLOADING
    )
