//! An attacker that receives all frames and repeats some with other values, from the right address and with a valid
//! checksum.

use super::draw::Draw;
use ethbcast_transport::sim::Delivery;
use ethbcast_transport::wire::{
    self, EtherType, EthernetHeader, Flags, Header, Kind, OVERHEAD_BYTES, Parity, Rank, StreamId,
};
use ethbcast_transport::{Instant, MacAddr};
use std::time::Duration;

const EDGES: [u64; 12] = [0, 1, 2, 63, 64, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, u64::MAX - 1, u64::MAX];

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
}

impl Forger {
    pub fn new(draw: Draw, share: f64) -> Forger {
        Forger { draw, share, made: Vec::new() }
    }

    pub fn take(&mut self) -> Vec<Forged> {
        std::mem::take(&mut self.made)
    }

    pub fn take_turn(&mut self, delivery: &Delivery<'_>) -> bool {
        if !self.draw.chance(self.share) {
            return false;
        }
        let frame = self.forge(delivery.frame);
        let at = delivery.at + Duration::from_nanos(self.draw.log(1, 50_000_000));
        let made = frame.map(|frame| self.made.push(Forged { at, to: delivery.to, frame }));
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
        let about = if self.draw.chance(0.7) { header.sequence } else { self.value(header.sequence) };
        let parity = Parity::new(about - about % length, length, number as u8);
        header.sequence = parity.sequence();
        header.flags = if self.draw.chance(0.3) { parity.flags().with(Flags::ACK_NOW) } else { parity.flags() };
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
        let (at, width) = (self.draw.index(payload.len()), self.draw.pick(&[1, 2, 4, 8]));
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

const KINDS: [Kind; 10] =
    [Kind::DATA, Kind::PARITY, Kind::ACK, Kind::HEARTBEAT, Kind(17), Kind(20), Kind(21), Kind(22), Kind(25), Kind(29)];

pub fn sealed(addresses: &[u8], header: &Header, payload: &[u8]) -> Vec<u8> {
    let mac = |at: usize| {
        let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|byte| addresses[at + byte]);
        MacAddr::new(a, b, c, d, e, f)
    };
    let ethernet = EthernetHeader { source: mac(6), destination: mac(0), ether_type: EtherType::DEFAULT };
    let mut frame = vec![0; OVERHEAD_BYTES + payload.len()];
    frame[OVERHEAD_BYTES..].copy_from_slice(payload);
    wire::seal(&mut frame, ethernet, header, payload.len());
    frame
}
