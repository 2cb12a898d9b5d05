//! The tables that a run leaves: names, columns, units, meanings. A column's meaning never changes silently.

use super::table::{Column, Kind, Table};

pub(super) const CLIENT: Column = Column::new("client", Kind::Text, "", "Name of the client's host.");
pub(super) const GROUP: Column = Column::new("group", Kind::Text, "", "The client's group in the experiment file.");
pub(super) const TIME: Column =
    Column::new("time_ns", Kind::I64, "ns", "End of the sample interval, since the start of the simulation.");

/// One row per transfer, in the order in which they ended.
pub const TRANSFERS: Table = Table {
    name: "transfers",
    description: "One row per transfer, which is a stream of a client's program, in the order in which they ended. Times are since the start of the simulation; none = did not happen.",
    columns: &[
        CLIENT,
        GROUP,
        Column::new("ordinal", Kind::U32, "1", "Number of the transfer among those of its client, from 0."),
        Column::new("user", Kind::U32, "1", "Which of the client's users, from 0; 0 where its flows do not wait for each other."),
        Column::new("flow", Kind::U32, "1", "Number of the flow among those of that user, from 0."),
        Column::new(
            "exchange",
            Kind::Text,
            "",
            "What its ends send each other: \"download\", a request and its answer, whichever is longer, or \"script\".",
        ),
        Column::new("circuit", Kind::U32, "1", "The circuit that carried it, the last of several; none if it never got one.")
            .nullable(),
        Column::new("retries", Kind::U32, "1", "Circuits that were given up because the exit did not answer in time."),
        Column::new("size_bytes", Kind::U64, "B", "What the server was to send; of a script, as far as the client knows."),
        Column::new("received_bytes", Kind::U64, "B", "Payload that arrived."),
        Column::new("sent_bytes", Kind::U64, "B", "Payload that the client's tor took from the program."),
        Column::new("start_ns", Kind::I64, "ns", "The application opened the stream."),
        Column::new("connected_ns", Kind::I64, "ns", "CONNECTED arrived.").nullable(),
        Column::new("answered_ns", Kind::I64, "ns", "The first byte of the answer arrived, be it one of its header.").nullable(),
        Column::new("first_byte_ns", Kind::I64, "ns", "The first byte of the answer beyond its header arrived.").nullable(),
        Column::new("last_byte_ns", Kind::I64, "ns", "The last byte of the answer arrived.").nullable(),
        Column::new("end_ns", Kind::I64, "ns", "The transfer ended, well or not."),
        Column::new(
            "outcome",
            Kind::Text,
            "",
            "\"ok\", \"timeout\", \"stall\", \"circuit-closed\", \"no-circuit\" (it waited for one for too long) or \"unfinished\".",
        ),
    ],
};

/// One row per circuit.
pub const CIRCUITS: Table = Table {
    name: "circuits",
    description: "One row per circuit, in the order in which they were closed, then those still open.",
    columns: &[
        Column::new("circuit", Kind::U32, "1", "The circuit's number, in order of launch."),
        CLIENT,
        GROUP,
        Column::new("guard", Kind::Text, "", "First relay."),
        Column::new("middle", Kind::Text, "", "Second relay."),
        Column::new("exit", Kind::Text, "", "Last relay."),
        Column::new("launched_ns", Kind::I64, "ns", "The client began to build it."),
        Column::new("built_ns", Kind::I64, "ns", "The last EXTENDED2 arrived.").nullable(),
        Column::new("closed_ns", Kind::I64, "ns", "It was closed.").nullable(),
        Column::new(
            "outcome",
            Kind::Text,
            "",
            "\"open\" at the end of the run, \"closed\" after it was built, \"failed\" before.",
        ),
        Column::new(
            "reason",
            Kind::Text,
            "",
            "Why it was closed, wherever that happened first: \"finished\", \"build-timeout\", \"measurement-expired\", \"queue-limit\", \"out-of-memory\", \"handshake-queue\", \"channel-closed\", \"out-of-sockets\" (a relay could open no further connection), \"no-rendezvous\" (client and onion service did not meet) or \"protocol\"; with switching also \"switched\", \"switch-failed\" and \"dropped-idle\"; \"none\" if it was not.",
        ),
        Column::new(
            "purpose",
            Kind::Text,
            "",
            "\"exit\" for streams, \"leg\" in a Conflux set, for streams too; \"internal\" if built ahead for onion services; with those also \"rendezvous\" (a client's, for streams to a service) and \"introduce\", \"service-rendezvous\" and \"service-introduction\".",
        ),
        Column::new(
            "timed_out",
            Kind::Text,
            "",
            "\"yes\" if it took longer than the client waits for circuits: it was built on to measure how long it takes, and no stream used it.",
        ),
        Column::new("cells_in", Kind::U64, "cell", "DATA cells that reached the client."),
        Column::new("cells_out", Kind::U64, "cell", "DATA cells that reached the exit, or the onion service."),
        Column::new(
            "cwnd",
            Kind::U32,
            "cell",
            "The congestion window of the exit, or of the onion service, at the end; none with fixed windows.",
        )
        .nullable(),
        Column::new(
            "min_rtt_ns",
            Kind::I64,
            "ns",
            "Least smoothed round-trip time that the exit's SENDMEs measured; none before the first.",
        )
        .nullable(),
        Column::new("ewma_rtt_ns", Kind::I64, "ns", "Smoothed round-trip time at the end, of the same SENDMEs.").nullable(),
        Column::new("third", Kind::Text, "", "The third of four relays; \"\" where there are three."),
        Column::new(
            "joined_ns",
            Kind::I64,
            "ns",
            "With purpose \"rendezvous\": RENDEZVOUS2 arrived, so that streams to the service could begin; none if it did not.",
        )
        .nullable(),
    ],
};

/// One row per channel.
pub const CHANNELS: Table = Table {
    name: "channels",
    description: "One row per channel, in the order in which they were closed, then those still open in the order of their opening.",
    columns: &[
        Column::new("channel", Kind::U32, "1", "The channel's number, in order of opening."),
        Column::new(
            "kind",
            Kind::Text,
            "",
            "What it was for: \"shared\" (all circuits of its two hosts), \"circuit\" (one), \"stream\" (one, as a stream of a QUIC connection, whose first stream is \"shared\" and carries no circuits), \"light\" or \"heavy\" (circuits of that class), \"control\" (the trajectories of one circuit, where relays plan).",
        ),
        Column::new("opener", Kind::Text, "", "Name of the host that connected."),
        Column::new("peer", Kind::Text, "", "Name of the host that accepted."),
        Column::new("opened_ns", Kind::I64, "ns", "The opener began to connect."),
        Column::new("open_ns", Kind::I64, "ns", "The opener had finished the handshakes; none = it never did.").nullable(),
        Column::new("closed_ns", Kind::I64, "ns", "It was closed; none = open at the end of the run.").nullable(),
        Column::new(
            "close_reason",
            Kind::Text,
            "",
            "\"idle\": it had no circuits for long enough; \"circuit\": the circuit that had it to itself was closed; \"lost\": TCP gave the connection up; \"none\" if it is open.",
        ),
        Column::new("cells_to_peer", Kind::U64, "cell", "Cells that the opener moved to its outbuf."),
        Column::new("cells_to_opener", Kind::U64, "cell", "Cells that the peer moved to its outbuf."),
        Column::new("bytes_to_peer", Kind::U64, "B", "Bytes that the opener wrote to TCP: TLS records and the handshakes."),
        Column::new("bytes_to_opener", Kind::U64, "B", "Bytes that the peer wrote to TCP."),
        Column::new("circuits", Kind::U32, "1", "Circuits that ever extended over it, or were moved to it, in either direction."),
        Column::new("most_circuits", Kind::U32, "1", "Most of them at one time."),
        Column::new(
            "held_bytes_to_peer",
            Kind::U64,
            "B",
            "Bytes that waited in the peer's socket for lost bytes of other circuits (head-of-line blocking).",
        ),
        Column::new("held_to_peer", Kind::F64, "B s", "How long they did, summed over the bytes."),
        Column::new("held_bytes_to_opener", Kind::U64, "B", "The same in the opener's socket."),
        Column::new("held_to_opener", Kind::F64, "B s", "How long they did, summed over the bytes."),
    ],
};

/// One row per relay and sample interval.
pub const RELAYS: Table = Table {
    name: "relays",
    description: "One row per relay and sample interval.",
    columns: &[
        TIME,
        Column::new("relay", Kind::Text, "", "Name of the relay's host."),
        Column::new("class", Kind::Text, "", "\"guard\", \"middle\", \"exit\" or \"guard-exit\", by the relay's flags."),
        Column::new("capacity_bits", Kind::U64, "bit/s", "What it can send: its uplink, or its rate limit where that is lower."),
        Column::new("bytes_sent", Kind::U64, "B", "Sent on the wire in the interval, headers included."),
        Column::new("bytes_received", Kind::U64, "B", "Received on the wire in the interval, headers included."),
        Column::new("cells_sent", Kind::U64, "cell", "Cells moved from circuit queues to outbufs in the interval."),
        Column::new("queued_cells", Kind::U32, "cell", "Cells in circuit queues at the end of the interval."),
        Column::new("outbuf_bytes", Kind::U64, "B", "Bytes in outbufs at the end of the interval."),
        Column::new("queue_wait_ns", Kind::U64, "ns", "Time in circuit queues, summed over the cells sent in the interval."),
        Column::new(
            "cpu_busy_ns",
            Kind::U64,
            "ns",
            "Time for which its main thread computed in the interval; 0 where computing takes no time.",
        ),
        Column::new("packets_sent", Kind::U32, "packet", "Packets that left in the interval through its uplink."),
        Column::new(
            "uplink_drops",
            Kind::U32,
            "packet",
            "Packets dropped in the interval before its uplink, with uplink-queue \"drop-tail\" or \"small-queues\".",
        ),
        Column::new("downlink_drops", Kind::U32, "packet", "Packets dropped in the interval by the queue before its downlink."),
        Column::new(
            "sockets",
            Kind::U32,
            "1",
            "Sockets that its tor has open at the end of the interval: ends of channels and connections to servers.",
        ),
        Column::new("most_sockets", Kind::U32, "1", "Most of them at one time in the interval."),
        Column::new("sockets_opened", Kind::U32, "1", "Sockets that it opened or accepted in the interval."),
        Column::new("sockets_closed", Kind::U32, "1", "Sockets that it closed in the interval."),
        Column::new(
            "sockets_refused",
            Kind::U32,
            "1",
            "Connections that it could not open, or not accept at once, in the interval, because of its socket-limit.",
        ),
        Column::new(
            "socket_bytes",
            Kind::U64,
            "B",
            "Payload in these sockets' kernel buffers at the end of the interval: written and not acknowledged, received and not read, received behind a hole.",
        ),
        Column::new(
            "connection_bytes",
            Kind::U64,
            "B",
            "What its open connections to relays and clients cost apart from what waits in them, at the end of the interval: 20,400 bytes each in tor, OpenSSL and the kernel.",
        ),
        Column::new(
            "circuits_moved",
            Kind::U32,
            "1",
            "Queues of circuits that it moved between light and heavy connections in the interval.",
        ),
        Column::new(
            "held_bytes",
            Kind::U64,
            "B",
            "Bytes in its sockets whose wait for lost bytes of other circuits ended in the interval (head-of-line blocking).",
        ),
        Column::new("held", Kind::F64, "B s", "How long they waited, summed over the bytes."),
        Column::new("utilisation", Kind::F64, "1", "bytes_sent over what capacity_bits allows in the interval."),
        Column::new(
            "treated",
            Kind::Text,
            "",
            "\"no\" if the treatment is for some of the relays and this is none of them, else \"yes\".",
        ),
    ],
};

/// One row per sample interval.
pub const NETWORK: Table = Table {
    name: "network",
    description: "One row per sample interval: the network as a whole.",
    columns: &[
        TIME,
        Column::new("goodput_bytes", Kind::U64, "B", "Payload delivered to clients in the interval."),
        Column::new("relay_bytes_sent", Kind::U64, "B", "Sent by all relays in the interval, headers included."),
        Column::new("transfers_ok", Kind::U64, "1", "Transfers completed since the start."),
        Column::new("transfers_failed", Kind::U64, "1", "Transfers failed since the start."),
        Column::new("active_circuits", Kind::U32, "1", "Circuits with an open stream at the end of the interval."),
        Column::new(
            "links",
            Kind::U32,
            "1",
            "Pairs of relays, whatever the direction, with at least one part of an active circuit.",
        ),
        Column::new("shared_links", Kind::U32, "1", "Of these, pairs with two parts or more."),
        Column::new("links_directed", Kind::U32, "1", "The same, A to B and B to A being two links (away from the client)."),
        Column::new("shared_links_directed", Kind::U32, "1", "Of these, links with two parts or more."),
        Column::new("links_guard_middle", Kind::U32, "1", "Directed links, counting only parts from guard to middle."),
        Column::new("shared_links_guard_middle", Kind::U32, "1", "Of these, links with two parts or more."),
        Column::new("links_middle_exit", Kind::U32, "1", "Directed links, counting only parts from middle to exit."),
        Column::new("shared_links_middle_exit", Kind::U32, "1", "Of these, links with two parts or more."),
        Column::new(
            "circuits_one_shared",
            Kind::U32,
            "1",
            "Active circuits with one of their two parts on a shared directed link.",
        ),
        Column::new("circuits_two_shared", Kind::U32, "1", "Active circuits with both parts on shared directed links."),
        Column::new(
            "busy_circuits",
            Kind::U32,
            "1",
            "Built circuits of which a relay cell left the client or came to it in the interval.",
        ),
        Column::new("busy_links_directed", Kind::U32, "1", "Directed links with at least one part of a busy circuit."),
        Column::new("shared_busy_links_directed", Kind::U32, "1", "Of these, links with two parts or more."),
        Column::new("utilisation_guard", Kind::F64, "1", "Bytes sent over capacity, all relays with the Guard flag only.")
            .nullable(),
        Column::new("utilisation_middle", Kind::F64, "1", "The same, relays with neither the Guard nor the Exit flag.")
            .nullable(),
        Column::new("utilisation_exit", Kind::F64, "1", "The same, relays with the Exit flag only.").nullable(),
        Column::new("utilisation_guard_exit", Kind::F64, "1", "The same, relays with both flags.").nullable(),
    ],
};

/// One row: what was run and what it took.
pub const RUN: Table = Table {
    name: "run",
    description: "One row: what was run and what it took.",
    columns: &[
        Column::new("scenario", Kind::Text, "", "The resolved experiment as canonical JSON."),
        Column::new("treatment", Kind::Text, "", "The treatment's name."),
        Column::new("treatment_json", Kind::Text, "", "The treatment's value on every axis, as JSON."),
        Column::new("network", Kind::U32, "1", "Index of the sampled network, from 0."),
        Column::new("network_seed", Kind::U64, "1", "Seed of the sampled network."),
        Column::new("seed", Kind::U64, "1", "Seed of the run within its network, as in the experiment file."),
        Column::new("version", Kind::Text, "", "Version of onionlab.").provenance(),
        Column::new("build", Kind::Text, "", "Identity of its code: a hash of the sources.").provenance(),
        Column::new("sim_seconds", Kind::F64, "s", "Simulated time."),
        Column::new("events", Kind::U64, "1", "Events handled."),
        Column::new("cell_hops", Kind::U64, "cell", "Cells moved by relays from circuit queues to outbufs."),
        Column::new("wall_seconds", Kind::F64, "s", "Time that the run took.").provenance(),
        Column::new(
            "cpu_seconds",
            Kind::F64,
            "s",
            "Processor time that the run took, policies of the user's own included; none where the kernel does not say.",
        )
        .nullable()
        .provenance(),
        Column::new("peak_memory_bytes", Kind::U64, "B", "Greatest resident memory of the process so far.").provenance(),
        Column::new("relays", Kind::U32, "1", "Number of relays."),
        Column::new("clients", Kind::U32, "1", "Number of clients."),
        Column::new(
            "divergence_json",
            Kind::Text,
            "",
            "How the sampled network differs from its source, and what a load target was estimated to need, as JSON; \"null\" if by hand.",
        ),
    ],
};

/// One row per circuit SENDME at the exits of traced clients' circuits: congestion control just after it.
pub const VEGAS: Table = Table {
    name: "vegas",
    description: "One row per circuit SENDME that arrived at the exit of a traced client's circuit: its congestion control just after it. Only where clients are traced.",
    columns: &[
        Column::new("time_ns", Kind::I64, "ns", "The SENDME arrived, since the start of the simulation."),
        Column::new("circuit", Kind::U32, "1", "The circuit's number, in order of launch."),
        CLIENT,
        GROUP,
        Column::new("min_rtt_ns", Kind::I64, "ns", "Least smoothed round-trip time."),
        Column::new("ewma_rtt_ns", Kind::I64, "ns", "Smoothed round-trip time."),
        Column::new("max_rtt_ns", Kind::I64, "ns", "Greatest round-trip time."),
        Column::new("cwnd", Kind::U32, "cell", "Congestion window."),
        Column::new(
            "inflight",
            Kind::U32,
            "cell",
            "DATA cells not acknowledged, those of this SENDME still counted, as tor logs it.",
        ),
        Column::new("bdp", Kind::U64, "cell", "Estimate of the DATA cells that the path holds without queueing."),
        Column::new("queue_use", Kind::U64, "cell", "Window less that estimate: DATA cells that queue."),
        Column::new("slow_start", Kind::U32, "1", "1 in slow start, 0 after it."),
        Column::new("blocked", Kind::U32, "1", "1 if the circuit's queue at the exit was too long (cellq_high), 0 if not."),
    ],
};

/// One row per circuit and sample interval in which it carried payload towards its client.
pub const LATENCY: Table = Table {
    name: "latency",
    description: "One row per circuit and sample interval in which payload towards the client was written, read or under way between its exit and its entry (byte-wise latency). Only of clients with record-latency.",
    columns: &[
        TIME,
        Column::new("circuit", Kind::U32, "1", "The circuit's number, in order of launch."),
        CLIENT,
        GROUP,
        Column::new("written_bytes", Kind::U64, "B", "Payload of DATA cells that the exit wrote to its socket."),
        Column::new("read_bytes", Kind::U64, "B", "Payload of DATA cells that the entry read from its socket."),
        Column::new(
            "latency",
            Kind::F64,
            "B s",
            "Time of the payload that was read from the exit's write of its cell's last byte to the entry's reading of the cell, summed over the bytes: divided by read_bytes, their mean latency.",
        ),
        Column::new(
            "outbuf_wait",
            Kind::F64,
            "B s",
            "Time that the same payload had been in the exit's outbuf before, from leaving the circuit queue to that write.",
        ),
        Column::new(
            "in_flight_bytes",
            Kind::U64,
            "B",
            "Payload written and not read at the end of the interval; 0 of a circuit that has ended.",
        ),
    ],
};

/// The tables that every run leaves. [`VEGAS`] is there only where clients are traced, [`LATENCY`] where that is recorded, those of module `probes` where cells are followed, those
/// of module `switching` only with switching, those of module `predictor` only where relays plan.
pub const TABLES: [&Table; 6] = [&TRANSFERS, &CIRCUITS, &CHANNELS, &RELAYS, &NETWORK, &RUN];
