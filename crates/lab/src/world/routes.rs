//! Which relays a client's circuits go over and which server a transfer comes from, the same under every treatment.

use onionlab_engine::HostId;
use onionlab_paths::{GuardSet, PathSelector};
use onionlab_quantities::RandomStream;
use onionlab_tor::{ClientId, PathRequest, PathSource, Purpose};

/// Where one client's circuits and transfers go.
pub(super) struct Route {
    pub circuits: Circuits,
    pub servers: Servers,
}

/// A client's circuits.
pub(super) enum Circuits {
    /// Always these relays.
    Fixed([HostId; 3]),
    /// Drawn by consensus weight over the client's guards.
    Drawn(GuardSet),
}

/// A client's servers.
pub(super) enum Servers {
    /// Always this one.
    Fixed(HostId),
    /// Any, equally likely, anew for each transfer.
    Drawn(RandomStream),
}

/// The routes of all clients.
pub(super) struct Routes {
    /// By client.
    pub clients: Vec<Route>,
    /// What paths are drawn from, and the hosts of its relays; absent where no path is drawn.
    pub selector: Option<(PathSelector, Vec<HostId>)>,
    /// The servers to draw from.
    pub servers: Vec<HostId>,
}

impl PathSource for Routes {
    fn path(&self, request: &PathRequest<'_>) -> Option<[HostId; 3]> {
        // No load here uses circuits within the network.
        if request.purpose == Purpose::Internal {
            return None;
        }
        match &self.clients[request.client.index()].circuits {
            Circuits::Fixed(path) => Some(*path),
            Circuits::Drawn(guards) => {
                let (selector, hosts) = self.selector.as_ref().expect("a client with drawn paths has a selector");
                let path = guards.path(selector, request.circuit);
                Some([path.guard, path.middle, path.exit].map(|relay| hosts[relay.get()]))
            }
        }
    }

    fn exits_to(&self, _: HostId, _: u16) -> bool {
        // Exits are relays with the flag, which stands for the ports of the web.
        true
    }

    fn server(&self, client: ClientId, stream: u64) -> HostId {
        match &self.clients[client.index()].servers {
            Servers::Fixed(server) => *server,
            Servers::Drawn(draws) => self.servers[draws.at(stream).below(self.servers.len() as u64) as usize],
        }
    }
}
