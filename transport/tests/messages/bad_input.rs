//! Tests of point-to-point messages: invalid calls of the application, and invalid or forged frames
//! of a peer.
//!
//! The victim of one forged acknowledgement or request, from the right address and at any moment,
//! does not wait forever. A message that was falsely acknowledged and then lost cannot be repeated;
//! that peer is then given up.

use super::play::{Message, content, mailbox, network, play};
use crate::key;
use ethbcast_transport::messages::{
    Completion, INITIAL_BYTES, INITIAL_MESSAGES, Mailbox, RecvError, RecvOutcome, SendError,
    SendOutcome, Settings,
};
use ethbcast_transport::sim::{
    Delivery, Fate, NoFaults, Random, RandomFaults, Simulation, host_mac,
};
use ethbcast_transport::wire::{
    AckBody, EtherType, EthernetHeader, Flags, Header, Kind, Rank, StreamId,
};
use ethbcast_transport::{Alone, Instant, Machine};
use std::time::Duration;

const PAYLOAD_BYTES: usize = 1468;
const FRAME_BYTES: usize = PAYLOAD_BYTES + 54;

fn small() -> Settings {
    Settings {
        pushed_messages: 0,
        pushed_bytes: 0,
        ..Settings::default()
    }
}

fn pair(settings: &Settings) -> [Alone<Mailbox>; 2] {
    [0, 1].map(|rank| mailbox(rank, 2, PAYLOAD_BYTES, settings))
}

fn exchange(mailboxes: &mut [Alone<Mailbox>; 2], now: Instant) {
    let mut buffer = [0; FRAME_BYTES];
    loop {
        let mut moved = false;
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(length) = mailboxes[from].poll_transmit(now, &mut buffer) {
                mailboxes[to].handle_frame(now, &buffer[..length]);
                moved = true;
            }
        }
        mailboxes
            .iter()
            .for_each(|mailbox| mailbox.part.audit().expect("counts agree"));
        if !moved {
            return;
        }
    }
}

fn made_up(kind: Kind, sequence: u64, stamp: u32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        kind,
        session: 77,
        stream: StreamId(0),
        rank: Rank(1),
        epoch: 0,
        flags: Flags::default(),
        sequence,
        stamp,
    };
    let link = EthernetHeader {
        source: host_mac(1),
        destination: host_mac(0),
        ether_type: EtherType::DEFAULT,
    };
    key::sealed(link, &header, body)
}

fn ack_body(cursor: u64) -> Vec<u8> {
    let mut body = vec![0; AckBody::BYTES];
    AckBody {
        limit: cursor + 1024,
        below: cursor,
        consumed: cursor,
        held_us: 0,
    }
    .write(cursor, &mut body, 0);
    body
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_counted_and_changes_nothing() {
    let now = Instant::from_nanos(1_000_000);
    let mut both = pair(&small());
    let id = both[0]
        .part
        .send(Rank(1), 7, content(0, 100))
        .expect("there is room");
    both[0].handle_frame(now, &made_up(Kind::RECEIPT, 1, 0, &ack_body(1)));
    both[0].handle_frame(now, &made_up(Kind::RECEIPT, 0, 99, &ack_body(0)));
    assert_eq!(both[0].part.stats().forged_acks, 2);
    // A grant of message 5 in an otherwise honest note: what, reserved, echo, message, pushed,
    // room, cursor.
    let mut note = vec![1, 0, 0, 0, 0, 0, 0, 0];
    note.extend(
        [5_u64, 0, 16, 21_600, 0]
            .iter()
            .flat_map(|number| number.to_be_bytes()),
    );
    note.extend(ack_body(0));
    both[0].handle_frame(now, &made_up(Kind::NOTE, 0, 1, &note));
    assert_eq!(both[0].part.stats().forged_acks, 3);
    assert_eq!(both[0].part.poll_completion(), None);
    both[1].part.recv(Rank(0), 7, 100).expect("there is room");
    exchange(&mut both, now);
    both[1].handle_timeout(now + Duration::from_millis(2));
    exchange(&mut both, now + Duration::from_millis(2));
    assert_eq!(
        both[0].part.poll_completion(),
        Some(Completion::Send {
            id,
            outcome: SendOutcome::Sent
        })
    );
}

#[test]
fn a_rank_that_does_not_exist_and_a_full_queue_are_refused_with_what_to_do() {
    let settings = Settings {
        send_messages: 2,
        send_bytes: 100,
        receives: 1,
        ..Settings::default()
    };
    let [mut mailbox, _] = pair(&settings);
    assert_eq!(
        mailbox.part.send(Rank(2), 0, []),
        Err(SendError::NoSuchRank {
            rank: Rank(2),
            ranks: 2
        })
    );
    assert_eq!(
        mailbox.part.recv(Rank(9), 0, 1),
        Err(RecvError::NoSuchRank {
            rank: Rank(9),
            ranks: 2
        })
    );
    assert!(
        SendError::NoSuchRank {
            rank: Rank(2),
            ranks: 2
        }
        .to_string()
        .contains("from 0 to 1")
    );
    mailbox
        .part
        .send(Rank(1), 0, content(0, 1000))
        .expect("a single long message is taken");
    assert_eq!(
        mailbox.part.send(Rank(1), 0, [1]),
        Err(SendError::QueueFull {
            messages: 1,
            bytes: 1000
        })
    );
    let [mut mailbox, _] = pair(&settings);
    let ids = [(); 2].map(|()| mailbox.part.send(Rank(1), 0, [1]).expect("there is room"));
    assert_eq!(
        mailbox.part.send(Rank(1), 0, [1]),
        Err(SendError::QueueFull {
            messages: 2,
            bytes: 2
        })
    );
    assert!(mailbox.part.cancel_send(ids[0]) && !mailbox.part.cancel_send(ids[0]));
    mailbox
        .part
        .send(Rank(1), 0, [1])
        .expect("there is room again");
    let receive = mailbox.part.recv(Rank(1), 0, 1).expect("there is room");
    assert_eq!(
        mailbox.part.recv(Rank(1), 0, 1),
        Err(RecvError::QueueFull { receives: 1 })
    );
    assert!(mailbox.part.cancel_recv(receive) && !mailbox.part.cancel_recv(receive));
}

#[test]
fn a_message_to_oneself_is_delivered_without_a_frame() {
    let after = Duration::from_millis(1);
    for received_at in [Duration::ZERO, after] {
        let lengths = [0, 1, 20_000, 100_000];
        let mut messages: Vec<Message> = lengths
            .map(|length| Message::new(0, 0, 7, length, received_at))
            .into();
        messages.push(Message {
            max_bytes: 5,
            ..Message::new(0, 0, 8, 50_000, received_at)
        });
        let price = play(2, &small(), &messages, NoFaults, "to oneself");
        assert_eq!(price.frames, 0);
        for (number, length) in lengths.into_iter().enumerate() {
            assert_eq!(price.sends[&number], SendOutcome::Sent);
            assert_eq!(
                price.receives[&number],
                RecvOutcome::Received {
                    bytes: content(number, length)
                }
            );
        }
        assert_eq!(price.sends[&4], SendOutcome::Refused);
        assert_eq!(
            price.receives[&4],
            RecvOutcome::TooShort {
                message_bytes: 50_000
            }
        );
    }
}

#[test]
fn a_tag_that_is_never_received_fills_its_share_of_the_pushed_buffer_and_then_deadlines_pass() {
    let patience = Some(Duration::from_millis(50));
    let forgotten = |_| Message {
        received_at: None,
        patience,
        ..Message::new(0, 1, 666, 2000, Duration::ZERO)
    };
    let mut messages: Vec<Message> = (0..100).map(forgotten).collect();
    let late = Duration::from_millis(200);
    messages.push(Message {
        sent_at: Duration::from_millis(100),
        ..Message::new(0, 1, 7, 30_000, late)
    });
    messages.push(Message::new(2, 1, 666, 30_000, late));
    let price = play(3, &small(), &messages, NoFaults, "forgotten");
    let ended = |outcome| {
        (0..100)
            .filter(|number| price.sends[number] == outcome)
            .count()
    };
    let held = (INITIAL_BYTES / 2000) as usize;
    assert_eq!(
        (ended(SendOutcome::Sent), ended(SendOutcome::TimedOut)),
        (held, 100 - held)
    );
    // Withdrawn messages have made room: others of this sender and of other senders go on.
    assert!(
        matches!(price.receives[&100], RecvOutcome::Received { .. })
            && price.sends[&100] == SendOutcome::Sent
    );
    assert!(
        matches!(price.receives[&101], RecvOutcome::Received { .. })
            && price.sends[&101] == SendOutcome::Sent
    );
}

#[test]
fn a_peer_that_pushes_more_than_it_may_is_counted_and_takes_no_memory() {
    let [mut mailbox, _] = pair(&small());
    let now = Instant::from_nanos(1_000_000);
    for message in 0..1000_u64 {
        let mut push = message.to_be_bytes().to_vec();
        push.extend([0, 0, 0, 0]);
        push.extend(1400_u32.to_be_bytes());
        push.extend((1_u64 << 60).to_be_bytes());
        push.extend([0; 8]);
        push.extend([1; 1400]);
        mailbox.handle_frame(
            now,
            &made_up(Kind::PUSH, message, message as u32 + 1, &push),
        );
        mailbox.part.audit().expect("counts agree");
    }
    let memory = mailbox.part.memory();
    assert!(
        memory.pushed_bytes as u64 <= INITIAL_BYTES
            && memory.pushed_messages as u64 <= INITIAL_MESSAGES,
        "{memory:?}"
    );
    assert_eq!(
        mailbox.part.stats().beyond_credit,
        1000 - INITIAL_BYTES / 1400
    );
    let receive = mailbox
        .part
        .recv(Rank(1), 0, 1 << 20)
        .expect("there is room");
    let outcome = RecvOutcome::TooShort {
        message_bytes: 1 << 60,
    };
    assert_eq!(
        mailbox.part.poll_completion(),
        Some(Completion::Recv {
            id: receive,
            outcome
        })
    );
}

#[test]
fn the_same_part_of_a_message_twice_under_two_numbers_counts_once() {
    let [mut mailbox, _] = pair(&small());
    let now = Instant::from_nanos(1_000_000);
    let id = mailbox.part.recv(Rank(1), 0, 100).expect("there is room");
    // Message, offset, pushed, length, tag, reserved, bytes.
    let part = |offset: u32| {
        let mut push = 0_u64.to_be_bytes().to_vec();
        [offset, 20]
            .iter()
            .for_each(|number| push.extend(number.to_be_bytes()));
        push.extend(20_u64.to_be_bytes());
        push.extend([0; 8]);
        push.extend([offset as u8; 10]);
        push
    };
    for sequence in 0..3 {
        mailbox.handle_frame(
            now,
            &made_up(Kind::PUSH, sequence, sequence as u32 + 1, &part(0)),
        );
        assert_eq!(
            mailbox.part.poll_completion(),
            None,
            "ten bytes are missing"
        );
    }
    mailbox.handle_frame(now, &made_up(Kind::PUSH, 3, 4, &part(10)));
    let bytes = [[0; 10], [10; 10]].concat();
    let outcome = RecvOutcome::Received { bytes };
    assert_eq!(
        mailbox.part.poll_completion(),
        Some(Completion::Recv { id, outcome })
    );
}

#[test]
fn made_up_frames_of_every_kind_never_panic_and_never_take_more_than_their_share() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let [mut mailbox, _] = pair(&small());
        let mut buffer = [0; FRAME_BYTES];
        for step in 0..200 {
            let now = Instant::from_nanos(step * 100_000);
            let kind = [Kind::PUSH, Kind::PULL, Kind::NOTE, Kind::RECEIPT, Kind::ASK]
                [random.below(5) as usize];
            let mut body = vec![0; random.below(200) as usize];
            random.fill(&mut body);
            // Mostly small numbers, so that some are meaningful.
            body.iter_mut()
                .enumerate()
                .filter(|(at, _)| at % 8 != 7 || *at > 47)
                .for_each(|(_, byte)| *byte = 0);
            body.iter_mut().for_each(|byte| *byte %= 8);
            if !body.is_empty() {
                body[0] = random.below(4) as u8 * u8::from(kind == Kind::NOTE);
            }
            mailbox.handle_frame(
                now,
                &made_up(kind, random.below(12), random.below(1000) as u32, &body),
            );
            let receive = mailbox.part.recv(Rank(1), 0, random.below(300) as usize);
            assert!(
                matches!(receive, Ok(_) | Err(RecvError::QueueFull { .. })),
                "seed={seed} step={step}: {receive:?}"
            );
            let send = mailbox
                .part
                .send(Rank(1), 0, vec![0; random.below(3000) as usize]);
            assert!(
                matches!(send, Ok(_) | Err(SendError::QueueFull { .. })),
                "seed={seed} step={step}: {send:?}"
            );
            mailbox.handle_timeout(now);
            while mailbox.poll_transmit(now, &mut buffer).is_some() {}
            while mailbox.part.poll_completion().is_some() {}
            mailbox
                .part
                .audit()
                .unwrap_or_else(|why| panic!("seed={seed} step={step}: {why}"));
            assert!(
                mailbox.part.memory().pushed_bytes as u64 <= INITIAL_BYTES,
                "seed={seed} step={step}"
            );
        }
    }
}

#[test]
fn a_peer_that_falls_silent_is_given_up_and_both_queues_learn_of_it() {
    let settings = Settings {
        silent_after: Duration::from_millis(500),
        ..Settings::default()
    };
    let messages = [
        Message::new(0, 1, 7, 20_000, Duration::ZERO),
        Message::new(1, 0, 8, 50_000, Duration::ZERO),
        Message {
            max_bytes: 9,
            ..Message::new(0, 2, 7, 9, Duration::ZERO)
        },
    ];
    let deaf = |delivery: &Delivery<'_>| match delivery.from == Some(1) || delivery.to == 1 {
        true if delivery.at > Instant::from_nanos(60_000) => Fate::Drop,
        _ => Fate::Deliver,
    };
    let price = play(3, &settings, &messages, deaf, "silent");
    assert_eq!(
        (price.sends[&0], price.sends[&1]),
        (SendOutcome::PeerGone, SendOutcome::PeerGone)
    );
    assert_eq!(price.receives[&0], RecvOutcome::PeerGone);
    assert_eq!(price.receives[&1], RecvOutcome::PeerGone);
    assert_eq!(price.sends[&2], SendOutcome::Sent);
    assert!(
        price.quiesced_at < Duration::from_secs(2),
        "{:?}",
        price.quiesced_at
    );
}

#[test]
fn a_host_that_was_paused_does_not_count_the_others_as_silent() {
    let now = Instant::from_nanos(1_000_000);
    let mut both = pair(&small());
    let id = both[0]
        .part
        .send(Rank(1), 7, content(0, 100))
        .expect("there is room");
    let mut buffer = [0; FRAME_BYTES];
    let length = both[0].poll_transmit(now, &mut buffer).expect("a push");
    both[1].handle_frame(now, &buffer[..length]);
    let back = now + Duration::from_secs(60);
    both[0].handle_timeout(back);
    both[1].handle_timeout(back);
    exchange(&mut both, back);
    assert_eq!(
        both[0].part.poll_completion(),
        Some(Completion::Send {
            id,
            outcome: SendOutcome::Sent
        })
    );
}

#[test]
fn a_complete_message_of_a_sender_that_left_can_still_be_received() {
    let now = Instant::from_nanos(1_000_000);
    let mut both = pair(&small());
    both[0]
        .part
        .send(Rank(1), 7, content(0, 100))
        .expect("there is room");
    both[0]
        .part
        .send(Rank(1), 7, content(1, 50_000))
        .expect("there is room");
    exchange(&mut both, now);
    both[1].part.remove_peer(Rank(0));
    let ids = [(); 2].map(|()| {
        both[1]
            .part
            .recv(Rank(0), 7, 50_000)
            .expect("there is room")
    });
    let ends = [
        RecvOutcome::Received {
            bytes: content(0, 100),
        },
        RecvOutcome::PeerGone,
    ];
    for (id, outcome) in ids.into_iter().zip(ends) {
        assert_eq!(
            both[1].part.poll_completion(),
            Some(Completion::Recv { id, outcome })
        );
    }
    assert_eq!(
        both[1].part.send(Rank(0), 7, []),
        Err(SendError::PeerGone { rank: Rank(0) })
    );
    assert!(both[1].part.is_quiet());
}

#[test]
fn a_receive_whose_deadline_passes_in_the_middle_of_a_message_ends_it_and_notifies_its_sender() {
    let (start, deadline) = (
        Instant::from_nanos(1_000_000),
        Instant::from_nanos(30_000_000),
    );
    let mut both = pair(&small());
    let send = both[0]
        .part
        .send(Rank(1), 7, content(0, 50_000))
        .expect("there is room");
    let receive = both[1]
        .part
        .recv_until(Rank(0), 7, 50_000, Some(deadline))
        .expect("there is room");
    let mut buffer = [0; FRAME_BYTES];
    while let Some(length) = both[0].poll_transmit(start, &mut buffer) {
        both[1].handle_frame(start, &buffer[..length]);
    }
    assert!(
        !both[1].part.cancel_recv(receive),
        "its message has begun to arrive"
    );
    both[1].handle_timeout(deadline);
    assert_eq!(
        both[1].part.poll_completion(),
        Some(Completion::Recv {
            id: receive,
            outcome: RecvOutcome::TimedOut
        })
    );
    exchange(&mut both, deadline);
    assert_eq!(
        both[0].part.poll_completion(),
        Some(Completion::Send {
            id: send,
            outcome: SendOutcome::Refused
        })
    );
    assert_eq!(both[1].part.memory().destination_bytes, 0);
}

#[test]
fn a_frame_of_another_session_or_from_another_address_is_a_non_members() {
    let [mut mailbox, _] = pair(&small());
    let frame = made_up(Kind::ASK, 0, 1, &[]);
    let mut header = key::parse(&frame).expect("own frames parse").header;
    let link = |host| EthernetHeader {
        source: host_mac(host),
        destination: host_mac(0),
        ether_type: EtherType::DEFAULT,
    };
    mailbox.handle_frame(Instant::START, &key::sealed(link(3), &header, &[]));
    (header.session, header.rank) = (78, Rank(1));
    mailbox.handle_frame(Instant::START, &key::sealed(link(1), &header, &[]));
    assert_eq!(mailbox.part.stats().non_members, 2);
    let mut buffer = [0; FRAME_BYTES];
    assert_eq!(mailbox.poll_transmit(Instant::START, &mut buffer), None);
}

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
    let header = Header {
        kind,
        session: 77,
        stream: StreamId(0),
        rank: Rank(1),
        epoch: 0,
        flags: Flags(0),
        sequence,
        stamp,
    };
    let link = EthernetHeader {
        source: host_mac(1),
        destination: host_mac(0),
        ether_type: EtherType::DEFAULT,
    };
    key::sealed(link, &header, &body)
}

fn survive(seed: u64) {
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
    let lengths: Vec<usize> = (0..MESSAGES)
        .map(|_| random.below(40_000) as usize)
        .collect();
    let (mut begun, mut ended, mut done_at) = ([false; 2], [0; 2], Instant::START);
    let outcome = simulation.run(Instant::START + BOUND, |host, machine, now| {
        let mailbox = &mut machine.part;
        if !std::mem::replace(&mut begun[host], true) {
            for (number, &length) in lengths.iter().enumerate() {
                let peer = Rank(1 - host as u16);
                mailbox
                    .send(peer, number as u32, content(number, length))
                    .expect("there is room");
                mailbox
                    .recv(peer, number as u32, length)
                    .expect("there is room");
            }
        }
        while let Some(completion) = mailbox.poll_completion() {
            ended[host] += 1;
            done_at = now;
            if let Completion::Recv {
                outcome: RecvOutcome::Received { bytes },
                ..
            } = completion
            {
                let is_one = |(number, &length): (usize, &usize)| bytes == content(number, length);
                assert!(
                    lengths.iter().enumerate().any(is_one),
                    "{replay}: host {host}"
                );
            }
        }
        mailbox
            .audit()
            .unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        None
    });
    assert!(
        outcome.is_quiet(),
        "{replay}: {outcome:?}, {:?}",
        simulation.next_deadline()
    );
    // A rank that was given up gets no replies, and cannot know that it waits in vain.
    assert_eq!(ended[0], MESSAGES * 2, "{replay}");
    assert!(done_at < Instant::START + BOUND, "{replay}: {done_at:?}");
    // Rank 1 may wait for messages of rank 0, which no longer replies to it.
    assert!(
        ended[1] == MESSAGES * 2 || (forgery.0 == Kind::RECEIPT && loss > 0.0),
        "{replay}: {ended:?}"
    );
}

#[test]
fn one_forged_acknowledgement_or_request_does_not_hang_its_victim() {
    (0..key::share_of(RUNS)).for_each(survive);
}
