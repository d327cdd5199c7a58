//! A host that serves several groups decides which of their sessions it takes part in.

use crate::session::{Admission, Receiver};
use ethbcast_transport::Instant;
use std::fmt::Debug;
use std::sync::Arc;

/// What a host that serves several groups decides for the receiver of each. It is asked by the thread that runs the
/// session and must not block; whoever has another answer than before wakes the session's loop.
pub trait Usher: Debug + Send + Sync {
    /// A sender invites: whether this host may take part now. Asked again each time the loop comes round, until it may.
    fn admit(&self) -> bool;

    /// The room there is for what is to come, in bytes.
    fn free_bytes(&self) -> u64;

    /// The session that was admitted is over, or did not come about.
    fn dismiss(&self);

    /// The loop has come round.
    fn came_round(&self) {}
}

/// An usher at work for one receiver.
#[derive(Debug)]
pub(super) struct Ushered<'a> {
    usher: Option<&'a Arc<dyn Usher>>,
    is_in: bool,
}

impl<'a> Ushered<'a> {
    pub(super) fn new(usher: Option<&'a Arc<dyn Usher>>) -> Ushered<'a> {
        Ushered { usher, is_in: false }
    }

    /// The loop has come round: asks for leave if the receiver wants it, and gives it back if it is not used.
    pub(super) fn turn(&mut self, receiver: &mut Receiver, now: Instant) {
        let Some(usher) = self.usher else { return };
        usher.came_round();
        if receiver.is_asked_who() {
            receiver.set_free_bytes(usher.free_bytes());
        }
        match receiver.admission() {
            Admission::Wanted => {
                if usher.admit() {
                    self.is_in = true;
                    receiver.set_free_bytes(usher.free_bytes());
                    receiver.admit(now);
                }
            }
            Admission::None => self.leave(),
            Admission::Given => {}
        }
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.is_in) {
            self.usher.iter().for_each(|usher| usher.dismiss());
        }
    }
}

impl Drop for Ushered<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
