"""Options of tor that a whole experiment has, gathered from the torrcs of its hosts; and what is left out of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from onionlab.errors import ImportedError
from onionlab.importing.options import (
    OF_ALL,
    OF_CLIENTS,
    OF_RELAYS,
    Notes,
    TorOptions,
    consensus_params,
    milliseconds,
    of_client,
    scheduler,
    whole,
)
from onionlab.importing.torrc import Line, Torrc
from onionlab.untrusted import clipped

#: What an authority votes for.
PARAMS = "consensusparams"

#: Most directory authorities; the live network has nine.
MOST_AUTHORITIES = 100

#: Most guards that an experiment can have.
MOST_GUARDS = 20

#: As a torrc has them. The first is the default of `UseEntryGuards`, and of `EnforceDistinctSubnets` but for testing networks.
TRUE, FALSE = "1", "0"


class Common:
    """The options that all hosts, or all clients, share."""

    def __init__(self) -> None:
        self._notes = Notes()
        self._values: dict[str, dict[str, list[tuple[Line | None, str]]]] = {}
        self._params: list[dict[str, int]] = []
        self._without_torrc = 0

    def relay(self, torrc: Torrc, host: str, exits: bool) -> None:
        """Take in a relay's options; ``exits``: whether its name says that it is an exit."""
        self._value("circuitpriorityhalflife", torrc, host, "")
        self._read("schedulers", torrc, host, scheduler, "kist")
        self._read("kistschedruninterval", torrc, host, milliseconds, 0)
        if exits:
            self._value("confluxenabled", torrc, host, "auto", "exits")
        if "authoritativedirectory" in torrc.options:
            self._params.append(consensus_params(torrc.options.get(PARAMS, ())))
            if len(self._params) > MOST_AUTHORITIES:
                raise ImportedError(
                    f"{clipped(host, 64)} is the directory authority after the {MOST_AUTHORITIES} that are taken in"
                )
        self._notes.look(torrc, host, OF_RELAYS | OF_ALL | {PARAMS})

    def client(self, torrc: Torrc, host: str, usual: TorOptions) -> TorOptions:
        """Take in a client's options; without any it has what tornettools writes, ``usual``."""
        if not torrc.options:
            self._without_torrc += 1
            self._values.setdefault("useentryguards", {}).setdefault(FALSE, []).append((None, host))
            self._values.setdefault("enforcedistinctsubnets", {}).setdefault(FALSE, []).append((None, host))
            return usual
        testing = torrc.last("testingtornetwork")
        self._value("useentryguards", torrc, host, TRUE)
        self._read("numentryguards", torrc, host, lambda line: whole(line, 0, MOST_GUARDS), 0)
        self._value("enforcedistinctsubnets", torrc, host, FALSE if testing is not None and testing.value == TRUE else TRUE)
        self._value("confluxenabled", torrc, host, "auto", "clients")
        self._notes.look(torrc, host, OF_CLIENTS | OF_ALL)
        return of_client(torrc)

    def agreed(self, option: str, otherwise: bool) -> bool:
        """What most hosts say, ``otherwise`` where none says anything; the others are in the notes."""
        found = self._values.get(option, {})
        if not found:
            return otherwise
        return self._most(found) == TRUE

    def guards(self) -> int | None:
        """How many guards clients use, 0 without any; None: tor's default."""
        if not self.agreed("useentryguards", True):
            return 0
        found = self._values.get("numentryguards", {})
        return (int(self._most(found)) or None) if found else None

    def scheduler(self) -> str | None:
        """The channel scheduler of the relays; None: tor's default, KIST."""
        found = self._values.get("schedulers", {})
        most = self._most(found) if found else "kist"
        return None if most == "kist" else most

    def kist_interval(self) -> int | None:
        """``KISTSchedRunInterval`` of the relays in milliseconds; None: as the consensus says."""
        found = self._values.get("kistschedruninterval", {})
        return (int(self._most(found)) or None) if found else None

    def half_life(self) -> float | None:
        """``CircuitPriorityHalflife`` of the relays, in seconds; None: tor's default."""
        found = self._values.get("circuitpriorityhalflife", {})
        value = self._most(found) if found else ""
        # Less than nothing stands for the consensus, and next to nothing is refused by tor.
        return float(value) if re.fullmatch(r"\d{1,5}(\.\d{1,6})?", value) and float(value) >= 0.01 else None

    def conflux(self) -> bool | None:
        """Whether there is Conflux, which takes a client and an exit that have it on; None: tor's default."""
        found = [self._values.get(f"confluxenabled {which}", {}) for which in ("clients", "exits")]
        most = {self._most(values) for values in found if values}
        return False if FALSE in most else True if most == {TRUE} else None

    def params(self) -> dict[str, int]:
        """Parameters of the consensus: each with the middle value of the authorities that name it, if most do, or three."""
        names = {name for params in self._params for name in params}
        votes = {name: sorted(params[name] for params in self._params if name in params) for name in names}
        # The lower of two in the middle (`dirvote_compute_params`).
        enough = min(3, len(self._params) // 2 + 1)
        return {name: values[(len(values) - 1) // 2] for name, values in votes.items() if len(values) >= enough}

    def sentences(self) -> list[str]:
        """What was left out or assumed."""
        silent: list[str] = []
        for found in self._values.values():
            most = self._most(found)
            # As a torrc of those who say it has the option.
            written = next((line.name for line, _ in found[most] if line is not None), "")
            without = 0
            for value, hosts in found.items():
                for line, host in hosts:
                    if value != most and line is not None:
                        self._notes.add(line, host, "is not taken in: most hosts have another value")
                    without += value != most and line is None
            if without and written:
                hosts_get = "1 host without" if without == 1 else f"{without:,} hosts without"
                silent.append(f"torrc: {hosts_get} `{written}`: what most hosts say is taken for all.")
        sentences = [*self._notes.sentences(), *silent]
        if self._without_torrc:
            some = f"{self._without_torrc:,} clients have no torrc: they get"
            have = "1 client has no torrc: it gets" if self._without_torrc == 1 else some
            sentences.insert(0, f"{have} the options that tornettools writes.")
        if params := self.params():
            names = ", ".join(sorted(params)[:10]) + (", ..." if len(params) > 10 else "")
            sentences.append(
                f"torrc: ConsensusParams ({names}) are in network.json; what the simulator does not know changes nothing."
            )
        return sentences

    def _value(self, option: str, torrc: Torrc, host: str, default: str | None = None, of: str = "") -> None:
        line = torrc.last(option)
        value = line.value.strip().lower() if line is not None else default
        if value is not None:
            self._values.setdefault(f"{option} {of}".strip(), {}).setdefault(value, []).append((line, host))

    def _read(self, option: str, torrc: Torrc, host: str, read: Callable[[Line], object], default: object) -> None:
        """As `_value` of an option with several ways to write a value."""
        line = torrc.last(option)
        value = str(default if line is None else read(line))
        self._values.setdefault(option, {}).setdefault(value, []).append((line, host))

    @staticmethod
    def _most(found: dict[str, list[tuple[Line | None, str]]]) -> str:
        """The commonest value; of equally common ones the first."""
        return max(found, key=lambda value: len(found[value]))
