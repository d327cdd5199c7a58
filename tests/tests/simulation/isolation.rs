//! Two receivers that do not hear each other, as behind ports that a switch isolates, and both hear the root.

use ethbcast_collectives::session::{Outcome, RootEvent};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, Played, play, star};
use ethbcast_transport::sim::{Delivery, Fate, RandomFaults};
use std::time::Duration;

/// Feeds that hold a part of the stream, and all of it.
const FEEDS: [u64; 2] = [64, 2048];

/// A transfer to three receivers with feeds of so many frames, of which these do not hear each other.
fn isolated(via: Via, pair: (usize, usize), feed: u64) -> Played {
    let case = Case::new(via, 3, 400_000).with_feed(feed);
    let faults = move |delivery: &Delivery<'_>| {
        let ends = (delivery.from.unwrap_or(usize::MAX), delivery.to);
        if ends == pair || ends == (pair.1, pair.0) { Fate::Drop } else { Fate::Deliver }
    };
    let played = play(&case, &star(&case, 100_000_000), 1, faults, &format!("{via} {pair:?}"));
    assert_eq!(played.fates, [Outcome::Delivered; 3], "{via} {pair:?}");
    played
}

/// Pairs between which no frame got through, as the root reports.
fn apart(played: &Played) -> Vec<(&str, &str)> {
    let events = played.told.iter().map(|(_, event)| event);
    let pairs = events.filter_map(|event| match event {
        RootEvent::Apart { one, other } => Some((one.as_str(), other.as_str())),
        _ => None,
    });
    pairs.collect()
}

/// Members reported to hold up the others.
fn blamed(played: &Played) -> Vec<&RootEvent> {
    let events = played.told.iter().map(|(_, event)| event);
    events.filter(|event| matches!(event, RootEvent::HeldUp { .. } | RootEvent::Aside { .. })).collect()
}

#[test]
fn two_receivers_that_do_not_hear_each_other_are_named_and_nobody_else_and_both_are_served_beside_the_others() {
    use Via::{Binary, Binomial, Chain, RecursiveDoubling, ScatterAllgather};
    for (via, pair, named) in [
        (Chain, (1, 2), ("n1", "n2")),
        (Chain, (2, 3), ("n2", "n3")),
        (Binary, (2, 3), ("n2", "n3")),
        (Binomial, (2, 3), ("n2", "n3")),
        // In blocks hosts wait for each other in a circle.
        (ScatterAllgather, (1, 2), ("n1", "n2")),
        (ScatterAllgather, (2, 3), ("n2", "n3")),
        (ScatterAllgather, (1, 3), ("n3", "n1")),
        (RecursiveDoubling, (2, 3), ("n2", "n3")),
        (RecursiveDoubling, (1, 3), ("n1", "n3")),
    ] {
        for feed in FEEDS {
            let played = isolated(via, pair, feed);
            let (story, pairs) = (format!("{via} {pair:?}, feed {feed}: {:?}", played.told), apart(&played));
            let is_pair = |&(one, other): &(&str, &str)| (one, other) == named || (other, one) == named;
            assert!(pairs.len() == 1 && pairs.iter().all(is_pair), "{story}");
            assert_eq!(blamed(&played), [] as [&RootEvent; 0], "{story}");
            assert!(played.took < Duration::from_millis(2500), "{story}");
        }
    }
}

#[test]
fn whoever_does_not_send_to_the_other_is_not_disturbed() {
    for (via, pair) in [
        (Via::Chain, (1, 3)),
        (Via::Binary, (1, 2)),
        (Via::Binomial, (1, 3)),
        (Via::Cast, (1, 2)),
        (Via::Cast, (2, 3)),
        (Via::RecursiveDoubling, (1, 2)),
    ] {
        let played = isolated(via, pair, FEEDS[0]);
        assert_eq!((apart(&played), blamed(&played)), (Vec::new(), Vec::new()), "{via} {pair:?}");
        assert!(played.took < Duration::from_millis(200), "{via} {pair:?}: {:?}", played.took);
    }
}

#[test]
fn where_every_third_frame_is_lost_nobody_is_said_not_to_hear_another() {
    for seed in 0..40 {
        for via in [Via::Chain, Via::Binary, Via::ScatterAllgather] {
            let case = Case::new(via, 5, 60_000);
            let faults = RandomFaults::new(seed).loss(0.33);
            let played = play(&case, &star(&case, 100_000_000), seed, faults, &format!("{via}, seed {seed}"));
            assert_eq!(apart(&played), [], "{via}, seed {seed}");
        }
    }
}
