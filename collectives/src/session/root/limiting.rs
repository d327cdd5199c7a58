//! The rate limit of the session's hosts.

use super::{Root, RootPhase};
use crate::session::rate::Rate;
use ethbcast_transport::Instant;

impl Root {
    /// Returns the rate limit of each host, if there is one.
    pub fn rate(&self) -> Option<Rate> {
        self.endpoint.config().rate
    }

    /// Takes the largest MTU, in bytes, that what the root's own interface leads to takes: hosts that long frames do
    /// not reach are told that it is not their way.
    pub fn set_first_hop(&mut self, mtu_bytes: usize) {
        if let RootPhase::Gathering(gathering) = &mut self.phase {
            gathering.checks_mut().set_first_hop(mtu_bytes);
        }
    }

    /// Sets another limit: for this host at once, for the members with the next view.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        if self.rate() == Some(rate) {
            return;
        }
        self.endpoint.config_mut().rate = Some(rate);
        self.endpoint.throttle_mut().set(Some(rate));
        if let RootPhase::Running(running) = &mut self.phase {
            running.set_rate(now, rate, &mut self.endpoint);
        }
    }
}
