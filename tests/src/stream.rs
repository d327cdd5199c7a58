//! Streams without a session: a cast in which receivers acknowledge to each other.

use ethbcast_transport::Tuning;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Identity, Peer, Rank, StreamId, group_mac};

/// The group of these streams.
pub const GROUP: &str = "tree";
/// Number of receivers at which a cast has an ack tree.
const RECEIVERS: usize = 200;

/// Returns a host's identity as its peers know it.
pub fn peer(host: usize) -> Peer {
    Peer { rank: Rank(host as u16), mac: host_mac(host) }
}

/// Creates host `host`'s end of a cast from host 0; `parents` names the ack parent of each host.
pub fn ack_tree(host: usize, parents: &[usize], payload_bytes: usize, tuning: &Tuning) -> Stream {
    let Peer { rank, mac } = peer(host);
    let identity = Identity { session: 77, stream: StreamId(1), rank, mac, ether_type: EtherType::DEFAULT };
    let children = |of: usize| (1..parents.len()).filter(move |&child| parents[child] == of);
    let own: Vec<Peer> = children(host).map(peer).collect();
    if host == 0 {
        let tuning = tuning.for_ack_tree(RECEIVERS, own.len(), 0);
        let outlet = Outlet::Cast { group: group_mac(GROUP), listeners: own };
        return Stream::origin(identity, payload_bytes, &outlet, tuning);
    }
    let siblings: Vec<usize> = children(parents[host]).collect();
    let order = siblings.iter().position(|&sibling| sibling == host).expect("it is its parent's child");
    let tuning = tuning.for_ack_tree(RECEIVERS, siblings.len(), order);
    let (parent, outlet) = (peer(parents[host]), Outlet::RepairChildren(own));
    let mut stream = Stream::receiver(identity, payload_bytes, parent, &outlet, tuning);
    stream.set_origin(peer(0));
    stream
}
