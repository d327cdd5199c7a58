//! Who acknowledges a cast to whom: all to its origin, or along the ack tree if they are many.

use crate::membership::ack_tree::{ack_fan_out, ack_parent};
use ethbcast_transport::{Policy, Tuning};
use std::ops::Range;

/// The receivers of a cast, by position: counted from 0, beginning with the rank behind the origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listeners {
    receivers: usize,
    /// The children of each host in the tree, if there is one.
    fan_out: Option<usize>,
}

impl Listeners {
    /// Strict go-back-n cannot wait for parents to merge what their children say.
    pub(super) fn new(receivers: usize, policy: Policy) -> Listeners {
        let fan_out = if policy == Policy::InOrderOnly { None } else { ack_fan_out(receivers) };
        Listeners { receivers, fan_out }
    }

    /// To whom the receiver at `position` acknowledges; `None` for the origin.
    pub(super) fn parent(&self, position: usize) -> Option<usize> {
        self.fan_out.and_then(|_| ack_parent(self.receivers, position))
    }

    /// Who acknowledges to the receiver at this position, or to the origin.
    pub(super) fn children(&self, position: Option<usize>) -> Range<usize> {
        match (self.fan_out, position) {
            (None, None) => 0..self.receivers,
            (None, Some(_)) => 0..0,
            (Some(fan_out), position) => {
                let first = position.map_or(0, |position| (position + 1) * fan_out);
                first.min(self.receivers)..(first + fan_out).min(self.receivers)
            }
        }
    }

    /// The numbers of the receiver at this position, or of the origin, which hears its children and speaks as if it were one of them.
    pub(super) fn tuned(&self, tuning: &Tuning, position: Option<usize>) -> Tuning {
        let siblings = self.children(position.and_then(|position| self.parent(position)));
        let place = position.map_or(0, |position| position - siblings.start);
        match self.fan_out {
            None => tuning.for_cast(self.receivers, place),
            Some(_) => tuning.for_ack_tree(self.receivers, siblings.len(), place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_acknowledges_to_the_one_that_listens_to_it() {
        for (receivers, policy) in [
            (1, Policy::HolesAllowed),
            (128, Policy::HolesAllowed),
            (129, Policy::HolesAllowed),
            (1000, Policy::HolesAllowed),
            (300, Policy::InOrderOnly),
        ] {
            let listeners = Listeners::new(receivers, policy);
            let mut heard = vec![0; receivers];
            for parent in std::iter::once(None).chain((0..receivers).map(Some)) {
                for child in listeners.children(parent) {
                    assert_eq!(listeners.parent(child), parent, "{receivers} receivers, {child}");
                    heard[child] += 1;
                }
            }
            assert!(heard.iter().all(|&count| count == 1), "{receivers} receivers");
        }
        assert_eq!(Listeners::new(300, Policy::InOrderOnly).children(None), 0..300, "strict: all to the origin");
        assert!(Listeners::new(1000, Policy::HolesAllowed).children(None).len() <= 16);
    }
}
