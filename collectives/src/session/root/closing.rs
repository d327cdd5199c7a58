//! The end of a session: the root repeats its last word.

use super::RootEndpoint;
use super::running::Running;
use crate::membership::timers::Wait;
use crate::session::message::Message;
use ethbcast_transport::{Deadline, Instant, MacAddr};

/// So many times more for each frame that was sent again of one that was sent: at 10 % loss to seven receivers three
/// more, at 30 % nine.
const LOSSY_TIMES: u64 = 18;
const MOST_MORE: u64 = 9;
/// Where so much was lost that it is said most often, switches may police what is sent to all: so many of the last
/// times every member is told alone, too.
const TIMES_ALONE: u32 = 3;

/// Repeats the last word: the verdict on all, or that the root gives up.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    last_word: Message,
    /// Whom what is sent to all does not reach.
    deaf: Vec<MacAddr>,
    /// Every member, if what is sent to all may be policed.
    alone: Vec<MacAddr>,
    /// How many times it is still to be sent.
    left: u32,
    /// When it is to be sent, or the session to end.
    next: Instant,
}

impl Closing {
    /// Begins to say it `farewells` times, and more often where much of what was sent was lost: who misses all of them
    /// waits for the root until its patience ends.
    pub(super) fn new(now: Instant, last_word: Message, farewells: u32, members: Option<&Running>) -> Closing {
        let deaf: Vec<MacAddr> = members.iter().flat_map(|members| members.deaf()).collect();
        let sent = members.map(|members| members.delivery().stats()).unwrap_or_default();
        let more = sent.data_resent * LOSSY_TIMES / sent.data_sent.max(1);
        let all = members.iter().flat_map(|members| &members.view().members).skip(1).map(|member| member.mac);
        let alone = if more < MOST_MORE { Vec::new() } else { all.filter(|mac| !deaf.contains(mac)).collect() };
        Closing { last_word, deaf, alone, left: farewells + more.min(MOST_MORE) as u32, next: now }
    }

    pub(super) fn last_word(&self) -> &Message {
        &self.last_word
    }

    /// Sends the last word when it is time to; whether it has been sent often enough.
    pub(super) fn handle_timeout(&mut self, now: Instant, endpoint: &mut RootEndpoint) -> bool {
        if self.next > now || self.left == 0 {
            return self.next <= now;
        }
        self.left -= 1;
        self.next = now + endpoint.config().timing.verdict / 4;
        endpoint.send_to_group(&self.last_word);
        let alone = if self.left < TIMES_ALONE { &self.alone[..] } else { &[] };
        self.deaf.iter().chain(alone).for_each(|&mac| endpoint.send(mac, &self.last_word));
        false
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        Some(Wait::Verdict.at(self.next))
    }
}
