"""Settings of a resolved scenario, each by the key under which an experiment file has it.

A resolved scenario has parts that nobody writes: the number of relays lies in ``network.size``, a group's access rates lie below
the way in which its clients are counted. `as_written` is the only place that knows what stands for these in a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onionlab.plan import value_text

#: Keys that say how an experiment is called or how often it is run, not what happens in it.
EXTENT = ("title", "networks", "seeds", "treatments", "sweep")

#: Behind the key that names a file: what is in it, by its digest.
CONTENT = " (content)"

#: Behind the key of a list whose entries go by their names: in which order they stand there.
ORDER = " (order)"

#: End of the key that has the code of a circuit scheduler of one's own.
OWN_CODE = f"circuitmux{CONTENT}"

#: The value of a key that there is not.
NONE = "not set"

#: What an experiment file has for a resolved scenario's keys (`crates/lab/src/scenario/resolved`), tried in this order on each.
_WRITTEN = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"^network\.size\.", "network."),
        (r"^latency-error$", "network.latency-error"),
        # Files: beside where one lies is what it holds.
        (r"^network\.document\.", "network.path."),
        (r"^network\.families\.file\.", "network.families."),
        (r"^(network\.(?:path|latency|geoip|families))\.path$", r"\1"),
        (r"^(.*circuitmux)\.(?:library|python)\.digest$", rf"\1{CONTENT}"),
        (r"^(clients\..*\.load)\.digest$", rf"\1.path{CONTENT}"),
        (r"^(.+)\.digests?$", rf"\1{CONTENT}"),
        (r"^(network\.hosts\..+)\.limit(?:\.rate)?$", r"\1.rate"),
        (r"^(network\.hosts\..+)\.limit\.burst$", r"\1.burst"),
        (r"^(network\.hosts\..+)\.limit\.relayed$", r"\1.relay-rate, relay-burst"),
        # A network document says how many clients a group has; the others write that themselves.
        (r"^(clients\..+)\.members\.document\.clients$", r"\1.count"),
        (r"^(clients\..+)\.members\.(?:count|scaled|share|hosts)\.", r"\1."),
        (r"^(clients\..+)\.onion\.services\.", r"\1.onion."),
        (r"^(predictor|switching)\.", r"\1-"),
    )
)


def as_written(key: str) -> str:
    """The key of an experiment file that a resolved scenario's dotted key stands for; most are the same.

    Examples
    --------
    >>> as_written("network.size.relays"), as_written("clients.web.members.count.down"), as_written("duration")
    ('network.relays', 'clients.web.down', 'duration')
    """
    for pattern, instead in _WRITTEN:
        key = pattern.sub(instead, key)
    return key


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """Settings of a resolved scenario by dotted key; entries of a list that have a name go by it, in an order that is one more.

    What is null there does not exist under the other settings, or was left open where no run says what it came to.

    Examples
    --------
    >>> flatten({"duration": "60 s", "clients": [{"group": "web", "load": {"size": "1 MiB"}}], "jitter": None})
    {'duration': '60 s', 'clients.web.load.size': '1 MiB', 'clients (order)': 'web', 'jitter': 'not set'}
    """
    if isinstance(value, dict) and value:
        found: dict[str, str] = {}
        for key, part in value.items():
            found |= flatten(part, f"{prefix}.{key}" if prefix else str(key))
        return found
    if (
        isinstance(value, list)
        and value
        and all(isinstance(part, dict) and (part.get("group") or part.get("name")) for part in value)
    ):
        found = {}
        for part in value:
            by = "group" if part.get("group") else "name"
            found |= flatten({key: inner for key, inner in part.items() if key != by}, f"{prefix}.{part[by]}")
        # Of clients and hosts that change places the records are others.
        order = ", ".join(str(part.get("group") or part["name"]) for part in value)
        return {**found, f"{as_written(prefix)}{ORDER}": order}
    return {as_written(prefix): NONE if value is None else value_text(value)}


def of_scenario(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Every setting of a scenario but those of its treatments."""
    return flatten(_with_names({key: value for key, value in scenario.items() if key not in EXTENT}))


def _with_names(scenario: dict[str, Any]) -> dict[str, Any]:
    """A scenario in which hosts of a network by hand go by their names, where it has their places in the list of them."""
    network, clients = scenario.get("network"), scenario.get("clients")
    hosts = network.get("hosts") if isinstance(network, dict) else None
    if not isinstance(network, dict) or not isinstance(hosts, list):
        return scenario
    names = [host.get("name") if isinstance(host, dict) else None for host in hosts]

    def named(place: Any) -> Any:
        if isinstance(place, list):
            return [named(one) for one in place]
        return names[place] if type(place) is int and 0 <= place < len(names) else place

    def of_group(group: Any) -> Any:
        match group:
            case {"members": {"hosts": dict(members)}}:
                return {**group, "members": {"hosts": {key: named(value) for key, value in members.items()}}}
        return group

    def of_link(link: Any) -> Any:
        match link:
            case {"between": list(ends)}:
                return {**link, "between": sorted(named(ends), key=str)}
        return link

    written: dict[str, Any] = {}
    if isinstance(network.get("links"), list):
        written["links"] = [of_link(link) for link in network["links"]]
    if "families" in network:
        written["families"] = named(network["families"])
    with_groups = {"clients": [of_group(group) for group in clients]} if isinstance(clients, list) else {}
    return {**scenario, "network": {**network, **written}, **with_groups}


def of_treatment(own: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A treatment's settings; of the relays that it leaves alone only those that are other there."""
    found: dict[str, str] = {}
    for key, value in own.items():
        if key in ("name", "slug"):
            continue
        if key == "circuitmux" and isinstance(value, dict):
            found[f"{prefix}{key}"] = _own_policy(value)
            # Where its code lies is in the short form, and in a file it is one text.
            value = {name: _content(part) for name, part in value.items()}
        if key == "relays" and isinstance(value, dict):
            others = {name: setting for name, setting in value.get("others", {}).items() if setting != own.get(name)}
            found |= of_treatment(others, f"{prefix}{key}.others.")
            value = {name: setting for name, setting in value.items() if name != "others"}
        found |= flatten(value, f"{prefix}{key}")
    return found


def of_run(scenario: Mapping[str, Any], treatment: str) -> dict[str, str]:
    """Every setting on which the records of a run depend."""
    own: Mapping[str, Any] = next((entry for entry in scenario.get("treatments", []) if entry.get("name") == treatment), {})
    found = of_scenario(scenario) | of_treatment(own)
    found.pop("measure-from", None)
    return found


def differing(there: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Keys whose values are not the same, with both.

    Examples
    --------
    >>> differing({"duration": "60 s", "network.relays": "12"}, {"duration": "60 s", "network.relays": "14", "nagle": "true"})
    {'network.relays': ('12', '14'), 'nagle': ('not set', 'true')}
    """
    keys = dict.fromkeys([*there, *now])
    pairs = {key: (there.get(key, NONE), now.get(key, NONE)) for key in keys}
    return {key: pair for key, pair in pairs.items() if are_told_apart(key, pair)}


def are_told_apart(key: str, values: Sequence[str | None]) -> bool:
    """Whether the values of a key are not all the same; orders are another only where the same entries stand in them.

    Examples
    --------
    >>> are_told_apart("clients (order)", ["web, bulk", "bulk, web"]), are_told_apart("clients (order)", ["web, bulk", "web"])
    (True, False)
    """
    different = set(values)
    if key.endswith(ORDER):
        return len(different) > len({None if order is None else tuple(sorted(order.split(", "))) for order in different})
    return len(different) > 1


def _content(code: Any) -> Any:
    """Of the code of a circuit scheduler what is in it, without where that lies; anything else as it is."""
    if isinstance(code, dict) and "path" in code:
        return {key: value for key, value in code.items() if key not in ("path", "class")}
    return code


def _own_policy(circuitmux: Mapping[str, Any]) -> str:
    """A circuit scheduler of one's own in short, such as ``python shortest_queue.py:ShortestQueue``.

    Examples
    --------
    >>> _own_policy({"python": {"path": "/mine/shortest_queue.py", "class": "ShortestQueue", "digest": "5c"}, "parameters": {}})
    'python shortest_queue.py:ShortestQueue'
    """
    for language, code in circuitmux.items():
        if isinstance(code, dict) and "path" in code:
            name = code.get("class")
            return f"{language} {Path(code['path']).name}{f':{name}' if name else ''}"
    return "own"
