//! Tests of point-to-point messages in the simulator: every loss pattern of short ones, large ones
//! under faults.

mod bad_input;
#[path = "../common/guard.rs"]
mod guard;
#[path = "../common/key.rs"]
mod key;
mod play;

use ethbcast_transport::messages::{Mailbox, RecvOutcome, SendOutcome, Settings};
use ethbcast_transport::sim::{Delivery, Fate, NoFaults, Random, RandomFaults, script};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Alone, Instant, Machine};
use play::{Message, assert_delivered, content, mailbox, play};
use std::time::Duration;

const LOSABLE: u32 = 12;
const LATE: Duration = Duration::from_millis(3);

fn presets() -> [(&'static str, Settings); 2] {
    [
        ("default", Settings::default()),
        ("paper", Settings::paper()),
    ]
}

const FULL: usize = 1436;

fn push_bytes(settings: &Settings) -> (usize, usize) {
    let btp1 = settings.btp1_bytes.min(FULL);
    (btp1, btp1 + settings.btp2_bytes)
}

#[test]
fn all_of_this_holds_with_a_key() {
    key::run_again("all_of_this_holds_with_a_key");
}

#[test]
fn every_way_to_lose_some_of_the_first_twelve_frames_is_survived_within_the_budget() {
    for (preset, settings) in presets() {
        let (btp1, btp) = push_bytes(&settings);
        for length in [0, 1, btp1, btp, btp + 1, 3 * 1468] {
            for received_at in [Duration::ZERO, LATE] {
                let message = [Message::new(0, 1, 7, length, received_at)];
                let run = |pattern: u64| {
                    let replay = format!(
                        "{preset} length={length} received_at={received_at:?} pattern={pattern:#x}"
                    );
                    let price = play(
                        2,
                        &settings,
                        &message,
                        script(pattern, |_: &Delivery<'_>| true),
                        &replay,
                    );
                    assert_delivered(&price, &message, &replay);
                    (price, replay)
                };
                let (free, mut worst) = (run(0).0.frames, 0);
                for pattern in 0..1_u64 << LOSABLE {
                    let (price, replay) = run(pattern);
                    let lost = u64::from(pattern.count_ones());
                    // A loss may cost a request, its reply, a repair and its receipt; strict
                    // go-back-n repeats all later frames.
                    let budget = free + if preset == "paper" { 6 } else { 4 } * lost + 4;
                    assert!(
                        price.frames <= budget,
                        "{replay}: {} frames for {lost} losses, budget {budget}",
                        price.frames
                    );
                    worst = worst.max(price.frames);
                }
                println!(
                    "{preset} {length} bytes, received at {received_at:?}: {free} frames, worst {worst}"
                );
            }
        }
    }
}

/// A push that uses half of the announced room makes the receiver announce more.
#[test]
fn a_short_message_costs_one_frame_and_a_long_one_a_grant_more() {
    for (length, pushes, pulls, notes) in [
        (0, 1, 0, 0),
        (64, 1, 0, 0),
        (FULL, 1, 0, 0),
        (18_668, 13, 0, 1),
        (18_669, 13, 1, 1),
    ] {
        let message = [Message::new(0, 1, 7, length, Duration::ZERO)];
        let price = play(2, &Settings::default(), &message, NoFaults, "no faults");
        assert_delivered(&price, &message, "no faults");
        let totals = price.totals;
        assert_eq!(
            (totals.pushes_sent, totals.pulls_sent, totals.notes_sent),
            (pushes, pulls, notes),
            "{length} bytes"
        );
        assert_eq!((totals.resent, totals.asks_sent), (0, 0), "{length} bytes");
        let receipts = if notes == 0 { 1 } else { 3 };
        assert!(
            price.frames <= pushes + pulls + notes + receipts,
            "{length} bytes: {} frames",
            price.frames
        );
    }
    let message = [Message::new(0, 1, 7, 3000, LATE)];
    let totals = play(2, &Settings::paper(), &message, NoFaults, "no faults").totals;
    assert_eq!(
        (totals.pushes_sent, totals.pulls_sent, totals.notes_sent),
        (2, 2, 1),
        "80 and 780 bytes, then 2140"
    );
}

#[test]
fn messages_of_one_tag_arrive_in_order_whatever_gets_lost_and_tags_do_not_wait_for_each_other() {
    for pattern in 0..1_u64 << LOSABLE {
        let message = |tag, length, at| Message::new(0, 1, tag, length, Duration::from_micros(at));
        // Equal tags: long, short, long; the other tag is received first though it is sent last.
        let messages = [
            message(1, 3000, 900),
            message(1, 10, 901),
            message(1, 2000, 902),
            message(2, 500, 0),
            message(2, 900, 400),
        ];
        let settings = Settings {
            btp1_bytes: 80,
            btp2_bytes: 780,
            ..Settings::default()
        };
        let replay = format!("pattern={pattern:#x}");
        let price = play(
            2,
            &settings,
            &messages,
            script(pattern, |_: &Delivery<'_>| true),
            &replay,
        );
        assert_delivered(&price, &messages, &replay);
    }
}

#[test]
fn a_receive_that_is_too_short_ends_with_the_length_and_its_sender_goes_on() {
    for (preset, settings) in presets() {
        for pattern in 0..1_u64 << LOSABLE {
            for received_at in [Duration::ZERO, LATE] {
                let long = Message {
                    max_bytes: 99,
                    ..Message::new(0, 1, 7, 20_000, received_at)
                };
                let short = Message {
                    max_bytes: 99,
                    ..Message::new(0, 1, 7, 100, received_at)
                };
                let messages = [long, short, Message::new(0, 1, 7, 50, received_at)];
                let replay = format!("{preset} received_at={received_at:?} pattern={pattern:#x}");
                let price = play(
                    2,
                    &settings,
                    &messages,
                    script(pattern, |_: &Delivery<'_>| true),
                    &replay,
                );
                let ends: Vec<_> = price.sends.values().copied().collect();
                assert_eq!(
                    ends,
                    [SendOutcome::Refused, SendOutcome::Sent, SendOutcome::Sent],
                    "{replay}"
                );
                assert_eq!(
                    price.receives[&0],
                    RecvOutcome::TooShort {
                        message_bytes: 20_000
                    },
                    "{replay}"
                );
                assert_eq!(
                    price.receives[&1],
                    RecvOutcome::TooShort { message_bytes: 100 },
                    "{replay}"
                );
                assert_eq!(
                    price.receives[&2],
                    RecvOutcome::Received {
                        bytes: content(2, 50)
                    },
                    "{replay}"
                );
            }
        }
    }
}

#[test]
fn a_message_whose_deadline_passes_is_withdrawn_and_the_next_one_of_its_tag_takes_its_place() {
    for (preset, settings) in presets() {
        for pattern in 0..1_u64 << LOSABLE {
            let late = Duration::from_secs(2);
            let patience = Some(Duration::from_millis(1));
            let given_up = Message {
                received_at: None,
                patience,
                ..Message::new(0, 1, 7, 20_000, late)
            };
            let next = Message {
                sent_at: Duration::from_millis(1),
                ..Message::new(0, 1, 7, 2000, late)
            };
            let messages = [given_up, next];
            let replay = format!("{preset} pattern={pattern:#x}");
            let price = play(
                2,
                &settings,
                &messages,
                script(pattern, |_: &Delivery<'_>| true),
                &replay,
            );
            assert_eq!(price.sends[&0], SendOutcome::TimedOut, "{replay}");
            assert_eq!(price.sends[&1], SendOutcome::Sent, "{replay}");
            assert_eq!(
                price.receives[&1],
                RecvOutcome::Received {
                    bytes: content(1, 2000)
                },
                "{replay}"
            );
        }
    }
}

#[test]
fn frames_that_overtake_each_other_by_far_are_hardly_sent_twice() {
    let messages = [Message::new(0, 1, 7, 8 << 20, Duration::ZERO)];
    let constant = |_: &Delivery<'_>| Fate::Delay(Duration::from_millis(10));
    let without = play(2, &Settings::default(), &messages, constant, "10 ms");
    let faults = RandomFaults::new(1).reorder(1.0, Duration::from_millis(20));
    let jitter = play(2, &Settings::default(), &messages, faults, "0 to 20 ms");
    assert_delivered(&jitter, &messages, "0 to 20 ms");
    println!(
        "{without:?}, {jitter:?}",
        without = (without.quiesced_at, without.totals),
        jitter = (jitter.quiesced_at, jitter.totals)
    );
    assert!(
        jitter.quiesced_at < without.quiesced_at * 2,
        "{:?}, {:?} without",
        jitter.quiesced_at,
        without.quiesced_at
    );
    let sent = jitter.totals.pushes_sent + jitter.totals.pulls_sent;
    assert!(jitter.totals.resent < sent / 10, "{:?}", jitter.totals);
}

/// Draws messages among all hosts; receives of one source and tag are posted in the order of the
/// sends.
fn all_to_all(hosts: u16, random: &mut Random) -> Vec<Message> {
    let mut messages = Vec::new();
    let pairs: Vec<(u16, u16)> = (0..hosts)
        .flat_map(|from| (0..hosts).map(move |to| (from, to)))
        .collect();
    for (from, to) in pairs {
        for at in 0..1 + random.below(4) {
            let tag = random.below(2) as u32;
            let longest = [1, 100, 1500, 15_000, 60_000][random.below(5) as usize];
            let received_at = Duration::from_micros(at * 1000 + random.below(1000));
            let sent_at = Duration::from_micros(at * 700);
            messages.push(Message {
                sent_at,
                ..Message::new(from, to, tag, random.below(longest) as usize, received_at)
            });
        }
    }
    messages
}

#[test]
fn seeded_exchanges_all_to_all_are_survived_within_a_frame_budget() {
    for seed in 0..key::share_of(1500) {
        let mut random = Random::new(seed);
        let hosts = 2 + random.below(7) as u16;
        let (preset, settings) = &presets()[(seed % 2) as usize];
        let messages = all_to_all(hosts, &mut random);
        let loss = [0.0, 0.01, 0.1, 0.3][random.below(4) as usize];
        let faults = RandomFaults::new(seed)
            .loss(loss)
            .duplicate(0.02)
            .reorder(0.02, Duration::from_micros(400))
            .corrupt(0.01);
        let replay = format!("seed={seed} {preset} hosts={hosts} loss={loss}");
        let price = play(hosts.into(), settings, &messages, faults, &replay);
        assert_delivered(&price, &messages, &replay);
        let totals = price.totals;
        let first = totals.pushes_sent + totals.pulls_sent + totals.notes_sent;
        // Lost or damaged with probability q, a frame is sent 1/(1-q) times; go-back-n repeats up
        // to its window of 16 for one.
        let (q, back) = (loss + 0.01, if *preset == "paper" { 16.0 } else { 1.5 });
        let budget = first as f64 * (q / (1.0 - q) + 0.06) * back + 40.0;
        assert!(
            (totals.resent as f64) < budget,
            "{replay}: {} of {first} resent, budget {budget:.0}",
            totals.resent
        );
        let pairs = f64::from(hosts) * f64::from(hosts - 1);
        let other = (totals.receipts_sent + totals.asks_sent) as f64;
        let control = (first + totals.resent) as f64 * 1.2 + pairs * 20.0;
        assert!(
            other < control,
            "{replay}: {other} receipts and questions, budget {control:.0}"
        );
    }
}

const PAYLOAD_BYTES: usize = 1468;
const LONG_BYTES: usize = 1 << 20;

fn pass(from: &mut Alone<Mailbox>, to: &mut Alone<Mailbox>, now: Instant, most: usize) -> usize {
    let mut buffer = [0; PAYLOAD_BYTES + 54];
    let one = |_: &usize| match from.poll_transmit(now, &mut buffer) {
        Some(length) => {
            to.handle_frame(now, &buffer[..length]);
            true
        }
        None => false,
    };
    (0..most).take_while(one).count()
}

fn collect(mailbox: &mut Alone<Mailbox>) -> usize {
    std::iter::from_fn(|| mailbox.part.poll_completion()).count()
}

#[test]
fn each_frame_of_a_short_message_is_waited_for_and_those_in_the_middle_of_a_long_one_are_not() {
    let settings = Settings::default();
    let [mut a, mut b] = [0, 1].map(|rank| mailbox(rank, 2, PAYLOAD_BYTES, &settings));
    let mut now = Instant::from_nanos(1_000_000);
    assert!(!a.is_urgent() && !b.is_urgent(), "nothing is asked for");
    b.part.recv(Rank(0), 7, 100).expect("there is room");
    assert!(
        b.is_urgent(),
        "a message is waited for, and short until it is known to be long"
    );
    a.part
        .send(Rank(1), 7, content(0, 100))
        .expect("there is room");
    pass(&mut a, &mut b, now, usize::MAX);
    assert_eq!((collect(&mut b), b.is_urgent()), (1, false), "it is there");
    assert!(a.is_urgent(), "its end is not known");
    now += settings.tuning.ack.delay;
    b.handle_timeout(now);
    pass(&mut b, &mut a, now, usize::MAX);
    assert_eq!((collect(&mut a), a.is_urgent()), (1, false));

    b.part.recv(Rank(0), 7, LONG_BYTES).expect("there is room");
    b.part.recv(Rank(0), 7, LONG_BYTES).expect("there is room");
    a.part
        .send(Rank(1), 7, content(1, LONG_BYTES))
        .expect("there is room");
    let (mut bulk, mut frames) = (0, 0);
    while collect(&mut b) == 0 {
        // Acknowledgements come late, so that the window has time to grow.
        let consumed = pass(&mut a, &mut b, now, 8);
        let (there, back) = (a.is_urgent(), b.is_urgent());
        if consumed == 0 {
            pass(&mut b, &mut a, now, usize::MAX);
        }
        assert!(
            there || frames >= 9,
            "waiting for the grant after {frames} frames"
        );
        assert!(
            back || (frames + 64) * PAYLOAD_BYTES <= LONG_BYTES,
            "the last of {frames} frames"
        );
        bulk += usize::from(!there && !back);
        frames += consumed;
    }
    assert!(
        bulk * 8 > LONG_BYTES / PAYLOAD_BYTES / 2,
        "{bulk} of {} times",
        frames / 8
    );
}
