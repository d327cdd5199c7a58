//! Test helper: a simulated transfer whose receivers have part of the content already.

use ethbcast_collectives::session::application::{Participant, Sink, SinkState, Tally};
use ethbcast_collectives::session::verified::{
    Checked, ChunkSet, ChunkSize, Cut, Cutter, Form, HaveSet, Origin, StretchHashes, VerifiedSource,
};
use ethbcast_collectives::session::{Arrival, Damage, Done, End, Message, Needs, Outcome, kind};
use ethbcast_tests::session::{Case, Sent, hosts_of, run, session, star, strike};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, Faults, RandomFaults, Simulation, host_mac};
use ethbcast_transport::wire::{EtherType, Guard, Identity, Kind, Rank, StreamId, parse};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const CHUNK: usize = 64 << 10;

/// Have-set of a host: bytes, some of which may be the content's, in place or elsewhere.
#[derive(Debug, Default)]
pub struct Have {
    bytes: Arc<[u8]>,
    without: Vec<Range<usize>>,
    lies: bool,
    /// Number of reads after which its bytes differ.
    changes_after: Option<u64>,
    reads: AtomicU64,
    /// Positions of fragments, by name.
    fragments: BTreeMap<[u8; 8], Range<usize>>,
}

impl Have {
    pub fn new(bytes: &Arc<[u8]>) -> Have {
        Have {
            bytes: Arc::clone(bytes),
            ..Have::default()
        }
    }

    pub fn without(mut self, chunks: Range<usize>) -> Have {
        self.without.push(chunks);
        self
    }

    pub fn lying(self) -> Have {
        Have { lies: true, ..self }
    }

    pub fn changing_after(self, reads: u64) -> Have {
        Have {
            changes_after: Some(reads),
            ..self
        }
    }

    pub fn anywhere(mut self, cut: Cut) -> Have {
        let (mut cutter, bytes) = (
            Cutter::new(cut, ChunkSize::DEFAULT),
            Arc::clone(&self.bytes),
        );
        let mut found = |fragment: ethbcast_collectives::session::verified::Fragment, _: &[u8]| {
            let at = fragment.offset as usize;
            self.fragments
                .insert(fragment.name, at..at + fragment.bytes as usize);
        };
        cutter.feed(&bytes, &mut found);
        cutter.finish(&mut found);
        self
    }

    fn at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let (begin, end) = (offset as usize, offset as usize + length);
        let missing = |part: &Range<usize>| part.start * CHUNK < end && begin < part.end * CHUNK;
        self.bytes
            .get(begin..end)
            .filter(|_| !self.without.iter().any(missing))
    }

    fn of_fragments(&self, hash_list: &StretchHashes, chunk: usize) -> Option<Vec<u8>> {
        let (begin, mut found) = (
            hash_list.chunk_offset(chunk),
            vec![0; hash_list.chunk_bytes(chunk)],
        );
        let (end, mut to) = (begin + found.len() as u64, begin);
        for fragment in hash_list.fragments() {
            let (from, until) = (
                fragment.offset.max(begin),
                (fragment.offset + u64::from(fragment.bytes)).min(end),
            );
            if from < until && from == to {
                let place = self.fragments.get(&fragment.name)?;
                let bytes = &self.bytes[place.start + (from - fragment.offset) as usize..]
                    [..(until - from) as usize];
                found[(from - begin) as usize..(until - begin) as usize].copy_from_slice(bytes);
                to = until;
            }
        }
        (to == end && hash_list.matches(chunk, &found)).then_some(found)
    }
}

#[derive(Debug)]
struct Found {
    have: Have,
    chunk: ChunkSize,
    moved: std::sync::Mutex<BTreeMap<(u64, usize), Vec<u8>>>,
}

impl HaveSet for Found {
    fn have(&self, hash_list: &StretchHashes) -> ChunkSet {
        let here = |chunk: &usize| {
            let at = self.have.at(
                hash_list.chunk_offset(*chunk),
                hash_list.chunk_bytes(*chunk),
            );
            self.have.lies || at.is_some_and(|bytes| hash_list.matches(*chunk, bytes)) || {
                let moved = self.have.of_fragments(hash_list, *chunk);
                let mut all = self.moved.lock().expect("no panic");
                moved
                    .map(|bytes| all.insert((hash_list.number(), *chunk), bytes))
                    .is_some()
            }
        };
        (0..hash_list.chunks()).filter(here).collect()
    }

    fn read(&self, stretch: u64, chunk: usize, to: &mut [u8]) -> Option<Origin> {
        let reads = self.have.reads.fetch_add(1, Ordering::Relaxed);
        if let Some(moved) = self
            .moved
            .lock()
            .expect("no panic")
            .remove(&(stretch, chunk))
        {
            to.copy_from_slice(&moved);
            return Some(Origin::Elsewhere);
        }
        let bytes = self.have.at(
            stretch * self.chunk.stretch_bytes() + (chunk * self.chunk.bytes()) as u64,
            to.len(),
        )?;
        to.copy_from_slice(bytes);
        if self.have.changes_after.is_some_and(|after| reads >= after) {
            to[0] ^= 1;
        }
        Some(Origin::InPlace)
    }
}

/// A sink that counts bytes and compares their digest with the trailer.
#[derive(Debug, Default)]
pub struct Counted {
    tally: Tally,
    verdict: Option<Done>,
}

impl Sink for Counted {
    fn take(&mut self, _now: Instant, arrival: Arrival<'_>) {
        match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => self.tally.add(bytes),
            Arrival::End(trailer) => {
                assert_eq!(
                    trailer,
                    self.tally.trailer(),
                    "what was checked is what was written"
                );
                self.verdict = Some(self.tally.verdict(Outcome::Verified, ""));
            }
        }
    }

    fn turn(&mut self, _now: Instant) -> SinkState {
        self.verdict.take().into()
    }
}

/// Data on the root's own link, and NEEDS messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Stream payload of first transmissions; `again` counts retransmissions.
    pub data: u64,
    pub again: u64,
    /// Bytes of content and hash lists in pieces.
    pub pieces: u64,
    pub words: u64,
    /// Bytes of the NEEDS frames on the wire, with their Ethernet headers.
    pub word_bytes: u64,
}

struct Meter {
    heard: Heard,
    price: Rc<RefCell<Price>>,
    /// Transmissions that were counted: a cast is delivered to every host.
    counted: BTreeSet<(u64, u32)>,
    next: u64,
    others: RandomFaults,
}

impl Faults for Meter {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        self.heard
            .iter()
            .for_each(|heard| heard.borrow_mut().push(delivery.frame.to_vec()));
        let Ok(frame) = parse(delivery.frame) else {
            return self.others.fate(delivery);
        };
        let (mut price, bytes) = (self.price.borrow_mut(), frame.payload.len() as u64);
        let (sequence, stamp) = (frame.header.sequence, frame.header.stamp);
        match frame.header.kind {
            Kind::DATA if delivery.from != Some(0) || !self.counted.insert((sequence, stamp)) => {}
            Kind::DATA if sequence >= self.next => {
                self.next = sequence + 1;
                price.data += bytes;
            }
            Kind::DATA => price.again += bytes,
            kind::PIECE if !frame.payload.is_empty() => price.pieces += bytes - 16,
            kind::NEEDS => {
                price.words += 1;
                price.word_bytes += delivery.frame.len().max(60) as u64;
            }
            _ => {}
        }
        drop(price);
        self.others.fate(delivery)
    }
}

fn forged(session: u32, rank: u16, needs: &Needs) -> Vec<u8> {
    let mac = host_mac(usize::from(rank));
    let identity = Identity {
        session,
        stream: StreamId(0),
        rank: Rank(rank),
        mac,
        ether_type: EtherType::DEFAULT,
        guard: Guard::Plain,
    };
    let (kind, body) = Message::Needs(needs.clone()).encode();
    let mut frame = vec![0; 1600];
    let length = identity.write(&mut frame, host_mac(0), &identity.header(kind), &body);
    frame.truncate(length);
    frame
}

pub struct Scene {
    pub case: Case,
    pub content: Arc<[u8]>,
    pub have: Vec<Option<Have>>,
    pub cut: Cut,
    pub chunk: ChunkSize,
    pub loss: f64,
    pub bits_per_second: u64,
    pub selects: bool,
    /// Forged NEEDS to the root in a member's name, with their moments.
    pub strays: Vec<(Duration, u16, Needs)>,
    pub heard: Heard,
}

/// All frames that somebody receives, if that is wanted.
pub type Heard = Option<Rc<RefCell<Vec<Vec<u8>>>>>;

#[derive(Debug)]
pub struct PartialPlay {
    pub fates: Vec<Outcome>,
    pub price: Price,
    pub damages: Vec<Damage>,
    pub own: Vec<u64>,
    pub took: Duration,
}

impl Scene {
    pub fn new(case: Case, content: Arc<[u8]>, have: Vec<Option<Have>>) -> Scene {
        assert_eq!(
            (case.receivers + case.late.0, case.bytes),
            (have.len(), content.len())
        );
        let (cut, loss, bits_per_second, selects) = (Cut::None, 0.0, 1_000_000_000, true);
        Scene {
            case,
            content,
            have,
            cut,
            chunk: ChunkSize::DEFAULT,
            loss,
            bits_per_second,
            selects,
            strays: Vec::new(),
            heard: None,
        }
    }

    pub fn play(self, seed: u64, replay: &str) -> PartialPlay {
        let Scene {
            case,
            content,
            have,
            cut,
            chunk,
            loss,
            bits_per_second,
            selects,
            strays,
            heard,
        } = self;
        let price = Rc::new(RefCell::new(Price::default()));
        let faults = Meter {
            heard,
            price: Rc::clone(&price),
            counted: BTreeSet::new(),
            next: 0,
            others: RandomFaults::new(seed).loss(loss),
        };
        let source = VerifiedSource::of(Sent::new(Arc::clone(&content), false)).chunked(chunk);
        let source = if selects {
            source.selecting(content.len() as u64, cut)
        } else {
            source
        };
        let have = RefCell::new(have);
        let sink = |host: usize| {
            let sink = Checked::checking(Counted::default());
            match have.borrow_mut()[host - 1].take() {
                Some(have) => sink.holding(Arc::new(Found {
                    have,
                    chunk,
                    moved: std::sync::Mutex::default(),
                })),
                None => sink,
            }
        };
        let (hosts, network) = (
            hosts_of(&case, seed, source, sink),
            star(&case, bits_per_second),
        );
        let mut simulation = Simulation::new(&network, hosts, faults);
        simulation.set_event_limit(50_000_000);
        strike(&case, &network, &mut simulation);
        for (at, rank, needs) in &strays {
            let frame = forged(session(seed), *rank, needs);
            simulation.inject(Instant::START + *at, 0, &frame);
        }
        run(
            &mut simulation,
            Duration::from_secs(300),
            replay,
            Participant::turn,
        );
        let hosts = simulation.machines();
        let Participant::Root(root, _) = &hosts[0] else {
            unreachable!("host 0 is the root")
        };
        let digest = *blake3::hash(&content).as_bytes();
        let whole = Form::Verified(chunk.signed((case.keys)(0).is_some()))
            .stream_bytes(content.len() as u64);
        for receiving in hosts.iter().filter_map(Participant::receiving) {
            if let Some(verdict) = receiving
                .verdict()
                .filter(|verdict| verdict.outcome == Outcome::Delivered)
            {
                assert_eq!(
                    (verdict.bytes, verdict.digest),
                    (whole, digest),
                    "{replay}: another content"
                );
                assert!(
                    matches!(receiving.end(), Some(End::Confirmed | End::Unconfirmed)),
                    "{replay}"
                );
            }
        }
        let price = *price.borrow();
        PartialPlay {
            fates: root.reports().map(|report| report.outcome).collect(),
            price,
            damages: root.damages(),
            own: hosts
                .iter()
                .filter_map(|host| Some(host.receiving()?.sink().own_bytes()))
                .collect(),
            took: root.took(),
        }
    }
}
