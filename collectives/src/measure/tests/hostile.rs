//! Tests of network measurements under malicious frames.

use super::*;
use crate::measure::body::{ProbeBody, Task};
use crate::measure::responder::StreamPlace;
use crate::measure::{Search, kind};
use ethbcast_transport::Machine;
use ethbcast_transport::wire::{
    self, EthernetHeader, Flags, Header, OVERHEAD_BYTES, PayloadHash, Rank, StreamId,
};
use proptest::prelude::*;

fn probe(body: ProbeBody, flags: Flags, index: u64, test: u32) -> Vec<u8> {
    let mut frame = vec![0; OVERHEAD_BYTES + ProbeBody::BYTES];
    body.write(&mut frame[OVERHEAD_BYTES..]);
    let header = Header {
        kind: crate::measure::kind::PROBE,
        session: SESSION,
        stream: StreamId(0),
        rank: Rank::ROOT,
        epoch: 0,
        flags,
        sequence: index,
        stamp: test,
    };
    let link = EthernetHeader {
        source: host_mac(0),
        destination: host_mac(1),
        ether_type: EtherType::DEFAULT,
    };
    wire::seal(&mut frame, link, &header, ProbeBody::BYTES);
    frame
}

fn drain(responder: &mut Alone<Responder>) -> (usize, usize) {
    let mut buffer = vec![0; 1514];
    let lengths: Vec<usize> =
        std::iter::from_fn(|| responder.poll_transmit(Instant::START, &mut buffer))
            .take(100_000)
            .collect();
    (lengths.len(), lengths.iter().sum())
}

#[test]
fn an_echo_has_a_limit() {
    let ask = |number: u32, payload_bytes: u16| {
        let mut responder = Alone::new(responder(1));
        responder.handle_frame(
            Instant::START,
            &probe(
                ProbeBody {
                    task: Task::Ping,
                    payload_bytes,
                    number,
                },
                Flags::LAST,
                0,
                1,
            ),
        );
        drain(&mut responder).0
    };
    assert_eq!(ask(65_536, 1468), 45);
    assert_eq!(ask(u32::MAX, 1468), 0, "four gigabytes");
    assert_eq!(ask(100_000, 1), 0, "thousands of frames of a few bytes");
    assert_eq!(
        ask(1000, u16::MAX),
        1,
        "a frame is never longer than the own MTU"
    );
}

#[test]
fn answers_that_cannot_leave_do_not_pile_up() {
    let mut responder = Alone::new(responder(1));
    for test in 0..10_000 {
        responder.handle_frame(
            Instant::START,
            &probe(ProbeBody::plain(Task::Ask), Flags::default(), 0, test),
        );
    }
    assert_eq!(drain(&mut responder).0, 64);
}

fn order(from: usize, test: u32, place: StreamPlace) -> Vec<u8> {
    let body = ProbeBody {
        task: Task::Bulk,
        payload_bytes: 1468,
        number: 1,
    };
    let identity = identity(from);
    let header = Header {
        stamp: test,
        ..identity.header(kind::PROBE)
    };
    let mut frame = vec![0; 1514];
    let length = identity.write(&mut frame, host_mac(1), &header, &place.behind(&body));
    frame.truncate(length);
    frame
}

#[test]
fn a_stream_is_taken_from_one_prober_at_a_time_by_who_was_started_to_be_measured() {
    let nobody = StreamPlace::default();
    let answered = |responder: &mut Alone<Responder>, frame: &[u8], at: Duration| {
        responder.handle_timeout(Instant::START + at);
        responder.handle_frame(Instant::START + at, frame);
        drain(responder).0
    };
    let mut in_a_session = Alone::new(Responder::new(identity(1), MTU_BYTES, None));
    assert_eq!(
        answered(&mut in_a_session, &order(0, 1, nobody), Duration::ZERO),
        0
    );
    let mut responder = Alone::new(responder(1));
    let beside = |parent, child| {
        let peer = |mac| Some(Peer { rank: Rank(2), mac });
        StreamPlace {
            parent: peer(parent),
            child: peer(child),
            ..nobody
        }
    };
    for (parent, child) in [
        (2, group()),
        (2, host_mac(1)),
        (1, host_mac(2)),
        (2, host_mac(2)),
    ] {
        let place = beside(host_mac(parent), child);
        assert_eq!(
            answered(&mut responder, &order(0, 1, place), Duration::ZERO),
            0,
            "{place:?}"
        );
    }
    assert_eq!(
        answered(&mut responder, &order(0, 2, nobody), Duration::ZERO),
        1,
        "a report"
    );
    assert_eq!(
        answered(
            &mut responder,
            &order(0, 2, nobody),
            Duration::from_millis(10)
        ),
        1,
        "asked again"
    );
    assert_eq!(
        answered(
            &mut responder,
            &order(0, 1, nobody),
            Duration::from_millis(10)
        ),
        0,
        "of a test before"
    );
    assert_eq!(
        answered(&mut responder, &order(2, 9, nobody), Duration::from_secs(1)),
        0,
        "it listens to another"
    );
    assert!(responder.poll_timeout(Instant::START).is_some());
    assert_eq!(
        answered(&mut responder, &order(2, 9, nobody), Duration::from_secs(3)),
        1,
        "who has gone"
    );
    responder.handle_timeout(Instant::START + Duration::from_secs(6));
    assert_eq!(
        responder.poll_timeout(Instant::START),
        None,
        "nothing is kept of it"
    );
}

/// Recorded orders of an earlier run of the host carry another number.
#[test]
fn orders_without_the_number_that_the_host_has_drawn_have_no_effect() {
    let with = |frame: &[u8], token: &[u8]| {
        let mut payload = wire::parse(frame).expect("a frame").payload.to_vec();
        payload.extend(token);
        let mut longer = vec![0; 1514];
        let identity = identity(0);
        let header = Header {
            stamp: 7,
            ..identity.header(kind::PROBE)
        };
        let length = identity.write(&mut longer, host_mac(1), &header, &payload);
        longer.truncate(length);
        longer
    };
    let stream = order(0, 7, StreamPlace::default());
    let body = ProbeBody {
        task: Task::Flow,
        payload_bytes: 500,
        number: 20,
    };
    let mut flow = vec![0; 1514];
    let identity = identity(0);
    let about = body.about(&[host_mac(2), host_mac(1)]);
    let length = identity.write(
        &mut flow,
        host_mac(1),
        &identity.header(kind::PROBE),
        &about,
    );
    flow.truncate(length);
    for (what, order, frames) in [("a stream", stream, 1), ("a flow", flow, 20)] {
        for (token, taken) in [
            (&[][..], 0),
            (&6_u64.to_be_bytes(), 0),
            (&5_u64.to_be_bytes(), frames),
        ] {
            let mut responder = Alone::new(responder(1).with_token(5));
            responder.handle_frame(Instant::START, &with(&order, token));
            assert_eq!(drain(&mut responder).0, taken, "{what} by {token:?}");
        }
        let mut responder = Alone::new(responder(1));
        responder.handle_frame(Instant::START, &order);
        assert_eq!(drain(&mut responder).0, frames, "{what} without keys");
    }
    let mut finder = Finder::new(
        Instant::START,
        identity,
        "test",
        Search {
            patience: Duration::from_secs(1),
            ..Search::default()
        },
    );
    let mut responder = Alone::new(responder(1).with_token(5));
    finder.handle_timeout(Instant::START);
    let mut buffer = vec![0; 1514];
    let length =
        Part::poll_transmit(&mut finder, Instant::START, &mut buffer).expect("an invitation");
    responder.handle_frame(Instant::START, &buffer[..length]);
    let length = responder
        .poll_transmit(Instant::START, &mut buffer)
        .expect("its reply");
    finder.handle_frame(
        Instant::START,
        &wire::parse(&buffer[..length]).expect("a frame"),
    );
    assert_eq!(
        finder
            .found()
            .iter()
            .map(|host| host.token)
            .collect::<Vec<_>>(),
        [Some(5)]
    );
}

/// A replayed frame under another of the cluster's secrets may come between.
#[test]
fn a_reply_has_the_guard_of_the_frame_that_it_replies_to() {
    let guards = [1, 2].map(|key| Guard::keyed(&[key; 32], &[key; 32], PayloadHash::Blake3));
    let ask = probe(ProbeBody::plain(Task::Ask), Flags::default(), 0, 1);
    let ask = wire::parse(&ask).expect("a frame");
    let mut responder = responder(1);
    for guard in &guards {
        responder.set_guard(guard.clone());
        responder.handle_frame(Instant::START, &ask);
    }
    let mut buffer = vec![0; 1514];
    for guard in &guards {
        let length = responder
            .poll_transmit(Instant::START, &mut buffer)
            .expect("a reply");
        assert!(guard.parse(&buffer[..length]).is_ok());
    }
}

#[test]
fn a_straggler_of_an_old_train_does_not_disturb_the_present_one() {
    let mut responder = Alone::new(responder(1));
    let frame = |index, test, flags| probe(ProbeBody::plain(Task::Train), flags, index, test);
    for (index, test) in [(0, 7), (1, 7), (0, 8), (2, 7), (1, 8)] {
        responder.handle_frame(Instant::START, &frame(index, test, Flags::default()));
    }
    responder.handle_frame(Instant::START, &frame(2, 8, Flags::ACK_NOW));
    let mut buffer = [0; 1514];
    let length = responder
        .poll_transmit(Instant::START, &mut buffer)
        .expect("a report");
    let report = wire::parse(&buffer[..length]).expect("own frames parse");
    let body = crate::measure::body::ReportBody::decode(report.payload).expect("a report");
    assert_eq!(
        (report.header.sequence, report.header.stamp, body.arrived),
        (3, 8, 3)
    );
}

struct Liar {
    responder: Alone<Responder>,
    random: ethbcast_transport::sim::Random,
}

impl Liar {
    fn number(&mut self) -> u64 {
        let numbers = [
            0,
            1,
            2,
            100,
            1_000_000,
            u64::MAX / 2,
            u64::MAX - 1,
            u64::MAX,
        ];
        numbers[self.random.below(numbers.len() as u64) as usize]
    }

    fn distort(&mut self, host: usize, buffer: &mut [u8], length: usize) {
        let parsed = wire::parse(&buffer[..length]).expect("own frames parse");
        let (mut header, payload_bytes) = (parsed.header, parsed.payload.len());
        if header.kind != crate::measure::kind::REPORT {
            return;
        }
        if self.random.below(32) == 0 {
            header.sequence = self.number();
        }
        let fields = payload_bytes as u64 / 8;
        let (all, only) = (self.random.below(3) == 0, self.random.below(2 * fields));
        (0..payload_bytes / 8).for_each(|at| {
            let number = self.number();
            if all || at as u64 == only {
                buffer[OVERHEAD_BYTES + at * 8..][..8].copy_from_slice(&number.to_be_bytes());
            }
        });
        let link = EthernetHeader {
            source: host_mac(host),
            destination: host_mac(0),
            ether_type: EtherType::DEFAULT,
        };
        wire::seal(buffer, link, &header, payload_bytes);
    }
}

#[test]
fn responders_that_lie_harm_only_the_result() {
    let mut streams = 0;
    for seed in 0..12 {
        // Half of the runs are short, which leaves time for streams.
        let full = ProbeSettings {
            bulk: Duration::from_millis(9),
            ..ProbeSettings::full(MTU_BYTES).with_cast(group())
        };
        let short = ProbeSettings {
            rounds: 1,
            sizes_bytes: vec![256, 1468],
            ..full.clone()
        };
        let settings = ProbeSettings {
            budget: Duration::from_secs(5),
            ..if seed % 2 == 0 { short } else { full }
        };
        let peers = (1..=3)
            .map(|host| Peer {
                rank: Rank(host),
                mac: host_mac(host.into()),
            })
            .collect();
        let lent = Some(Processors::new(|| Duration::from_secs(1), 7, u32::MAX));
        let mut prober = Alone::new(
            Prober::new(Instant::START, identity(0), peers, settings).with_processors(lent),
        );
        let liar = |host| Liar {
            responder: Alone::new(responder(host).with_processors(lent)),
            random: ethbcast_transport::sim::Random::new(seed * 4 + host as u64),
        };
        let mut liars = [1, 2, 3].map(liar);
        let (mut buffer, mut now) = (vec![0; 1514], Instant::START);
        let mut frames = 0_u64;
        while !prober.part.is_done() {
            prober.handle_timeout(now);
            while let Some(length) = prober.poll_transmit(now, &mut buffer) {
                let to = wire::destination(&buffer[..length]);
                let hears =
                    |host: usize| to.is_none_or(|to| to == host_mac(host) || to.is_multicast());
                (1..)
                    .zip(&mut liars)
                    .filter(|(host, _)| hears(*host))
                    .for_each(|(_, liar)| {
                        liar.responder.handle_frame(now, &buffer[..length]);
                    });
                frames += 1;
            }
            for at in 0..liars.len() {
                while let Some(length) = liars[at].responder.poll_transmit(now, &mut buffer) {
                    liars[at].distort(at + 1, &mut buffer, length);
                    match wire::destination(&buffer[..length])
                        .and_then(|to| (1..=3).find(|&host| host_mac(host) == to))
                    {
                        Some(host) => liars[host - 1]
                            .responder
                            .handle_frame(now, &buffer[..length]),
                        None => prober.handle_frame(now, &buffer[..length]),
                    }
                }
                liars[at].responder.handle_timeout(now);
            }
            now += Duration::from_millis(1);
            assert!(
                now <= Instant::START + Duration::from_secs(6),
                "seed {seed}: the budget holds"
            );
        }
        assert!(frames < 20_000_000, "seed {seed}: {frames} frames");
        let result = prober.part.result();
        assert!(
            result.points.is_sorted_by_key(|point| point.gap_nanos) && result.loss <= 1.0,
            "seed {seed}: {result:?}"
        );
        streams += u32::from(result.bulk.is_some());
        if result.points.len() > 1 {
            crate::measure::calibrate(&result).expect("whatever they say, it can be priced");
        }
    }
    assert!(streams > 2, "in {streams} runs a stream was believed");
}

fn frame() -> impl Strategy<Value = (u8, u8, Option<u32>, u64, Vec<u8>)> {
    let payload = prop::collection::vec(any::<u8>(), 0..60);
    (
        24..30_u8,
        any::<u8>(),
        prop::option::of(0..20_u32),
        any::<u64>(),
        payload,
    )
}

proptest! {
    #[test]
    fn under_any_frames_nobody_panics_and_the_prober_ends(
        frames in prop::collection::vec(frame(), 0..40),
    ) {
        let peer = Peer { rank: Rank(1), mac: host_mac(1) };
        let settings = ProbeSettings::short(MTU_BYTES);
        let budgets = [settings.budget, settings.slow_budget];
        let mut prober = Alone::new(Prober::new(Instant::START, identity(0), vec![peer], settings));
        let mut responder = Alone::new(responder(1));
        let mut buffer = vec![0; 1514];
        for (at, (kind, flags, test, sequence, payload)) in frames.iter().enumerate() {
            let kind = [kind::PROBE, kind::ECHO, kind::REPORT][usize::from(kind % 3)];
            let (flags, sequence, stamp) = (Flags(*flags), *sequence, test.unwrap_or(u32::MAX));
            let header = Header { flags, sequence, stamp, ..identity(1).header(kind) };
            let mut frame = vec![0; OVERHEAD_BYTES + payload.len()];
            frame[OVERHEAD_BYTES..].copy_from_slice(payload);
            let link = EthernetHeader { source: host_mac(1), destination: host_mac(0), ether_type: EtherType::DEFAULT };
            wire::seal(&mut frame, link, &header, payload.len());
            let now = Instant::from_nanos(at as u64 * 100_000);
            prober.handle_frame(now, &frame);
            responder.handle_frame(now, &frame);
            for _ in 0..300 {
                let _length = (prober.poll_transmit(now, &mut buffer), responder.poll_transmit(now, &mut buffer));
            }
        }
        for budget in budgets {
            prober.handle_timeout(Instant::START + budget);
        }
        prop_assert!(prober.part.is_done());
        prop_assert!(prober.poll_transmit(Instant::START, &mut buffer).is_none());
        let _result = prober.part.result();
    }
}
