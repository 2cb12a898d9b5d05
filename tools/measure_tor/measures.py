# ruff: noqa: B023, E501  (each lambda is called before the loop goes on; some sentences are long)
"""What is measured: CPU time of each process over known loads, and what passes between processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import load
from network import RELAYS, Network, Plan, running

ROLES = (*RELAYS, "client")
#: A cell and its share of a record of 4,048 bytes with 22 of overhead.
CELL_ON_WIRE = 514 * (1 + 22 / 4048)
#: DATA payload of a cell where both ends speak the newest relay crypto.
PAYLOAD = 488
SIZES = (5_000_000, 20_000_000, 40_000_000)
#: Cells' worth of payload that the server writes at once, every two milliseconds.
PACED = (1, 4, 16)
PACE = 0.002
CIRCUITS = 200


@dataclass(frozen=True)
class Counters:
    """What a process has used and moved since it started."""

    main: int
    workers: int
    ticks: int
    read: int
    written: int


@dataclass(frozen=True)
class Row:
    """One process over one load: nanoseconds of CPU and cells."""

    load: str
    role: str
    main: int
    workers: int
    #: User and system time as the process's own statistics count it, in hundredths of a second.
    ticks: int
    cells: float

    @property
    def per_cell(self) -> float:
        """Microseconds of the main thread for each cell."""
        return self.main / 1000 / self.cells


def _counters(network: Network, role: str) -> Counters:
    pid = network.nodes[role].pid
    main = workers = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        spent = int((task / "schedstat").read_text().split()[0])
        if int(task.name) == pid:
            main += spent
        else:
            workers += spent
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    control = network.controls[role]
    return Counters(
        main, workers, int(fields[11]) + int(fields[12]), int(control.info("traffic/read")), int(control.info("traffic/written"))
    )


def _over(network: Network, name: str, work: Callable[[], object]) -> list[Row]:
    before = {role: _counters(network, role) for role in ROLES}
    work()
    time.sleep(0.3)
    rows = []
    for role, start in before.items():
        end = _counters(network, role)
        # A relay sends on what it takes in; a client keeps it. An exit's bytes from the server are on neither account.
        moved = end.read - start.read if role == "client" else end.written - start.written
        rows.append(
            Row(
                name,
                role,
                end.main - start.main,
                end.workers - start.workers,
                end.ticks - start.ticks,
                max(1.0, moved / CELL_ON_WIRE),
            )
        )
    return rows


def first_download(network: Network, server: load.Server) -> None:
    """Builds the circuit that all streams use and warms it up. While a young network still votes, a circuit may be refused: three attempts."""
    client = network.controls["client"]
    path = [network.nodes[role].fingerprint for role in RELAYS]
    for attempt in range(3):
        client.attach_streams_to(client.circuit(path))
        try:
            load.download(network.socks_port, server.port, SIZES[0])
            return
        except ConnectionError:
            if attempt == 2:
                raise


def cpu(tor: str, repeats: int, say: Callable[[str], None]) -> tuple[list[Row], list[Row]]:
    """Rows of downloads, and of circuits built (there `cells` counts the handshakes of a relay)."""
    downloads: list[Row] = []
    handshakes: list[Row] = []
    with running(tor) as network:
        server = load.Server()
        client = network.controls["client"]
        path = [network.nodes[role].fingerprint for role in RELAYS]
        first_download(network, server)
        for repeat in range(repeats):
            say(f"downloads, {repeat + 1} of {repeats}")
            for size in SIZES:
                name = f"bulk, {size // 1_000_000} MB"
                downloads += _over(network, name, lambda: load.download(network.socks_port, server.port, size))
            for cells in PACED:
                size = PAYLOAD * cells * 2000
                name = f"{cells} every 2 ms"
                downloads += _over(
                    network, name, lambda: load.download(network.socks_port, server.port, size, PAYLOAD * cells, PACE)
                )
        for repeat in range(repeats):
            say(f"circuits, {repeat + 1} of {repeats}")
            built: list[str] = []
            rows = _over(network, f"{CIRCUITS} circuits", lambda: built.extend(client.circuits(path, CIRCUITS)))
            handshakes += [Row(row.load, row.role, row.main, row.workers, row.ticks, max(1, len(built))) for row in rows]
        server.close()
    return downloads, handshakes


@dataclass(frozen=True)
class Wire:
    """What passed between processes."""

    #: Who opened the connection: for each, the bytes of the flights (initiator, responder, initiator, responder, initiator).
    flights: dict[str, list[int]]
    #: Sizes of the records that the exit wrote towards the middle, header included, during a download.
    records: Counter[int]


def wire(tor: str, say: Callable[[str], None]) -> Wire:
    """Channels being opened, and the records of a loaded exit."""
    with running(tor, Plan(tapped=True)) as network:
        say("flights and records")
        server = load.Server()
        first_download(network, server)
        flights: dict[str, list[int]] = {}
        for role in RELAYS:
            tap = network.nodes[role].tap
            assert tap is not None
            for connection in tap.connections:
                sizes = _flights([(record.from_initiator, record.size) for record in connection.records])
                if len(sizes) == 5:
                    # Only a relay authenticates itself: two cells, its certificates and the signature.
                    flights.setdefault("a relay" if sizes[4] > 1500 else "a client", sizes)
        tap = network.nodes["exit"].tap
        assert tap is not None
        for connection in tap.connections:
            connection.records.clear()
        load.download(network.socks_port, server.port, SIZES[1])
        records = Counter(
            record.size for connection in tap.connections for record in connection.records if not record.from_initiator
        )
        server.close()
    return Wire(flights, records)


def _flights(records: list[tuple[bool, int]]) -> list[int]:
    """Sums of the records of one direction until one of the other comes: the first five, if there are as many.

    The responder's session tickets may cross the initiator's VERSIONS, and its answer follows them: what it sends until the initiator's
    last flight is one flight here.
    """
    sizes = [0] * 5
    # The third flight ends with VERSIONS, the only short record of the initiator's after its Finished.
    flight = 0
    for from_initiator, size in records:
        if flight == 0 and not from_initiator:
            flight = 1
        elif flight == 1 and from_initiator:
            flight = 2
        elif flight >= 2 and from_initiator and size > 200:
            flight = 4
        if flight < 2:
            sizes[flight] += size
        elif flight == 2:
            sizes[2 if from_initiator else 3] += size
        elif from_initiator:
            sizes[4] += size
            # CERTS and AUTHENTICATE of a relay come before NETINFO, the first cell of a client's; what follows is not the opening's.
            return sizes
    return sizes if flight == 4 else []
