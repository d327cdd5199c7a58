//! From whom a stream's frames may come.

use crate::wire::{Frame, Peer};

/// The hosts that may send a receiver frames of its stream; nobody else's change anything.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    /// Whom this host acknowledges to, and whose stamps it echoes; none at the origin.
    parent: Option<Peer>,
    /// Whose stream it is: a cast's new frames come from there, whoever is acknowledged to, and so does what nobody
    /// else has any more.
    origin: Option<Peer>,
}

impl Upstream {
    /// Frames come from `parent`, as far as is known; from nobody at the origin.
    pub(super) fn new(parent: Option<Peer>) -> Upstream {
        Upstream { parent, origin: parent }
    }

    /// Whom this host acknowledges to.
    pub(super) fn parent(&self) -> Option<Peer> {
        self.parent
    }

    /// Names another parent; whether it is another.
    pub(super) fn set_parent(&mut self, parent: Peer) -> bool {
        !planted!("old-parent-kept") && self.parent.replace(parent) != Some(parent)
    }

    /// Names the origin.
    pub(super) fn set_origin(&mut self, origin: Peer) {
        self.origin = Some(origin);
    }

    /// Whether a frame is from the parent.
    pub(super) fn is_parent(&self, frame: &Frame<'_>) -> bool {
        self.parent.is_some_and(|parent| is_from(frame, parent))
    }

    /// Whether a frame is from the origin.
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
