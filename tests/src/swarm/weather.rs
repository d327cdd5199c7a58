//! Random simulation: faults of the network: losses, delays, full buffers and forged frames.

use super::class::{Class, Rule, checksum_of, is_cast, kind_of};
use super::effects;
use super::effects::{Effects, Guests};
use super::hosts::HostSet;
use super::receipts::Receipts;
use super::schedule::Schedule;
use super::seed::{Draw, Seed};
use ethbcast_collectives::session::kind;
use ethbcast_transport::sim::{Delivery, Departure, Fate, Faults, Sending, host_mac};
use ethbcast_transport::wire::{
    EtherType, EthernetHeader, Flags, Frame, Header, Kind, OVERHEAD_BYTES, Parity, Rank, StreamId,
    VERSION,
};
use ethbcast_transport::{Instant, MacAddr, wire};
use std::time::Duration;

/// Bytes of a frame in front of its checksum or tag.
const HOP_BYTES: usize = 28;
const WRAP: Instant = Instant::from_nanos(1000 << 32);

#[derive(Clone, Copy, Debug)]
pub struct SendTrouble {
    pub hosts: HostSet,
    pub share: f64,
    pub lasts: Duration,
}

#[derive(Debug)]
pub struct Weather {
    draw: Draw,
    begins: Instant,
    rules: Vec<Rule>,
    sending: Option<SendTrouble>,
    forger: Option<Forger>,
    /// After this moment frames between hosts of the core pass unharmed.
    heals: Duration,
    core: HostSet,
    effects: Effects,
    guests: Guests,
    wraps_at: Option<Instant>,
    before_wrap: bool,
    damaged_end: bool,
    trace: u64,
    /// Absent if frames are forged.
    receipts: Option<Receipts>,
    frames: Option<Vec<String>>,
    /// Dead hosts, with the time of death and of the last unicast data sent to each.
    dead: Vec<(MacAddr, Instant, Option<Instant>)>,
    pieces: u64,
}

impl Weather {
    pub fn new(schedule: &Schedule) -> Weather {
        Weather {
            begins: schedule.begins,
            sending: schedule.sending,
            forger: schedule.forges.map(|share| Forger {
                hears: schedule.keyed,
                ..Forger::new(Draw::new(schedule.seed.number(), 4), share)
            }),
            core: schedule.core,
            guests: Guests::of(schedule),
            wraps_at: schedule.has(Class::Wrap).then_some(WRAP),
            receipts: (!schedule.is_forged() && !schedule.keyed)
                .then(|| Receipts::new(schedule.is_strict(), schedule.most_feed())),
            ..Weather::of(schedule.seed, schedule.rules.clone(), schedule.heals)
        }
    }

    pub fn of(seed: Seed, rules: Vec<Rule>, heals: Duration) -> Weather {
        Weather {
            draw: Draw::new(seed.number(), 2),
            begins: Instant::START,
            rules,
            sending: None,
            forger: None,
            heals,
            core: HostSet::ALL,
            effects: Effects::default(),
            guests: Guests::default(),
            wraps_at: None,
            before_wrap: false,
            damaged_end: false,
            trace: 0,
            receipts: None,
            frames: None,
            dead: Vec::new(),
            pieces: 0,
        }
    }

    /// Creates the faults of a program. Acknowledgements are checked, too, unless ranks share
    /// interfaces: frames between them do not pass here.
    pub fn of_program(
        seed: Seed,
        (begins, rules): (Instant, Vec<Rule>),
        heals: Duration,
        is_shared: bool,
    ) -> Weather {
        let wraps_at = (begins > Instant::START).then_some(WRAP);
        let receipts = (!is_shared).then(|| Receipts::new(true, 0));
        Weather {
            begins,
            wraps_at,
            receipts,
            ..Weather::of(seed, rules, heals)
        }
    }

    pub fn listen(&mut self) {
        self.frames = Some(Vec::new());
    }

    pub fn take_frames(&mut self) -> Vec<String> {
        self.frames.take().unwrap_or_default()
    }

    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    pub fn effects_mut(&mut self) -> &mut Effects {
        &mut self.effects
    }

    pub fn trace(&self) -> u64 {
        self.trace
    }

    pub fn take_forged(&mut self) -> Vec<Forged> {
        self.forger.as_mut().map(Forger::take).unwrap_or_default()
    }

    pub fn has_damaged_end(&self) -> bool {
        self.damaged_end
    }

    pub fn receipts_mut(&mut self) -> Option<&mut Receipts> {
        self.receipts.as_mut()
    }

    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    pub fn bury(&mut self, host: MacAddr, now: Instant) {
        self.dead.push((host, now, None));
    }

    pub fn raise(&mut self, host: MacAddr) {
        self.dead.retain(|(mac, ..)| *mac != host);
    }

    pub fn longest_mourning(&self) -> Duration {
        let lasts = self
            .dead
            .iter()
            .filter_map(|(_, died, last)| last.map(|last| last.since(*died)));
        lasts.max().unwrap_or_default()
    }

    fn note(&mut self, delivery: &Delivery<'_>) {
        let what = u64::from(checksum_of(delivery.frame)) << 32
            | (delivery.to as u64) << 16
            | delivery.frame.len() as u64;
        let mixed = (self.trace.rotate_left(5) ^ delivery.at.as_nanos())
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.trace = (mixed.rotate_left(23) ^ what).wrapping_mul(0x517C_C1B7_2722_0A95);
    }

    fn hit(&mut self, class: Class) {
        self.effects.add(class, 1);
    }
}

impl Faults for Weather {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        let fate = self.judge(delivery);
        self.pieces += u64::from(fate != Fate::Drop && kind_of(delivery.frame) == kind::PIECE);
        if let (Some(receipts), Some(from)) = (
            self.receipts.as_mut().filter(|_| fate != Fate::Drop),
            delivery.from,
        ) {
            receipts.on_delivery(delivery.to, host_mac(from), delivery.frame);
            if matches!(fate, Fate::Duplicate { .. } | Fate::Delay { .. }) {
                receipts.on_late(delivery.to, host_mac(from), delivery.frame);
            }
        }
        if let Some(frames) = &mut self.frames {
            frames.push(in_words(delivery, delivery.at.since(self.begins), fate));
        }
        fate
    }

    fn sending(&mut self, departure: &Departure<'_>) -> Sending {
        self.mourn(departure);
        if let Some(receipts) = &mut self.receipts {
            receipts.on_departure(departure.from, host_mac(departure.from), departure.frame);
        }
        let healed = departure.at.since(self.begins) >= self.heals && self.core.has(departure.from);
        let trouble = self
            .sending
            .filter(|trouble| !healed && trouble.hosts.has(departure.from));
        match trouble {
            Some(SendTrouble { share, lasts, .. }) if self.draw.chance(share) => {
                self.hit(Class::SendErrors);
                Sending::NoRoom(Duration::from_nanos(
                    self.draw.between(1, lasts.as_nanos() as u64),
                ))
            }
            _ => Sending::Taken,
        }
    }
}

impl Weather {
    fn judge(&mut self, delivery: &Delivery<'_>) -> Fate {
        self.note(delivery);
        // Forged frames arrive unchanged.
        let Some(from) = delivery.from else {
            self.on_voice(delivery.frame);
            return Fate::Deliver;
        };
        self.guests
            .class(from)
            .into_iter()
            .for_each(|class| self.hit(class));
        self.on_stamp(delivery);
        let now = delivery.at.since(self.begins);
        if now >= self.heals && self.core.has(from) && self.core.has(delivery.to) {
            return Fate::Deliver;
        }
        if let Some(forger) = &mut self.forger
            && now < self.heals
            && forger.take_turn(delivery)
        {
            self.hit(Class::Hostile);
        }
        for rule in &mut self.rules {
            if let Some(fate) = rule.judge(from, delivery, now, &mut self.draw) {
                let class = rule.class;
                self.hit(class);
                self.damaged_end |=
                    class == Class::Damage && Flags(delivery.frame[27]).has(Flags::LAST);
                return fate;
            }
        }
        Fate::Deliver
    }

    fn on_voice(&mut self, frame: &[u8]) {
        if frame[16] != VERSION {
            self.hit(Class::OtherVersion);
        } else if effects::has(frame) {
            self.hit(Class::Replay);
        }
    }

    fn on_stamp(&mut self, delivery: &Delivery<'_>) {
        let Some(wraps_at) = self.wraps_at else {
            return;
        };
        // Frames of streams and of messages.
        if matches!(kind_of(delivery.frame).0, 1..=3 | 32..=36) {
            let hit = self.before_wrap && delivery.at >= wraps_at;
            self.before_wrap |= delivery.at < wraps_at;
            if hit {
                self.hit(Class::Wrap);
            }
        }
    }

    fn mourn(&mut self, departure: &Departure<'_>) {
        let frame = departure.frame;
        if !self.dead.is_empty() && kind_of(frame) == Kind::DATA && !is_cast(frame) {
            let to = MacAddr::new(frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]);
            let dead = self.dead.iter_mut().filter(|(mac, ..)| *mac == to);
            dead.for_each(|(_, _, last)| *last = Some(departure.at));
        }
    }
}

fn in_words(delivery: &Delivery<'_>, now: Duration, fate: Fate) -> String {
    let (when, to, bytes) = (now.as_secs_f64(), delivery.to, delivery.frame.len());
    let from = delivery
        .from
        .map_or("?".to_owned(), |from| format!("n{from}"));
    match wire::parse(delivery.frame) {
        Ok(Frame { header, .. }) => {
            let (kind, session, stream) = (header.kind.0, header.session, header.stream.0);
            let (rank, sequence, stamp) = (header.rank.0, header.sequence, header.stamp);
            format!(
                "{when:10.6}   {from} to n{to}: kind {kind}, session {session:x}, stream {stream}, rank {rank}, \
                 number {sequence}, stamp {stamp}, {bytes} bytes: {fate:?}"
            )
        }
        Err(why) => format!("{when:10.6}   {from} to n{to}: {why:?}, {bytes} bytes: {fate:?}"),
    }
}

const EDGES: [u64; 12] = [
    0,
    1,
    2,
    63,
    64,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    u64::MAX - 1,
    u64::MAX,
];

#[derive(Clone, Debug)]
pub struct Forged {
    pub at: Instant,
    pub to: usize,
    pub frame: Vec<u8>,
}

#[derive(Debug)]
pub struct Forger {
    draw: Draw,
    share: f64,
    made: Vec<Forged>,
    /// Whether an attacker without a key replays received frames.
    hears: bool,
    heard: Vec<(usize, Vec<u8>)>,
}

/// Frames that an attacker without a key remembers.
const MAX_REMEMBERED_FRAMES: usize = 512;

impl Forger {
    pub fn new(draw: Draw, share: f64) -> Forger {
        Forger {
            draw,
            share,
            made: Vec::new(),
            hears: false,
            heard: Vec::new(),
        }
    }

    /// Remembers a frame, in place of any other.
    fn hear(&mut self, delivery: &Delivery<'_>) {
        let heard = (delivery.to, delivery.frame.to_vec());
        if self.heard.len() < MAX_REMEMBERED_FRAMES {
            self.heard.push(heard);
        } else if self.draw.chance(0.1) {
            let at = self.draw.index(MAX_REMEMBERED_FRAMES);
            self.heard[at] = heard;
        }
    }

    /// Chooses a recorded frame, unchanged or altered, for its former destination or any other.
    fn repeat(&mut self) -> (usize, Vec<u8>) {
        let [one, other] = [0; 2].map(|_| self.draw.index(self.heard.len()));
        let (to, mut frame) = self.heard[one].clone();
        match self.draw.index(4) {
            0 => {
                let at = self.draw.index(frame.len());
                frame[at] ^= 1 << self.draw.index(8);
            }
            1 => frame[self.draw.index(HOP_BYTES)] = self.draw.bits() as u8,
            _ => {}
        }
        (
            if self.draw.chance(0.3) {
                self.heard[other].0
            } else {
                to
            },
            frame,
        )
    }

    pub fn take(&mut self) -> Vec<Forged> {
        std::mem::take(&mut self.made)
    }

    pub fn take_turn(&mut self, delivery: &Delivery<'_>) -> bool {
        if self.hears {
            self.hear(delivery);
        }
        if !self.draw.chance(self.share) {
            return false;
        }
        if self.hears {
            let (to, frame) = self.repeat();
            let at = delivery.at + Duration::from_nanos(self.draw.log(1, 2_000_000_000));
            self.made.push(Forged { at, to, frame });
            return true;
        }
        let frame = self.forge(delivery.frame);
        let at = delivery.at + Duration::from_nanos(self.draw.log(1, 50_000_000));
        let made = frame.map(|frame| {
            self.made.push(Forged {
                at,
                to: delivery.to,
                frame,
            })
        });
        made.is_some()
    }

    fn forge(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let parsed = wire::parse(frame).ok()?;
        let (mut header, mut payload) = (parsed.header, parsed.payload.to_vec());
        // Few schedules have losses that make a root send parity.
        if header.kind == Kind::DATA && self.draw.chance(0.15) {
            self.make_parity(&mut header);
            if self.draw.chance(0.5) {
                return Some(sealed(frame, &header, &payload));
            }
        }
        for _ in 0..self.draw.between(1, 3) {
            if payload.is_empty() || self.draw.chance(0.5) {
                self.change_header(&mut header);
            } else {
                self.change_payload(&mut payload);
            }
        }
        Some(sealed(frame, &header, &payload))
    }

    /// Turns the frame into parity: of any block length, of its own block or any, at any parity
    /// index.
    fn make_parity(&mut self, header: &mut Header) {
        header.kind = Kind::PARITY;
        let length = self.draw.pick(&[4, 8, 8, 16, 16, 32, 64, 128]);
        let number = self.draw.index(length as usize) as u64;
        let about = if self.draw.chance(0.7) {
            header.sequence
        } else {
            self.value(header.sequence)
        };
        let parity = Parity::new(about - about % length, length, number as u8);
        header.sequence = parity.sequence();
        header.flags = if self.draw.chance(0.3) {
            parity.flags().with(Flags::ACK_NOW)
        } else {
            parity.flags()
        };
    }

    fn change_header(&mut self, header: &mut Header) {
        let value = self.value(header.sequence);
        match self.draw.index(8) {
            0..=2 => header.sequence = value,
            3 => header.stamp = self.value(u64::from(header.stamp)) as u32,
            4 => header.stream = StreamId(value as u16),
            5 => header.flags = Flags(value as u8),
            6 => header.epoch = value as u8,
            // A wrong rank from another's address is ignored in most kinds of frames.
            _ if self.draw.chance(0.3) => header.rank = Rank(value as u16),
            _ => header.kind = self.draw.pick(&KINDS),
        }
    }

    fn change_payload(&mut self, payload: &mut Vec<u8>) {
        let (at, width) = (
            self.draw.index(payload.len()),
            self.draw.pick(&[1, 2, 4, 8]),
        );
        if self.draw.chance(0.1) {
            return payload.truncate(at);
        }
        // Mostly the fields at the beginning: names and content follow.
        let at = if self.draw.chance(0.7) { at % 24 } else { at };
        let end = (at + width).min(payload.len());
        let at = at.min(end);
        let mut bytes = [0; 8];
        bytes[8 - (end - at)..].copy_from_slice(&payload[at..end]);
        let value = self.value(u64::from_be_bytes(bytes));
        payload[at..end].copy_from_slice(&value.to_be_bytes()[8 - (end - at)..]);
    }

    fn value(&mut self, known: u64) -> u64 {
        match self.draw.index(4) {
            0 => known.wrapping_add(self.draw.log(1, 5000)),
            1 => known.wrapping_sub(self.draw.log(1, 5000)),
            2 => self.draw.pick(&EDGES),
            _ => self.draw.bits() >> self.draw.index(64),
        }
    }
}

const KINDS: [Kind; 10] = [
    Kind::DATA,
    Kind::PARITY,
    Kind::ACK,
    Kind::HEARTBEAT,
    Kind(17),
    Kind(20),
    Kind(21),
    Kind(22),
    Kind(25),
    Kind(29),
];

pub fn sealed(addresses: &[u8], header: &Header, payload: &[u8]) -> Vec<u8> {
    let mac = |at: usize| {
        let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|byte| addresses[at + byte]);
        MacAddr::new(a, b, c, d, e, f)
    };
    let ethernet = EthernetHeader {
        source: mac(6),
        destination: mac(0),
        ether_type: EtherType::DEFAULT,
    };
    let mut frame = vec![0; OVERHEAD_BYTES + payload.len()];
    frame[OVERHEAD_BYTES..].copy_from_slice(payload);
    wire::seal(&mut frame, ethernet, header, payload.len());
    frame
}
