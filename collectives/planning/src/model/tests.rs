//! Tests of predicted broadcast times: hand calculations, and properties of every prediction.

use super::*;
use crate::plan::{self, Plan, Via};
use crate::topology::{Topology, arbitrary};
use proptest::prelude::*;

fn plain() -> Calibration {
    let point = |bytes, gap_ns| Point {
        bytes,
        gap_ns,
        latency_ns: 5000,
    };
    Calibration::from_points(vec![point(100, 1000), point(1000, 10_000)]).expect("two points")
}

fn bed(name: &str) -> Topology {
    Topology::builtin(name).expect(name)
}

fn everybody(topology: &Topology) -> Vec<usize> {
    (0..topology.hosts().len()).collect()
}

fn one_switch(ranks: usize) -> Topology {
    Topology::single_switch((0..ranks).map(|host| format!("n{host}"))).expect("hosts")
}

fn shape(via: Via, topology: &Topology) -> Shape {
    let members = everybody(topology);
    let plan = plan::make(via, topology, 0, &members, &plan::Costs::default()).expect("a plan");
    Shape::of(&plan, topology, &members)
}

fn microseconds(
    shape: &Shape,
    size_bytes: u64,
    segment_bytes: u64,
    calibration: &Calibration,
) -> f64 {
    let job = Job {
        size_bytes,
        segment_bytes,
        frame_payload_bytes: 100,
    };
    (predict(shape, &job, calibration) * 1e9).round() / 1e3
}

#[test]
fn equation_1_prices_a_chain() {
    let chain = shape(Via::Chain, &one_switch(4));
    // 3 hops of 5 + 1 µs, then 9 more segments of 1 µs. The tenth is half as long and counts half.
    assert_eq!(microseconds(&chain, 1000, 100, &plain()), 18.0 + 9.0);
    assert_eq!(microseconds(&chain, 950, 100, &plain()), 18.0 + 8.5);
    assert_eq!(microseconds(&chain, 1000, 1000, &plain()), 45.0);
    // A segment longer than the message is the message; an empty one costs the path.
    assert_eq!(microseconds(&chain, 400, 1000, &plain()), 27.0);
    assert_eq!(microseconds(&chain, 0, 1000, &plain()), 18.0);
}

#[test]
fn an_edge_adds_the_latency_of_its_cables_and_of_its_pair() {
    let far = |text: &str| {
        let text = format!(
            "schema = 1\nswitch = [{{name='a', hosts='n[0-1]', links=[{{to='b', latency_ns=20000}}]}}, \
             {{name='b', hosts='n[2-3]'}}]\n{text}"
        );
        Topology::parse(&text, "far").expect("a topology")
    };
    let time =
        |topology: &Topology, via: Via| microseconds(&shape(via, topology), 1000, 100, &plain());
    // 3 hops of 5 + 1 µs, of which one crosses the long cable, then 9 segments of 1 µs.
    assert_eq!(time(&far(""), Via::Chain), 18.0 + 20.0 + 9.0);
    assert_eq!(time(&far(""), Via::Cast), 10.0 + 5.0 + 20.0);
    let pair = far("[[pair]]\nhosts = ['n0', 'n3']\nlatency_ns = 7000\n");
    assert_eq!(time(&pair, Via::Chain), 18.0 + 20.0 + 9.0);
    assert_eq!(time(&pair, Via::Cast), 10.0 + 5.0 + 27.0);
    let host = far("[[host]]\nname = 'n2'\nlatency_ns = 3000\n");
    // A far host is the last on its switch.
    assert_eq!(time(&host, Via::Chain), 18.0 + 20.0 + 3.0 + 9.0);
    let near = time(&one_switch(4), Via::ScatterAllgather);
    assert!(time(&far(""), Via::ScatterAllgather) >= near + 5.0 * 20.0);
}

#[test]
fn a_relay_takes_no_less_than_its_processor() {
    let slow = |shared_cores| {
        let processing = Processing {
            send_frame_ns: 900,
            send_byte_ps: 1000,
            receive_frame_ns: 1000,
            shared_cores,
            ..Processing::default()
        };
        plain().with_processing(processing).expect("under a second")
    };
    // A frame of 100 bytes takes 1 µs on a cable, 1 µs to receive and 1 µs to send to each child.
    let chain = shape(Via::Chain, &one_switch(4));
    assert_eq!(microseconds(&chain, 1000, 100, &slow(0)), 18.0 + 9.0 * 2.0);
    let children = [vec![1, 2], vec![], vec![3, 4], vec![], vec![]];
    let plan = Plan::from_children(Via::Binary, 0, &children).expect("a plan");
    let figure = Shape::of(&plan, &one_switch(5), &[0, 1, 2, 3, 4]);
    assert_eq!(microseconds(&figure, 1000, 100, &slow(0)), 14.0 + 9.0 * 3.0);
    // Flat plans and casts have no relays.
    for via in [Via::Flat, Via::Cast] {
        let shape = shape(via, &one_switch(4));
        assert_eq!(
            microseconds(&shape, 1000, 100, &slow(0)),
            microseconds(&shape, 1000, 100, &plain()),
            "{via}"
        );
    }
    // One core serves all: 3 sends and 3 receptions of 10 frames, one after the other.
    assert_eq!(microseconds(&chain, 1000, 100, &slow(1)), 60.0 + 5.0);
    // A cast saves nothing: the program that stands for the switch makes the copies.
    assert_eq!(
        microseconds(&shape(Via::Cast, &one_switch(4)), 1000, 100, &slow(1)),
        60.0 + 5.0
    );
}

#[test]
fn long_messages_take_processors_what_streams_do() {
    let in_streams = |shared_cores| {
        let processing = Processing {
            send_frame_ns: 900,
            send_byte_ps: 1000,
            receive_frame_ns: 1000,
            pass_on_frame_ns: 1000,
            cast_frame_ns: 4000,
            stream_frame_bytes: 100,
            shared_cores,
            ..Processing::default()
        };
        plain().with_processing(processing).expect("under a second")
    };
    let [chain, cast] = [Via::Chain, Via::Cast].map(|via| shape(via, &one_switch(4)));
    // No receiver naps through 128 frames, each of which takes 2 µs to receive and send.
    assert_eq!(
        microseconds(&chain, 12_800, 100, &in_streams(0)),
        18.0 + 127.0 * 2.0
    );
    assert_eq!(
        microseconds(&chain, 12_800, 100, &in_streams(1)),
        3.0 * 128.0 * 2.0 + 5.0
    );
    // Of 1000 frames the others take half of that, 1.128 µs on average.
    assert_eq!(microseconds(&chain, 100_000, 100, &in_streams(0)), 1144.872);
    // A frame every 3 µs at three hosts, each of which naps for 250 µs.
    assert_eq!(microseconds(&chain, 100_000, 100, &in_streams(1)), 3764.0);
    // A cast costs its root four times a frame to one. If all share a core, three receptions are
    // added.
    assert_eq!(microseconds(&cast, 100_000, 100, &in_streams(0)), 4517.0);
    assert_eq!(
        microseconds(&cast, 100_000, 100, &in_streams(1)),
        6204.0 + 5.0 + 5.5 * 32.0
    );
}

#[test]
fn a_token_bucket_lets_what_follows_the_first_segment_pass_sooner() {
    let chain = shape(Via::Chain, &one_switch(4));
    let bucket = |burst_ns| plain().with_burst_ns(burst_ns).expect("under a second");
    assert_eq!(
        microseconds(&chain, 1000, 100, &bucket(4000)),
        18.0 + 9.0 - 3.0
    );
    assert_eq!(
        microseconds(&chain, 1000, 100, &bucket(500)),
        18.0 + 9.0,
        "the first segment takes more"
    );
    assert_eq!(
        microseconds(&chain, 1000, 100, &bucket(50_000)),
        18.0,
        "no less than the way there"
    );
    // A root sends the first two of seven copies at once, and a cast the first four of ten
    // segments.
    let to_eight = |via| shape(via, &one_switch(8));
    assert_eq!(
        microseconds(&to_eight(Via::Flat), 1000, 1000, &bucket(20_000)),
        5.0 + 70.0 - 10.0
    );
    assert_eq!(
        microseconds(&to_eight(Via::Cast), 1000, 100, &bucket(4000)),
        5.0 + 10.0 - 3.0
    );
    let processing = Processing {
        send_frame_ns: 100,
        receive_frame_ns: 300,
        ..Processing::default()
    };
    let busy = bucket(50_000)
        .with_processing(processing)
        .expect("the same");
    assert_eq!(microseconds(&chain, 1000, 100, &busy), 18.0 + 9.0 * 0.4);
}

#[test]
fn equation_2_prices_the_tree_of_figure_8() {
    let children = [vec![1, 2], vec![], vec![3, 4], vec![], vec![]];
    let plan = Plan::from_children(Via::Binary, 0, &children).expect("a plan");
    let figure = Shape::of(&plan, &one_switch(5), &[0, 1, 2, 3, 4]);
    // 2 L + 4 g + 2 (X − 1) g.
    assert_eq!(
        microseconds(&figure, 1000, 100, &plain()),
        10.0 + 4.0 + 18.0
    );
}

#[test]
fn the_atomic_send_everything_to_one_after_the_other() {
    let hosts = one_switch(8);
    assert_eq!(
        microseconds(&shape(Via::Flat, &hosts), 1000, 1000, &plain()),
        5.0 + 70.0
    );
    assert_eq!(
        microseconds(&shape(Via::Binomial, &hosts), 1000, 1000, &plain()),
        3.0 * 15.0
    );
}

#[test]
fn blocks_cost_their_rounds() {
    let hosts = one_switch(8);
    // Blocks of 1000 bytes: 4, 2 and 1 down the tree, and 7 times 1 round the ring, or 1, 2 and 4
    // exchanged.
    let scatter = (5.0 + 40.0) + (5.0 + 20.0) + (5.0 + 10.0);
    assert_eq!(
        microseconds(&shape(Via::ScatterAllgather, &hosts), 8000, 1000, &plain()),
        scatter + 7.0 * 15.0
    );
    assert_eq!(
        microseconds(&shape(Via::RecursiveDoubling, &hosts), 8000, 1000, &plain()),
        2.0 * scatter
    );
    // Twice the message is a second pass without waiting.
    assert_eq!(
        microseconds(
            &shape(Via::RecursiveDoubling, &hosts),
            16_000,
            1000,
            &plain()
        ),
        2.0 * scatter + 140.0
    );
}

#[test]
fn contention_multiplies_what_a_cable_carries() {
    let mixed = bed("fig9-5");
    let time =
        |via, topology: &Topology| microseconds(&shape(via, topology), 1 << 20, 1000, &plain());
    let ratio = time(Via::ChainUnaware, &mixed) / time(Via::Chain, &mixed);
    assert!(
        (6.5..8.0).contains(&ratio),
        "eight flows share a cable: {ratio}"
    );
    for via in [Via::Chain, Via::Binary] {
        // The two beds differ in the hosts' places, which the aware trees do not depend on.
        let ratio = time(via, &mixed) / time(via, &bed("fig9-4"));
        assert!((0.9..1.1).contains(&ratio), "{via}: {ratio}");
    }
    assert_eq!(
        time(Via::ChainUnaware, &bed("fig9-4")),
        time(Via::Chain, &bed("fig9-4"))
    );
}

#[test]
fn a_cast_pays_for_frames_once_and_for_loss() {
    let cast = shape(Via::Cast, &one_switch(16));
    assert_eq!(microseconds(&cast, 10_000, 100, &plain()), 100.0 + 5.0);
    // 15 receivers that each miss one frame in a hundred: 14 % of the frames are repeated, plus a
    // round trip for the last.
    let lossy = plain().with_loss(0.01).expect("a share");
    let extra = 1.0 - 0.99f64.powi(15);
    assert!(
        (microseconds(&cast, 10_000, 100, &lossy) - (100.0 * (1.0 + extra) + 5.0 + 12.0)).abs()
            < 0.01
    );
    // Policed to 50 000 frames per second, 100 frames take 2 ms.
    let policed = plain().with_cast_max(50_000).expect("a rate");
    assert_eq!(microseconds(&cast, 10_000, 100, &policed), 2000.0 + 5.0);
    let free = plain().with_cast_max(5_000_000).expect("a rate");
    assert_eq!(microseconds(&cast, 10_000, 100, &free), 105.0);
}

#[test]
fn a_lossy_hop_repeats_its_share() {
    let chain = shape(Via::Chain, &one_switch(3));
    let lossy = plain().with_loss(0.5).expect("a share");
    // Twice the time, and a round trip.
    let round_trip = 12.0 * (1.0 - 0.5f64.powi(10));
    assert!(
        (microseconds(&chain, 1000, 100, &lossy) - (2.0 * (12.0 + 9.0) + round_trip)).abs() < 0.01
    );
}

#[test]
fn a_root_alone_takes_no_time() {
    for via in [Via::Chain, Via::Cast, Via::Flat] {
        assert_eq!(
            microseconds(&shape(via, &one_switch(1)), 1000, 100, &plain()),
            0.0
        );
    }
}

fn calibrations() -> impl Strategy<Value = Calibration> {
    let steps = prop::collection::vec((1u64..4000, 0u64..100_000, 0u64..20_000), 2..8);
    let cap = proptest::option::of(1_000u64..10_000_000);
    let costs = prop::array::uniform4(prop_oneof![Just(0), 1u64..5_000]);
    let streams = (
        prop_oneof![Just(0), 1u64..20_000],
        prop_oneof![Just(0), 1u64..50_000],
        1u32..9_000,
        0u32..3,
    );
    let processing =
        proptest::option::of((costs, streams).prop_map(|(costs, streams)| Processing {
            send_frame_ns: costs[0],
            send_byte_ps: costs[1],
            receive_frame_ns: costs[2],
            receive_byte_ps: costs[3],
            pass_on_frame_ns: streams.0,
            cast_frame_ns: streams.1,
            stream_frame_bytes: streams.2,
            wake_up_ns: 0,
            shared_cores: streams.3,
        }));
    (steps, 0.0..0.3f64, cap, 1u64..50_000, processing).prop_map(
        |(steps, loss, cap, first_gap, processing)| {
            let mut point = Point {
                bytes: 0,
                gap_ns: first_gap,
                latency_ns: 0,
            };
            let points = steps.into_iter().map(|(bytes, gap, latency)| {
                let Point {
                    bytes: before,
                    gap_ns,
                    latency_ns,
                } = point;
                point = Point {
                    bytes: before + bytes,
                    gap_ns: gap_ns + gap,
                    latency_ns: latency_ns + latency as i64,
                };
                point
            });
            let calibration = Calibration::from_points(points.collect())
                .expect("rising")
                .with_loss(loss)
                .expect("a share");
            let calibration = match processing {
                Some(processing) => calibration
                    .with_processing(processing)
                    .expect("under a second"),
                None => calibration,
            };
            match cap {
                Some(cap) => calibration.with_cast_max(cap).expect("above 0"),
                None => calibration,
            }
        },
    )
}

proptest! {
    #[test]
    fn longer_messages_never_take_less_time(
        topology in arbitrary::topology(6, 24), via in prop::sample::select(Via::ALL), calibration in calibrations(),
        sizes in (0u64..10_000_000, 0u64..10_000_000), segment in 1u64..100_000,
    ) {
        let shape = shape(via, &topology);
        let (short, long) = (sizes.0.min(sizes.1), sizes.0.max(sizes.1));
        let slack = |seconds: f64| seconds * (1.0 + 1e-9);
        let job = |size_bytes| Job { size_bytes, segment_bytes: segment, frame_payload_bytes: 1024 };
        let at = |size_bytes| predict(&shape, &job(size_bytes), &calibration);
        prop_assert!(at(short).is_finite() && at(short) >= 0.0);
        prop_assert!(at(short) <= slack(at(long)), "{} {}", at(short), at(long));
        let best = |size| best_segment(&shape, size, 1024, &calibration).1;
        // Partly filled frames must be worth it.
        prop_assert!(best(short) * 0.98 <= slack(best(long)), "{} {}", best(short), best(long));
    }

    #[test]
    fn no_other_segment_is_better(
        topology in arbitrary::topology(6, 24),
        via in prop::sample::select(&[Via::Chain, Via::Binary, Via::Kary(3), Via::Cast][..]),
        calibration in calibrations(), size in 1u64..20_000_000, other in 0u32..21,
    ) {
        let shape = shape(via, &topology);
        let job = |segment_bytes| Job { size_bytes: size, segment_bytes, frame_payload_bytes: 1400 };
        let price = |segment_bytes| predict(&shape, &job(segment_bytes), &calibration);
        let (segment, seconds) = best_segment(&shape, size, 1400, &calibration);
        prop_assert_eq!(seconds, price(segment));
        let is_part = via != Via::Cast && (64..1400).contains(&segment);
        prop_assert!(segment == size || (is_part || segment % 1400 == 0) && segment < size);
        let frames = if other % 2 == 0 { 1 << (other / 2) } else { 3 << (other / 2) };
        if frames <= MAX_ATOMIC_SEGMENT_FRAMES {
            let shorter = price((frames * 1400).min(size));
            prop_assert!(seconds < shorter || seconds == shorter && segment <= (frames * 1400).min(size), "{frames} \
                                                                                                           frames");
        }
    }
}
