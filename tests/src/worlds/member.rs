//! Model checking of a communicator: ranks that broadcast, meet at a barrier and leave.

use super::state::Shared;
use super::world::{Fate, Host};
use crate::communicator::GROUP;
use ethbcast_collectives::communicator::{
    Barrier, Broadcast, CallProgress, CommunicatorError, Config, Member, Patience,
};
use ethbcast_collectives::session::Station;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::wire::{HEADER_BYTES, Rank};
use ethbcast_transport::{Instant, Machine};
use std::fmt;
use std::time::Duration;

/// MTU of these worlds, in bytes: the smallest allowed.
const MTU_BYTES: u16 = 576;
const PAYLOAD_BYTES: usize = MTU_BYTES as usize - HEADER_BYTES;
const PATIENCE: Duration = Duration::from_secs(2);
const LEAVES_WITHIN: Duration = Duration::from_millis(500);

#[derive(Clone)]
struct Buffer(Vec<u8>);

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", blake3::hash(&self.0).to_hex())
    }
}

#[derive(Clone, Debug)]
enum Call {
    Broadcast(Broadcast, Buffer),
    Barrier(Barrier),
}

/// A rank and its program: it receives frames from rank 0, passes a barrier, and leaves.
#[derive(Clone, Debug)]
pub struct RankHost {
    member: Member,
    sent: Shared,
    call: Option<(Call, Patience)>,
    has_all: bool,
    has_met: bool,
    wrong: bool,
    error: Option<CommunicatorError>,
    progress: u64,
}

/// Creates `ranks` ranks, of which the first broadcasts `frames` frames.
pub fn communicator(ranks: u16, frames: usize) -> Vec<RankHost> {
    let sent = Shared::of(frames * PAYLOAD_BYTES);
    let begin = |host: usize| {
        let station = Station::new(GROUP, &format!("n{host}"), host_mac(host), MTU_BYTES);
        let join_by = Some(Instant::START + PATIENCE);
        // Feeds of the smallest size.
        let config = Config {
            join_by,
            feed_bytes: 0,
            ..Config::new(station, ranks, host as u64)
        };
        RankHost {
            member: Member::begin(Instant::START, config).expect("the names and numbers can be"),
            sent: sent.clone(),
            call: None,
            has_all: false,
            has_met: false,
            wrong: false,
            error: None,
            progress: 0,
        }
    };
    (0..usize::from(ranks)).map(begin).collect()
}

impl RankHost {
    fn is_root(&self) -> bool {
        self.member.rank() == Some(Rank::ROOT)
    }

    fn begin(&mut self, now: Instant) -> Result<(), CommunicatorError> {
        let call = if self.has_all {
            Call::Barrier(Barrier::begin(&mut self.member, now)?)
        } else {
            let bytes = self.sent.as_ref().len();
            let broadcast = Broadcast::begin(&mut self.member, now, Rank::ROOT, bytes)?;
            let buffer = if self.is_root() {
                self.sent.as_ref().to_vec()
            } else {
                vec![0; bytes]
            };
            Call::Broadcast(broadcast, Buffer(buffer))
        };
        self.call = Some((call, Patience::new(&self.member, now, PATIENCE)));
        Ok(())
    }

    fn go_on(&mut self, now: Instant) -> Result<Option<Instant>, CommunicatorError> {
        while !self.has_met {
            if self.call.is_none() {
                self.begin(now)?;
            }
            let Some((call, patience)) = &mut self.call else {
                break;
            };
            let progress = match call {
                Call::Broadcast(call, buffer) => {
                    call.advance(&mut self.member, now, &mut buffer.0)?
                }
                Call::Barrier(call) => call.advance(&mut self.member, now)?,
            };
            if progress == CallProgress::Waiting {
                let is_over = patience.is_over(&self.member, now);
                let due = patience.due();
                return if is_over {
                    Err(self.abandon(now))
                } else {
                    Ok(Some(due))
                };
            }
            match self.call.take() {
                Some((Call::Broadcast(_, buffer), _)) => {
                    self.wrong = buffer.0 != self.sent.as_ref();
                    self.has_all = true;
                }
                _ => self.has_met = true,
            }
        }
        Ok(None)
    }

    fn abandon(&mut self, now: Instant) -> CommunicatorError {
        let (call, _) = self.call.take().expect("a call has waited too long");
        match call {
            Call::Broadcast(call, _) => call.abandon(&mut self.member, now),
            Call::Barrier(call) => call.abandon(&mut self.member, now),
        }
    }

    fn leave(&mut self, now: Instant) {
        if self.member.is_open() || self.member.rank().is_none() {
            self.member.leave(now, now + LEAVES_WITHIN);
        }
    }
}

impl Machine for RankHost {
    ethbcast_transport::forward!(self => self.member; handle_frame, handle_timeout, poll_transmit, poll_timeout);
}

impl Host for RankHost {
    const SKIPPED: &'static [&'static str] =
        &["StreamStats", "MailboxStats", "MemberStats", "Config"];

    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let turn = match self.member.joined() {
            Ok(false) => Ok(None),
            Ok(true) if self.error.is_some() => Ok(None),
            Ok(true) => self.go_on(now),
            Err(error) => Err(error),
        };
        let again = turn.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            None
        });
        if self.has_met || self.error.is_some() {
            self.leave(now);
        }
        self.progress = self.member.progress();
        again
    }

    fn has_begun(&self) -> bool {
        self.call.is_some()
    }

    fn fate(&self) -> Fate {
        match &self.error {
            _ if !self.member.has_left() => Fate::Open,
            Some(error) => Fate::Failed(error.to_string()),
            None => Fate::Delivered,
        }
    }

    fn has_all(&self) -> bool {
        self.has_all
    }

    /// A rank that has passed the barrier knows that the others have the broadcast.
    fn claims(&self) -> Vec<usize> {
        (0..usize::from(self.member.size()))
            .filter(|_| self.has_met)
            .collect()
    }

    fn check(&self, _before: &Self) -> Result<(), String> {
        if self.wrong {
            return Err("a broadcast has brought other bytes than were sent".to_owned());
        }
        self.member.audit().map_err(|error| error.to_string())
    }
}
