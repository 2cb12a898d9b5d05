//! The checked groups of clients.

use crate::scenario::client_options::ClientOptions;
use crate::scenario::clients::{Position, StartRange};
use crate::scenario::onion::Onion;
use onionlab_load::LoadModel;
use onionlab_quantities::{Bandwidth, SimDuration};
use serde::Serialize;

/// A group of clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClientGroup {
    /// Its name.
    pub group: String,
    /// Which hosts it is.
    pub members: Members,
    /// How many users each of them stands for.
    pub users: u32,
    /// When they start.
    pub start: StartRange,
    /// Their tor runs so long before their start, at most since time zero.
    pub boot_before: SimDuration,
    /// From then on no transfer starts.
    pub stop: SimDuration,
    /// What they load.
    pub load: LoadModel,
    /// The onion services that they load from; `None`: they load from servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onion: Option<Onion>,
    /// A transfer that takes longer has failed.
    pub timeout: SimDuration,
    /// A transfer that receives nothing for so long has failed.
    pub stall: SimDuration,
    /// Servers give up a stream on which nothing happens for so long; `None`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_stall: Option<SimDuration>,
    /// What their torrc says.
    #[serde(flatten)]
    pub options: ClientOptions,
    /// Whether each transfer gets its own circuit.
    pub circuit_per_transfer: bool,
    /// Whether transfers and circuits have rows in the records.
    pub record: bool,
    /// Whether the congestion control of its circuits' exits is recorded.
    pub trace: bool,
    /// Whether it is recorded how long payload takes over its circuits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub record_latency: bool,
    /// One of their cells is followed to the server each time so long has passed; `None`: none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<SimDuration>,
}

impl ClientGroup {
    /// Sequences of transfers that each of its clients runs beside each other.
    pub(crate) fn sequences(&self) -> u64 {
        u64::from(self.load.pace().sequences(self.users))
    }
}

/// Which hosts a group of clients is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Members {
    /// Sampled network: this many, with these access rates.
    Count {
        /// How many.
        count: u32,
        /// Access rate towards the network; `None`: by country.
        up: Option<Bandwidth>,
        /// Access rate from the network; `None`: by country.
        down: Option<Bandwidth>,
    },
    /// Sampled network: the clients of the sample's share of so many users, with these access rates.
    Scaled {
        /// Users of the whole network.
        #[serde(rename = "users-at-full-scale")]
        users_at_full_scale: u32,
        /// Access rate towards the network; `None`: by country.
        up: Option<Bandwidth>,
        /// Access rate from the network; `None`: by country.
        down: Option<Bandwidth>,
    },
    /// Sampled network with a load target: this group's share of the clients, in (0, 1].
    Share {
        /// The share.
        share: f64,
        /// Access rate towards the network; `None`: by country.
        up: Option<Bandwidth>,
        /// Access rate from the network; `None`: by country.
        down: Option<Bandwidth>,
    },
    /// Network made elsewhere: the clients of this group in the document.
    Document {
        /// How many they are.
        clients: u32,
    },
    /// Network by hand: these hosts, by index.
    Hosts {
        /// The clients.
        hosts: Vec<u32>,
        /// Guard, middle and exit of every circuit; `None`: drawn.
        path: Option<[u32; 3]>,
        /// The server; `None`: drawn.
        server: Option<u32>,
    },
}

/// The utilisation wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LoadTarget {
    /// Offered load over capacity.
    pub utilisation: f64,
    /// Of the relays in this position.
    pub position: Position,
}
