//! Test helper: one end of a broadcast stream to 200 receivers. It also gives frames of any content a valid checksum.

use ethbcast_transport::Tuning;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Flags, Guard, Identity, OVERHEAD_BYTES, Peer, Rank, StreamId, group_mac};
use std::ops::Range;

pub const GROUP: &str = "tree";
/// Number of receivers at which a cast has an ack tree.
const RECEIVERS: usize = 200;

pub fn peer(host: usize) -> Peer {
    Peer { rank: Rank(host as u16), mac: host_mac(host) }
}

/// Creates host `host`'s end of a cast from host 0; `parents` names the ack parent of each host.
pub fn ack_tree(host: usize, parents: &[usize], payload_bytes: usize, tuning: &Tuning) -> Stream {
    let Peer { rank, mac } = peer(host);
    let identity =
        Identity { session: 77, stream: StreamId(1), rank, mac, ether_type: EtherType::DEFAULT, guard: Guard::Plain };
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

/// Position of the checksum in a frame: the bytes behind it are sealed by the origin, those before
/// it belong to one hop.
pub const CHECKSUM: Range<usize> = 28..32;
const KIND_AT: usize = 17;
const FLAGS_AT: usize = 27;
const PAYLOAD_BYTES_AT: usize = 38;

/// Sets a valid checksum. A frame shorter than its stated length is left unchanged.
pub fn make_checksum_fit(frame: &mut [u8]) {
    if frame.len() < OVERHEAD_BYTES {
        return;
    }
    let payload_bytes = u16::from_be_bytes([frame[PAYLOAD_BYTES_AT], frame[PAYLOAD_BYTES_AT + 1]]);
    let end = OVERHEAD_BYTES + usize::from(payload_bytes);
    let Some(sealed) = frame.get(CHECKSUM.end..end) else { return };
    let mut content = crc32fast::Hasher::new();
    content.update(&[frame[KIND_AT], frame[FLAGS_AT] & Flags::SEALED.0]);
    content.update(sealed);
    let mut whole = crc32fast::Hasher::new_with_initial(content.finalize());
    whole.update(&frame[..CHECKSUM.start]);
    frame[CHECKSUM].copy_from_slice(&whole.finalize().to_be_bytes());
}
