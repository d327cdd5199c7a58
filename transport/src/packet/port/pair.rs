//! A port on two interfaces: data leave by either, and all by one if the other is lost.

use super::{Port, RECEIVE_BATCH_FRAMES, no_payload};
use crate::Instant;
use crate::link::{Blocked, Link, Transmitted};
use crate::lock::Mutex;
use crate::machine::{Kept, Machine, SplitFrame};
use crate::packet::error::{DriveError, OpenError};
use crate::packet::lanes::{Exit, InterfacePair, LANES, LaneTerms};
use crate::packet::sender::Sender;
use crate::packet::{Interface, PortConfig};
use crate::wire::MacAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// Most data frames that wait for an interface while the other could take them: they are that
/// much later than others.
const LANE_FRAMES: usize = 16;
/// Most times that both interfaces are filled before arrivals are looked at again.
const LANE_ROUNDS: usize = 4;

/// The second interface of a port, and what is known of both. `written` is a frame on its way in or
/// out, `next` the interface that a frame for either takes if both are alike, and `full` has a bit
/// for each that waits for room.
pub(super) struct Second {
    pub(super) port: Port,
    pub(super) lanes: InterfacePair,
    written: Box<[u8]>,
    next: usize,
    pub(super) full: Arc<AtomicU8>,
    terms: Arc<Mutex<Option<LaneTerms>>>,
    has_failed: bool,
    /// Whether both interfaces are away, and whether both lack a link.
    pub(super) are_away: Arc<AtomicBool>,
    pub(super) have_no_link: Arc<AtomicBool>,
}

/// Use of one of a port's interfaces.
#[derive(Clone, Debug, PartialEq)]
#[doc(hidden)]
pub struct LaneUse {
    pub interface: String,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Time in this run without the interface or its link.
    pub cut_off: Duration,
}

impl Second {
    pub(super) fn is_up(&self) -> bool {
        self.lanes.up()[1]
    }

    /// Returns what frames wait for by either interface that works; `own` is the first's.
    pub(super) fn blocked_or(&self, own: Option<Blocked>) -> Option<Blocked> {
        let up = self.lanes.up();
        let both = [own, self.port.blocked()];
        let of_working = (0..LANES).filter(|&lane| up[lane] || up == [false; LANES]);
        of_working.filter_map(|lane| both[lane]).reduce(Blocked::or)
    }

    /// Gives the second interface up for this port, as only the first is one of its own.
    pub(super) fn fail(&mut self, error: &DriveError) {
        if !std::mem::replace(&mut self.has_failed, true) {
            log::warn!("{error}; all goes by the other interface");
        }
    }

    /// Whether the interface is there. An error of one interface is none while the other works.
    fn is_there(&mut self, now: Instant) -> bool {
        if self.has_failed {
            return false;
        }
        match self.port.is_there(now) {
            Ok(is_there) => is_there,
            Err(DriveError::InterfaceDown { .. }) => false,
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }
}

/// A port of two interfaces: `self` is on the first.
impl Port {
    /// Opens a port on two interfaces: data go by both, and all by one if the other is lost. Others
    /// know the host by the first.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_two(interfaces: [&Interface; 2], config: PortConfig) -> Result<Port, OpenError> {
        let [first, second] = [0, 1].map(|lane| {
            let lane_config = PortConfig {
                lane: Some(lane),
                ..config
            };
            Port::open(interfaces[lane], lane_config)
        });
        let (first, port) = (first?, second?);
        let own = [first.interface.mac, port.interface.mac];
        let group = config.group.unwrap_or(MacAddr::BROADCAST);
        let second = Second {
            written: vec![0; first.frame_bytes()].into_boxed_slice(),
            port,
            lanes: InterfacePair::new(own, group, config.ether_type),
            next: 0,
            full: Arc::default(),
            terms: Arc::default(),
            has_failed: false,
            are_away: Arc::default(),
            have_no_link: Arc::default(),
        };
        Ok(Port {
            second: Some(Box::new(second)),
            ..first
        })
    }

    /// Returns the use of each interface, if the port has two.
    #[doc(hidden)]
    pub fn lanes(&mut self, now: Instant) -> Option<[LaneUse; 2]> {
        let mut second = self.second.take()?;
        let lanes = [&mut *self, &mut second.port].map(|port| {
            let counters = port.counters();
            LaneUse {
                interface: port.interface.name.clone(),
                sent_bytes: counters.bytes_sent,
                received_bytes: counters.bytes_received,
                cut_off: port.cut_off(now),
            }
        });
        self.second = Some(second);
        Some(lanes)
    }

    /// Returns the second interface, if it has two.
    pub fn second_interface(&self) -> Option<&Interface> {
        self.second.as_ref().map(|second| second.port.interface())
    }

    /// Returns the handle by which a session tells a port of two interfaces what it has to know.
    #[doc(hidden)]
    pub fn lane_terms(&self) -> Option<Arc<Mutex<Option<LaneTerms>>>> {
        let second = self.second.as_ref()?;
        Some(Arc::clone(&second.terms))
    }

    pub(super) fn receive_by_both(
        &mut self,
        second: &mut Second,
        mut take: impl FnMut(&[u8]),
    ) -> usize {
        let Second {
            port,
            lanes,
            written,
            ..
        } = second;
        let by_first = self.receive_up_to(RECEIVE_BATCH_FRAMES, |frame| {
            if lanes.hear(0, frame) {
                take(frame);
            }
        });
        let by_second = port.receive_up_to(RECEIVE_BATCH_FRAMES, |frame| {
            if !lanes.hear(1, frame) {
                return;
            }
            if let Some(bytes) = lanes.address_first(frame, written) {
                take(&written[..bytes]);
            }
        });
        by_first + by_second
    }

    fn sender_of<'a>(&'a mut self, second: &'a mut Second, lane: usize) -> &'a mut Sender {
        if lane == 0 {
            &mut self.sender
        } else {
            &mut second.port.sender
        }
    }

    /// Finds out which interfaces work, loses what waits for one that does not, and says what is
    /// due about both.
    fn look_at_both(&mut self, second: &mut Second, now: Instant) -> Result<(), DriveError> {
        if let Some(terms) = second.terms.lock().take() {
            second.lanes.set_terms(terms);
        }
        let is_second_there = second.is_there(now);
        let is_first_there = match self.is_there(now) {
            Err(DriveError::InterfaceDown { .. }) if is_second_there => false,
            is_there => is_there?,
        };
        let there = [is_first_there, is_second_there];
        let has_link = [&*self, &second.port].map(|port| port.carrier.lasts(now).is_none());
        // Without a link on either, what leaves is lost in any case.
        let linked = [0, 1].map(|lane| there[lane] && has_link[lane]);
        let (are_away, is_cut_off) = (there == [false; LANES], linked == [false; LANES]);
        second.are_away.store(are_away, Ordering::Relaxed);
        let has_no_link = is_cut_off && !are_away;
        second.have_no_link.store(has_no_link, Ordering::Relaxed);
        let up = if is_cut_off { there } else { linked };
        let is_due = second.lanes.turn(now, up);
        for lane in 0..LANES {
            if !up[lane] && up[1 - lane] {
                let port = if lane == 0 {
                    &mut *self
                } else {
                    &mut second.port
                };
                port.sender.abandon(&mut port.counters);
            }
            if is_due && up[lane] {
                self.say(second, lane);
            }
        }
        Ok(())
    }

    fn say(&mut self, second: &mut Second, lane: usize) {
        let bytes = second.lanes.write(lane, &mut second.written);
        let frame = second.written[..bytes].to_vec();
        let sender = self.sender_of(second, lane);
        if sender.staged().1 {
            sender.stage(SplitFrame::whole(bytes), &frame, |_| ());
        } else {
            second.lanes.say_again();
        }
    }

    fn flush_both<'a>(
        &mut self,
        second: &mut Second,
        now: Instant,
        payload: impl Fn(Kept) -> &'a [u8],
    ) -> Result<usize, DriveError> {
        let up = second.lanes.up();
        let by_first = if up[0] { self.flush(now, &payload)? } else { 0 };
        if !up[1] {
            return Ok(by_first);
        }
        let by_second = match second.port.flush(now, &payload) {
            Ok(frames) => frames,
            Err(error) if up[0] => {
                second.fail(&error);
                0
            }
            Err(error) => return Err(error),
        };
        Ok(by_first + by_second)
    }

    /// Stages frames until there are no more, or no interface has room for those that may take
    /// either; returns whether there are no more.
    fn fill_both(
        &mut self,
        second: &mut Second,
        now: Instant,
        mut write: impl FnMut(&mut [u8]) -> Option<SplitFrame>,
    ) -> bool {
        let up = second.lanes.up();
        loop {
            let staged = [self.sender.staged(), second.port.sender.staged()];
            let blocked = [self.sender.blocked(), second.port.sender.blocked()];
            let is_free =
                |lane: usize| up[lane] && blocked[lane].is_none() && staged[lane].0 < LANE_FRAMES;
            // The next frame may be for either, or for a certain one.
            let has_room = (0..LANES).all(|lane| !up[lane] || staged[lane].1);
            if !has_room || !(is_free(0) || is_free(1)) {
                return false;
            }
            let Some(frame) = write(&mut second.written) else {
                return true;
            };
            let written = &second.written[..frame.written_bytes];
            let by = match second.lanes.exit(now, written, frame.bytes()) {
                Exit::One(lane) => [Some(lane), None],
                Exit::Both => [Some(0), Some(1)],
                Exit::None => {
                    self.counters.frames_given_up += 1;
                    [None; LANES]
                }
                Exit::Either => {
                    let other = 1 - second.next;
                    let is_other = !is_free(second.next)
                        || (is_free(other) && staged[other].0 < staged[second.next].0);
                    let lane = if is_other { other } else { second.next };
                    second.next = 1 - lane;
                    [Some(lane), None]
                }
            };
            let Second {
                port,
                lanes,
                written,
                ..
            } = &mut *second;
            let written = &written[..frame.written_bytes];
            for lane in by.into_iter().flatten() {
                if lane == 0 {
                    self.sender.stage(frame, written, |_| ());
                } else {
                    let readdress = |frame: &mut [u8]| lanes.address_second(frame);
                    port.sender.stage(frame, written, readdress);
                }
            }
        }
    }

    /// Notes for the waiter which interfaces wait for room.
    fn note_full(&self, second: &Second) {
        let up = second.lanes.up();
        let blocked = [self.sender.blocked(), second.port.sender.blocked()];
        let is_full = |lane: usize| up[lane] && blocked[lane] == Some(Blocked::Room);
        let bits = (0..LANES).map(|lane| u8::from(is_full(lane)) << lane).sum();
        second.full.store(bits, Ordering::Relaxed);
    }

    pub(super) fn transmit_by_both<M: Machine>(
        &mut self,
        second: &mut Second,
        now: Instant,
        machine: &mut M,
    ) -> Result<Transmitted, DriveError> {
        self.look_at_both(second, now)?;
        let mut frames = self.flush_both(second, now, no_payload)?;
        let mut exhausted = false;
        for _ in 0..LANE_ROUNDS {
            exhausted = self.fill_both(second, now, |buffer| {
                machine.poll_transmit_split(now, buffer)
            });
            let sent = self.flush_both(second, now, |kept| machine.payload(kept));
            for sender in [&mut self.sender, &mut second.port.sender] {
                sender.join(|kept| machine.payload(kept));
            }
            let sent = sent?;
            frames += sent;
            if exhausted || sent == 0 {
                break;
            }
        }
        self.note_full(second);
        Ok(Transmitted { frames, exhausted })
    }

    pub(super) fn send_by_both(
        &mut self,
        second: &mut Second,
        now: Instant,
        mut write: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Result<usize, DriveError> {
        self.look_at_both(second, now)?;
        let left_over = self.flush_both(second, now, no_payload)?;
        self.fill_both(second, now, |buffer| write(buffer).map(SplitFrame::whole));
        let sent = self.flush_both(second, now, no_payload)?;
        self.note_full(second);
        Ok(left_over + sent)
    }
}
