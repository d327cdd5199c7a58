//! Costs of collectives: their frames are counted, and are no more than stated.

use ethbcast_tests::communicator::{Case, Play, Step};
use ethbcast_transport::sim::NoFaults;
use std::time::Duration;

fn group(ranks: u16) -> Play<NoFaults> {
    let case = Case { leave: false, mtus: vec![1500; ranks.into()], ..Case::new(ranks, &[Step::Barrier]) };
    let mut play = Play::new(&case, 1, NoFaults, &format!("{ranks} ranks"));
    play.run(Duration::from_millis(500));
    play.assert_done();
    play
}

#[derive(Debug, PartialEq, Eq)]
struct Price {
    data: u64,
    acks: u64,
    pushes: u64,
    receipts: u64,
    /// Repetitions, probes, notes, pulled parts.
    others: u64,
}

/// Counts the frames of `steps` and of the quarter of a second after them; panics if a frame is
/// unaccounted for.
fn price(play: &mut Play<NoFaults>, steps: &[Step]) -> Price {
    let count = |play: &Play<NoFaults>| {
        let mut price = [0; 5];
        for stats in play.stats() {
            let (streams, mailbox) = (stats.streams, stats.mailbox);
            price[0] += streams.data_sent;
            price[1] += streams.acks_sent;
            price[2] += mailbox.pushes_sent;
            price[3] += mailbox.receipts_sent;
            price[4] += streams.data_resent + streams.heartbeats_sent;
            price[4] += mailbox.pulls_sent + mailbox.notes_sent + mailbox.resent + mailbox.asks_sent;
        }
        price
    };
    let (before, frames_before) = (count(play), play.frames());
    play.go_on(steps);
    play.run(Duration::from_millis(250));
    play.assert_done();
    let after = count(play);
    let [data, acks, pushes, receipts, others] = std::array::from_fn(|at| after[at] - before[at]);
    assert_eq!(play.frames() - frames_before, data + acks + pushes + receipts + others, "every frame is accounted for");
    Price { data, acks, pushes, receipts, others }
}

#[test]
fn a_broadcast_of_256_bytes_is_one_frame_and_an_acknowledgement_of_each_receiver_and_no_more() {
    for ranks in [2, 8, 64] {
        let mut play = group(ranks);
        let price = price(&mut play, &[Step::Broadcast { root: 0, bytes: 256 }]);
        assert_eq!(
            price,
            Price { data: 1, acks: u64::from(ranks) - 1, pushes: 0, receipts: 0, others: 0 },
            "{ranks} ranks"
        );
    }
}

#[test]
fn many_short_broadcasts_share_their_acknowledgements() {
    for ranks in [2, 8] {
        let mut play = group(ranks);
        let price = price(&mut play, &[Step::Broadcast { root: 0, bytes: 256 }; 50]);
        assert_eq!((price.data, price.others), (50, 0), "{ranks} ranks");
        assert!(price.acks <= 4 * (u64::from(ranks) - 1), "{ranks} ranks: {price:?}");
    }
}

#[test]
fn a_barrier_is_one_arrival_of_each_rank_and_one_release_and_their_acknowledgements() {
    for ranks in [2, 8, 17, 18, 64] {
        let others = u64::from(ranks) - 1;
        let price = price(&mut group(ranks), &[Step::Barrier]);
        assert_eq!(
            price,
            Price { data: 1, acks: others, pushes: others, receipts: others, others: 0 },
            "{ranks} ranks"
        );
    }
}

#[test]
fn a_barrier_of_eight_takes_a_round_trip() {
    let mut play = group(8);
    let began = play.simulation().now();
    play.go_on(&[Step::Barrier]);
    play.run(Duration::from_millis(10));
    let ended = play.processes().iter().map(|process| process.ended.as_ref().expect("done").1).max().expect("eight");
    // Two hops there and two back of 5 µs each, seven short frames one behind the other.
    assert!(ended.since(began) < Duration::from_micros(40), "{:?}", ended.since(began));
}

#[test]
fn scatter_gather_and_allgather_send_each_block_once() {
    for ranks in [2, 8] {
        let others = u64::from(ranks) - 1;
        let mut play = group(ranks);
        for step in [Step::Scatter { root: 0, bytes: 1000 }, Step::Gather { root: 0, bytes: 1000 }] {
            let price = price(&mut play, &[step]);
            assert_eq!(
                price,
                Price { data: 0, acks: 0, pushes: others, receipts: others, others: 0 },
                "{step:?}, {ranks} ranks"
            );
        }
        let price = price(&mut play, &[Step::Allgather { bytes: 1000 }]);
        assert_eq!((price.data, price.pushes, price.others), (others + 1, 0, 0), "{ranks} ranks");
        assert!(price.acks <= others * (others + 1), "{ranks} ranks: {price:?}");
    }
}

#[test]
fn a_group_without_calls_gives_signs_of_life_and_nothing_else() {
    let mut play = group(8);
    let (frames, sent) = (play.frames(), play.network().sent_frames);
    assert!(play.processes().iter().all(|process| process.member.as_ref().is_some_and(|member| member.is_quiet())));
    play.run(Duration::from_secs(10));
    assert_eq!(play.frames(), frames);
    let signs = play.network().sent_frames - sent;
    assert!((790..=810).contains(&signs), "{signs} signs of life of eight ranks in ten seconds");
}
