//! Admission hook of a host that serves several groups and limits the sessions it joins.

use crate::session::{Admission, Receiver};
use ethbcast_transport::Instant;
use std::fmt::Debug;
use std::sync::Arc;

/// Admission hook for the receivers of a host that serves several groups. It is called by the
/// session's thread and must not block. When its answer changes, the session's loop must be woken.
pub trait AdmissionHook: Debug + Send + Sync {
    /// Whether this host may join now, called when a sender announces a session. Called again in
    /// each turn of the loop until it is true.
    fn admit(&self) -> bool;

    /// Returns the free space for any content, in bytes.
    fn free_bytes(&self) -> u64;

    /// Returns the space for the content that is announced at most, in bytes: some of it may be here.
    fn most_bytes(&self) -> u64 {
        self.free_bytes()
    }

    /// Ends the admission: the session is over, or did not start.
    fn dismiss(&self);

    /// Called in each turn of the loop.
    fn came_round(&self) {}
}

#[derive(Debug)]
pub(super) struct HookedAdmission<'a> {
    usher: Option<&'a Arc<dyn AdmissionHook>>,
    is_in: bool,
}

impl<'a> HookedAdmission<'a> {
    pub(super) fn new(usher: Option<&'a Arc<dyn AdmissionHook>>) -> HookedAdmission<'a> {
        HookedAdmission { usher, is_in: false }
    }

    /// Asks the hook if the receiver waits for permission, and ends an admission that is no longer
    /// used.
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
                    receiver.set_free_bytes(usher.most_bytes());
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

impl Drop for HookedAdmission<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
