//! Hosts that may send a receiver frames of its stream.

use crate::wire::{Frame, Peer};

#[derive(Clone, Debug)]
pub(super) struct Upstream {
    /// Host that this one acknowledges to and whose stamps it echoes; none at the origin.
    parent: Option<Peer>,
    /// Origin of the stream: it sends a cast's new frames to every receiver, and frames that no
    /// other host has any more.
    origin: Option<Peer>,
}

impl Upstream {
    pub(super) fn new(parent: Option<Peer>) -> Upstream {
        Upstream { parent, origin: parent }
    }

    pub(super) fn parent(&self) -> Option<Peer> {
        self.parent
    }

    pub(super) fn set_parent(&mut self, parent: Peer) -> bool {
        !planted!("old-parent-kept") && self.parent.replace(parent) != Some(parent)
    }

    pub(super) fn set_origin(&mut self, origin: Peer) {
        self.origin = Some(origin);
    }

    pub(super) fn is_parent(&self, frame: &Frame<'_>) -> bool {
        self.parent.is_some_and(|parent| is_from(frame, parent))
    }

    pub(super) fn is_origin(&self, frame: &Frame<'_>) -> bool {
        self.origin.is_some_and(|origin| is_from(frame, origin))
    }
}

fn is_from(frame: &Frame<'_>, peer: Peer) -> bool {
    peer.rank == frame.header.rank && peer.mac == frame.source
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{MacAddr, Rank};

    #[test]
    fn a_parent_is_another_once() {
        let [one, other] = [1, 2].map(|last| Peer { rank: Rank(7), mac: MacAddr::new(2, 0, 0, 0, 0, last) });
        let mut upstream = Upstream::new(Some(one));
        assert!(!upstream.set_parent(one) && upstream.set_parent(other) && !upstream.set_parent(other));
        assert_eq!(upstream.parent(), Some(other));
    }
}
