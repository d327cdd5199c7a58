//! Measurement of the network by rank 0, before a communicator's first call. Rank 0 sends the
//! result to the others.

use super::streams::{FIRST_RESERVED_TAG, Handover, Messages};
use crate::communicator::network::{read_costs, write_costs};
use crate::measure::{
    ProbeSettings, Prober, Processors, Responder, Unicast, broadcast, calibrate, kind,
};
use ethbcast_planning::model::{Calibration, CalibrationError};
use ethbcast_transport::messages::{RecvId, RecvOutcome};
use ethbcast_transport::wire::{Frame, Identity, Peer, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part, Timer};
use std::sync::Arc;
use std::time::Duration;

const TAG: u32 = FIRST_RESERVED_TAG + 1;
const MAX_BYTES: usize = 8 << 10;

#[derive(Clone, Debug)]
pub(super) struct Probing {
    identity: Identity,
    others: Vec<Peer>,
    group: Option<MacAddr>,
    mtu_bytes: usize,
    responder: Responder,
    stage: ProbingStage,
    reported_by: Option<Instant>,
}

#[derive(Clone, Debug)]
enum ProbingStage {
    Measuring(Box<Prober>),
    Trying(Box<Prober>, Box<Calibration>),
    /// Rank 0 sends the result to the others; the list is processed from its end.
    Telling(Arc<[u8]>, Vec<Rank>),
    Awaiting(Option<RecvId>),
    Untold,
    Done,
}

impl Probing {
    pub(super) fn new(
        now: Instant,
        identity: Identity,
        peers: &[Peer],
        group: Option<MacAddr>,
        (mtu_bytes, processors): (u16, Option<Processors>),
        reported_by: Option<Instant>,
    ) -> Probing {
        let mtu_bytes = usize::from(mtu_bytes);
        // One rank gets all of the time: in a share of it, a rate limiter's burst would be mistaken
        // for the link's rate.
        let elsewhere = |peer: &&Peer| !peer.mac.shares_interface_with(peers[0].mac);
        let stage = match peers.iter().find(elsewhere) {
            Some(next) if identity.rank == Rank::ROOT => {
                let settings = ProbeSettings::short(mtu_bytes).guarded(&identity.guard);
                let prober = Prober::new(now, identity.clone(), vec![*next], settings);
                ProbingStage::Measuring(Box::new(prober.with_processors(processors)))
            }
            Some(_) => ProbingStage::Awaiting(None),
            None => ProbingStage::Done,
        };
        let others = peers.iter().filter(elsewhere).copied().collect();
        let responder =
            Responder::new(identity.clone(), mtu_bytes, None).with_processors(processors);
        Probing {
            identity,
            others,
            group,
            mtu_bytes,
            responder,
            stage,
            reported_by,
        }
    }

    pub(super) fn is_unconfigured(&self) -> bool {
        matches!(self.stage, ProbingStage::Untold)
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, ProbingStage::Done)
    }

    pub(super) fn advance(&mut self, messages: &mut Messages, peers: u16) -> Option<Calibration> {
        let stage = &mut self.stage;
        match stage {
            ProbingStage::Measuring(prober) if prober.is_done() => {
                let found = measured(prober);
                if let Err(error) = &found {
                    log::warn!(
                        "the short probe found out too little ({error}); cables of 1 Gbit/s are assumed"
                    );
                }
                self.notify(found.ok(), messages, peers)
            }
            ProbingStage::Trying(prober, calibration) if prober.is_done() => {
                let found = prober.result().cast;
                log::info!("broadcast: {found:?}");
                let calibration = (**calibration)
                    .clone()
                    .with_broadcast(broadcast(found))
                    .ok();
                self.notify(calibration, messages, peers)
            }
            ProbingStage::Telling(told, left) => {
                while let Some(&to) = left.last()
                    && messages.send_internal(to, TAG, told.clone()) != Handover::Full
                {
                    left.pop();
                }
                if left.is_empty() {
                    *stage = ProbingStage::Done;
                }
                None
            }
            ProbingStage::Awaiting(id) => {
                *id = id.or_else(|| messages.receive_internal(Rank::ROOT, TAG, MAX_BYTES));
                let outcome = messages.take_received((*id)?)?;
                // The result of an absent rank 0 never comes; the first call reports that.
                *stage = ProbingStage::Done;
                match outcome {
                    RecvOutcome::Received { bytes } => read_costs(&bytes),
                    _ => None,
                }
            }
            ProbingStage::Measuring(_)
            | ProbingStage::Trying(..)
            | ProbingStage::Untold
            | ProbingStage::Done => None,
        }
    }
}

impl Probing {
    fn notify(
        &mut self,
        found: Option<Calibration>,
        messages: &mut Messages,
        peers: u16,
    ) -> Option<Calibration> {
        let told = found.as_ref().map_or_else(Vec::new, write_costs);
        self.stage = ProbingStage::Telling(told.into(), (1..peers).rev().map(Rank).collect());
        self.advance(messages, peers);
        found
    }

    /// Tries broadcast before it is chosen for anything, as soon as unicast is measured.
    fn try_broadcast(&mut self, now: Instant) {
        let ProbingStage::Measuring(prober) = &self.stage else {
            return;
        };
        let found = self
            .group
            .filter(|_| prober.is_done())
            .zip(measured(prober).ok());
        if let Some((group, calibration)) = found {
            let frame_bytes = self.identity.guard.payload_bytes(self.mtu_bytes) as u64;
            let frame_gap = Duration::from_nanos(calibration.gap_ns(frame_bytes) as u64);
            let unicast = Unicast {
                frame_gap,
                loss: calibration.loss(),
            };
            let settings =
                ProbeSettings::ramp(self.mtu_bytes, group, unicast).guarded(&self.identity.guard);
            let prober = Prober::new(now, self.identity.clone(), self.others.clone(), settings);
            self.stage = ProbingStage::Trying(Box::new(prober), Box::new(calibration));
        }
    }
}

/// Returns the costs as all ranks can know them: the message to the others has no spread.
fn measured(prober: &Prober) -> Result<Calibration, CalibrationError> {
    calibrate(&prober.result()).and_then(|costs| costs.with_spread(0.0))
}

impl Part for Probing {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        match &mut self.stage {
            _ if frame.header.kind == kind::PROBE => self.responder.handle_frame(now, frame),
            ProbingStage::Measuring(prober) | ProbingStage::Trying(prober, _) => {
                prober.handle_frame(now, frame)
            }
            _ => {}
        }
        self.try_broadcast(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &mut self.stage {
            ProbingStage::Measuring(prober) | ProbingStage::Trying(prober, _) => {
                prober.handle_timeout(now)
            }
            ProbingStage::Awaiting(_) if self.reported_by.is_some_and(|by| by <= now) => {
                self.stage = ProbingStage::Untold
            }
            _ => {}
        }
        self.try_broadcast(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let answer = self.responder.poll_transmit(now, buffer);
        answer.or_else(|| match &mut self.stage {
            ProbingStage::Measuring(prober) | ProbingStage::Trying(prober, _) => {
                prober.poll_transmit(now, buffer)
            }
            _ => None,
        })
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        match &self.stage {
            ProbingStage::Measuring(prober) | ProbingStage::Trying(prober, _) => {
                prober.poll_timeout(now)
            }
            ProbingStage::Awaiting(_) => self.reported_by.map(|at| Deadline {
                at,
                why: Timer("measured"),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::wire::{EtherType, Guard, StreamId};

    #[test]
    fn a_rank_without_calibration_waits_no_longer_than_the_join_limit() {
        let peer = |rank: u16| Peer {
            rank: Rank(rank),
            mac: MacAddr::new(2, 0, 0, 0, 0, rank as u8),
        };
        let peers: Vec<Peer> = (0..3).map(peer).collect();
        let (mac, ether_type) = (peers[2].mac, EtherType::DEFAULT);
        let (stream, guard) = (StreamId(0), Guard::Plain);
        let identity = Identity {
            session: 1,
            stream,
            rank: Rank(2),
            mac,
            ether_type,
            guard,
        };
        let by = Instant::START + Duration::from_secs(60);
        let mut probing = Probing::new(
            Instant::START,
            identity,
            &peers,
            None,
            (1500, None),
            Some(by),
        );
        assert_eq!(
            probing
                .poll_timeout(Instant::START)
                .map(|deadline| deadline.at),
            Some(by)
        );
        probing.handle_timeout(Instant::START);
        assert!(!probing.is_unconfigured() && !probing.is_done());
        probing.handle_timeout(by);
        assert!(
            probing.is_unconfigured() && !probing.is_done() && probing.poll_timeout(by).is_none()
        );
    }
}
