//! Tests of point-to-point messages: one forged acknowledgement or request never makes a host wait
//! forever. Its victim does not wait forever. A message that was falsely acknowledged and then lost
//! cannot be repeated; that peer is then given up.

use super::play::{content, mailbox, network};
use crate::key;
use ethbcast_transport::messages::{Completion, Mailbox, RecvOutcome, Settings};
use ethbcast_transport::sim::{Random, RandomFaults, Simulation, host_mac};
use ethbcast_transport::wire::{AckBody, EtherType, EthernetHeader, Flags, Header, Kind, Rank, StreamId};
use ethbcast_transport::{Alone, Instant};
use std::time::Duration;

const MESSAGES: usize = 12;
const RUNS: u64 = 600;
/// Time limit; a peer that lacks falsely acknowledged frames is given up after ten seconds.
const BOUND: Duration = Duration::from_secs(40);

/// Kind, number or cursor, stamp or echo relative to the present, and the bitmap.
const FORGERIES: [(Kind, u64, i32, &[u8]); 15] = [
    (Kind::RECEIPT, 5, 0, &[]),
    (Kind::RECEIPT, 20, -5, &[]),
    (Kind::RECEIPT, 40, -5, &[]),
    (Kind::RECEIPT, 1000, -5, &[]),
    (Kind::RECEIPT, 1000, 1 << 30, &[]),
    (Kind::RECEIPT, 0, 1 << 30, &[]),
    (Kind::RECEIPT, 0, -5, &[0xFF; 128]),
    (Kind::RECEIPT, 10, -5, &[0x55; 128]),
    (Kind::RECEIPT, u64::MAX, -5, &[0xFF; 128]),
    (Kind::ASK, 0, 1 << 30, &[]),
    (Kind::ASK, u64::MAX, -(1 << 30), &[]),
    (Kind::ASK, 7, 1_000_000, &[]),
    (Kind::PUSH, u64::MAX, 1 << 30, &[1; 64]),
    (Kind::PULL, u64::MAX - 1, 5, &[1; 64]),
    (Kind::NOTE, 1 << 40, 1 << 29, &[1; 100]),
];

fn forged(now: Instant, (kind, sequence, ahead, bitmap): (Kind, u64, i32, &[u8])) -> Vec<u8> {
    let mut body = vec![0; AckBody::BYTES];
    body[16..18].copy_from_slice(&(bitmap.len() as u16).to_be_bytes());
    body.extend(bitmap);
    let stamp = (now.as_micros() as u32).wrapping_add_signed(ahead);
    let header =
        Header { kind, session: 77, stream: StreamId(0), rank: Rank(1), epoch: 0, flags: Flags(0), sequence, stamp };
    let link = EthernetHeader { source: host_mac(1), destination: host_mac(0), ether_type: EtherType::DEFAULT };
    key::sealed(link, &header, &body)
}

fn play(seed: u64) {
    let mut random = Random::new(seed);
    let forgery = FORGERIES[(seed % FORGERIES.len() as u64) as usize];
    let at = Instant::from_nanos(random.below(4_000_000));
    let loss = [0.0, 0.02, 0.2][(seed / FORGERIES.len() as u64 % 3) as usize];
    let replay = format!("seed={seed} {forgery:?} at {at:?}, loss {loss}");
    let settings = Settings::default();
    let machines = [0, 1].map(|rank| mailbox(rank, 2, 1468, &settings)).into();
    let mut simulation: Simulation<Alone<Mailbox>, _> =
        Simulation::new(&network(2), machines, RandomFaults::new(seed).loss(loss));
    simulation.inject(at, 0, &forged(at, forgery));
    let lengths: Vec<usize> = (0..MESSAGES).map(|_| random.below(40_000) as usize).collect();
    let (mut begun, mut ended, mut done_at) = ([false; 2], [0; 2], Instant::START);
    let outcome = simulation.run(Instant::START + BOUND, |host, machine, now| {
        let mailbox = &mut machine.part;
        if !std::mem::replace(&mut begun[host], true) {
            for (number, &length) in lengths.iter().enumerate() {
                let peer = Rank(1 - host as u16);
                mailbox.send(peer, number as u32, content(number, length)).expect("there is room");
                mailbox.recv(peer, number as u32, length).expect("there is room");
            }
        }
        while let Some(completion) = mailbox.poll_completion() {
            ended[host] += 1;
            done_at = now;
            if let Completion::Recv { outcome: RecvOutcome::Received { bytes }, .. } = completion {
                let is_one = |(number, &length): (usize, &usize)| bytes == content(number, length);
                assert!(lengths.iter().enumerate().any(is_one), "{replay}: host {host}");
            }
        }
        mailbox.audit().unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        None
    });
    assert!(outcome.is_quiet(), "{replay}: {outcome:?}, {:?}", simulation.next_deadline());
    // A rank that was given up gets no replies, and cannot know that it waits in vain.
    assert_eq!(ended[0], MESSAGES * 2, "{replay}");
    assert!(done_at < Instant::START + BOUND, "{replay}: {done_at:?}");
    // Rank 1 may wait for messages of rank 0, which no longer replies to it.
    assert!(ended[1] == MESSAGES * 2 || (forgery.0 == Kind::RECEIPT && loss > 0.0), "{replay}: {ended:?}");
}

#[test]
fn one_forged_acknowledgement_or_request_does_not_hang_its_victim() {
    (0..RUNS).for_each(play);
}
