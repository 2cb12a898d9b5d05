//! Dense indices into the world's arrays.

macro_rules! id {
    ($(#[$doc:meta])* $seen:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $seen struct $name(pub u32);

        #[allow(dead_code, reason = "some always name something")]
        impl $name {
            /// No such thing.
            pub const NONE: Self = Self(u32::MAX);

            /// The index for arrays.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
            /// Whether it names anything.
            pub const fn is_some(self) -> bool {
                self.0 != u32::MAX
            }
        }
    };
}

id! {
    /// One end of a channel. The ends are numbered 2n (it connected) and 2n + 1 (it accepted).
    pub(crate) EndId
}
id! {
    /// A circuit, at all its hops.
    pub(crate) CircuitId
}
id! {
    /// A stream over a circuit.
    pub(crate) StreamId
}
id! {
    /// A client: a tor process and the program that uses it.
    pub ClientId
}
id! {
    /// A DATA cell that is followed to the server.
    pub(crate) ProbeId
}
id! {
    /// Flows of a client that follow each other.
    pub(crate) SequenceId
}
id! {
    /// A flow that goes on.
    pub(crate) FlowId
}
id! {
    /// A stream of a client's program that goes on, whether or not it has a circuit.
    pub(crate) TransferId
}

id! {
    /// A message of a relay that plans, beside the network.
    pub(crate) LetterId
}
id! {
    /// What a client and an onion service do to meet.
    pub(crate) MeetingId
}
id! {
    /// A Conflux set: circuits of one client to one exit.
    pub(crate) SetId
}

impl EndId {
    /// The other end of the channel.
    #[must_use]
    pub const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }
    /// 0: it connected; 1: it accepted.
    pub const fn side(self) -> usize {
        self.0 as usize % 2
    }
    /// The channel's index for arrays.
    pub const fn channel(self) -> usize {
        self.0 as usize / 2
    }
}
