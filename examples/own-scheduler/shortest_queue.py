"""Shortest queue first, in Python: the same policy as in src/lib.rs, which decides alike and takes longer."""


class ShortestQueue:
    """The policy of one channel's circuits in one direction; circuits are numbers, times nanoseconds."""

    def __init__(self, patience: float = 1.0) -> None:
        self.patience = round(patience * 1e9)
        self.now = 0
        #: Each active circuit with its queue in cells and since when it waits for its turn.
        self.waiting: dict[int, list[int]] = {}

    def first(self) -> tuple[int, int, int]:
        """The rank of the circuit that goes first, and its number."""
        return min(
            (cells if self.now - since < self.patience else 0, since, circuit) for circuit, (cells, since) in self.waiting.items()
        )

    def notify_set_cells(self, circuit: int, cells: int, now: int) -> None:
        self.now = now
        if cells > 0:
            self.waiting.setdefault(circuit, [0, now])[0] = cells
        else:
            self.waiting.pop(circuit, None)

    def notify_inactive(self, circuit: int, now: int) -> None:
        self.waiting.pop(circuit, None)

    def notify_sent(self, circuit: int, cells: int, now: int) -> None:
        self.waiting[circuit][1] = now

    def pick(self, now: int) -> int | None:
        self.now = now
        return self.first()[2]

    def compare(self, other: "ShortestQueue") -> int:
        ours, theirs = self.first()[:2], other.first()[:2]
        return (ours > theirs) - (ours < theirs)
