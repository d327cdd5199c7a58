//! Tests of each cause that the diagnosis of a slow transfer can name.

use super::super::kept::{Frames, Incident, Run, Timeline, Track};
use super::*;

fn kept(states: &str) -> Kept {
    let track = Track {
        host: "n1".to_owned(),
        states: states.to_owned(),
        ..Track::default()
    };
    let timeline = Timeline {
        receivers: vec![track],
        ..Timeline::default()
    };
    let receiver = Receiver {
        host: "n1".to_owned(),
        status: "verified".to_owned(),
        ..Receiver::default()
    };
    let run = Run {
        root: "n0".to_owned(),
        timeline,
        ..Run::default()
    };
    Kept {
        receivers: vec![receiver],
        run: Some(run),
        via: "cast".to_owned(),
        ..Kept::default()
    }
}

#[test]
fn a_host_is_limited_by_what_took_most_of_its_time() {
    let limit = |states| {
        let kept = kept(states);
        of_receiver(&kept, &kept.receivers[0])
    };
    assert_eq!(
        limit("abbb").as_deref(),
        Some("its disk, or the reader of its output (75 % of the time)")
    );
    assert_eq!(
        limit("aacccc--").as_deref(),
        Some("a host behind it (67 % of the time)")
    );
    assert_eq!(
        limit("avyyt").as_deref(),
        Some("verifying and syncing (60 % of the time)")
    );
    assert_eq!(
        ["asssssav", "aabb", "bbb", "----", "avtttt"].map(limit),
        [const { None }; 5]
    );
    let mut failed = kept("bbbb");
    failed.receivers[0].status = "died".to_owned();
    assert_eq!(
        of_receiver(&failed, &failed.receivers[0]),
        None,
        "its failure is named elsewhere"
    );
}

/// A run of 10 s over a chain whose cables two hosts alone would fill in `copy` seconds.
fn run(copy: f64) -> Evidence {
    Evidence {
        seconds: 10.0,
        bits: 1e9,
        copy_seconds: Some(copy),
        busiest: Some(("host n0 to switch s0".to_owned(), 1.0)),
        root: "n0".to_owned(),
        interface: "eth0".to_owned(),
        has_topology: true,
        ..Evidence::default()
    }
}

fn others(seconds: f64, share: f64, sessions: &[&str]) -> Option<Others> {
    let sessions = sessions.iter().map(|&host| host.to_owned()).collect();
    Some(Others {
        host: "n3".to_owned(),
        seconds,
        share,
        sessions,
    })
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Fails unless the diagnosis of each run, with what is known of it, begins as expected.
macro_rules! assert_said {
    ($({ $($field:ident: $value:expr),* } $run:expr => $expected:literal;)*) => {$(
        let seen = Evidence { $($field: $value,)* ..$run };
        let said = of(&seen);
        assert!(said.starts_with($expected), "{said}, expected {}", $expected);
    )*};
}

#[test]
fn each_planted_cause_of_links_and_own_side_is_named_and_nothing_that_was_not_looked_at() {
    let nothing = || Evidence {
        copy_seconds: None,
        ..run(0.0)
    };
    assert_said! {
        {} run(9.5) =>
            "the links themselves: the busiest, host n0 to switch s0, carries the bytes once, at 95 % of";
        { busiest: Some(("switch s0 to switch s1".to_owned(), 8.0)) } run(1.2) =>
            "the links themselves: the busiest, switch s0 to switch s1, carries the bytes 8 times, at 96 %";
        {} run(1.2) => "not known: host n0 to switch s0 carried 12 % of what two hosts alone reach";
        { has_topology: false } run(1.2) =>
            "not known: host n0 to switch s0 carried 12 % of what two hosts alone reach; are there";
        {} nothing() => "not known: no rates were known before the start";
        { predicted_seconds: Some(9.8) } nothing() =>
            "the links themselves, as predicted: the busiest";
        { predicted_seconds: Some(9.8), is_cast: true, busiest: None } nothing() =>
            "the links themselves, as predicted: each carries every frame once";
        { predicted_seconds: Some(1.0) } nothing() =>
            "not known: it took 10.0 times the predicted time";
        { predicted_seconds: Some(9.8) } run(4.0) => "the predicted time, 40 % of it on the links";
        { predicted_seconds: Some(9.8), slow_cable: some("host n3 to switch s0") } run(1.0) =>
            "host n3 to switch s0, which is known to be slower than the others";
        { cut_off_seconds: 6.0 } run(3.0) => "the interface eth0 of n0 itself";
        { limit_bits_per_second: Some(105_000_000) } run(1.0) =>
            "the configured limit of 105.0 Mbit/s";
        { limit_bits_per_second: Some(900_000_000) } run(9.0) => "the links themselves";
        { is_yielding: true } run(3.0) => "yielding to others";
        { others: others(5.0, 0.48, &[]) } run(5.0) =>
            "other traffic, which took 48 % of the link of n3";
        { others: others(9.0, 0.5, &["n8"]), repeated: 0.2 } run(5.0) =>
            "another ethbcast session of n8";
        // The rate was measured while the others were there.
        { others: others(9.5, 0.5, &["n8"]), predicted_seconds: Some(9.8) } run(9.8) =>
            "another ethbcast session of n8: others took 50 %";
        // The busiest cable has three copies, that of the host beside the others one.
        { busiest: Some(("host n0 to switch s0".to_owned(), 3.0)),
          others: others(10.0, 0.4, &[]) } run(9.8 / 3.0) =>
            "the links themselves: the busiest, host n0 to switch s0, carries the bytes 3 times, at 98 %";
        { others: others(1.0, 0.5, &[]) } run(5.0) => "not known: ";
        { others: others(9.0, 0.12, &[]) } run(9.0) => "the links themselves";
        { processor_share: Some(0.92) } run(3.0) => "the processor of n0, busy for 92 %";
        { processor_share: Some(0.5) } run(3.0) => "not known: ";
    }
}

#[test]
fn each_planted_cause_of_network_and_hosts_is_named() {
    let cable = || ("n2–s1".to_owned(), 2);
    assert_said! {
        { rerouted: some("switches police broadcast").zip(some("chain")) } run(3.0) =>
            "switches police broadcast: it went on via chain";
        { rerouted: some("frames to all take longer").zip(some("chain")),
          awaited: some("n5").zip(Some(7.8)) } run(1.6) =>
            "n5: nothing moved for 7.8 s while it was waited for";
        { contended: Some(cable()) } run(3.0) => "the cable n2–s1, over which the plan has 2 hosts";
        { apart: some("n1 and n2"), demoted: vec![("n1".to_owned(), None)] } run(3.0) =>
            "the path between n1 and n2";
        { demoted: ["n1", "n2"].map(|host| (host.to_owned(), None)).to_vec() } run(3.0) =>
            "n[1-2], served beside the others";
        { demoted: vec![("n1".to_owned(), some("takes 19.6 Mbit/s"))] } run(3.0) =>
            "n1, which takes 19.6 Mbit/s";
        { lossy: vec![("the cable of n2".to_owned(), 0.021)], repeated: 0.02 } run(3.0) =>
            "the cable of n2 (loss 2.1 %)";
        { lossy: vec![("the cable of n2".to_owned(), 0.021)] } run(9.3) => "the links themselves";
        { repeated: 0.025 } run(3.0) => "loss: n0 sent 2.5 % of its frames again";
        { repeated: 0.005 } run(3.0) => "not known: ";
        { awaited: Some(("n3".to_owned(), 4.0)) } run(5.0) => "n3: nothing moved for 4.0 s";
        { awaited: Some(("n3".to_owned(), 0.5)) } run(9.0) => "the links themselves";
        { last: Some(("n4".to_owned(), 5.0)) } run(5.0) =>
            "n4, which finished 5.0 s after all others";
        { last: Some(("n4".to_owned(), 5.0)), awaited: Some(("n3".to_owned(), 1.2)) } run(4.0) =>
            "n4, which";
        { held_up: some("n1").zip(Some(0.75)) } run(5.0) =>
            "n1: its disk, or the reader of its output (75";
        { held_up: some("n1").zip(Some(0.75)) } run(9.5) => "the links themselves";
        { held_up: some("n1").zip(Some(0.1)) } run(2.0) =>
            "not known: host n0 to switch s0 carried 20 %";
        { synced: some("n1").zip(Some(0.6)) } run(4.0) =>
            "n1: verifying and syncing (60 % of the time)";
        { is_partial: true } run(0.2) => "the hosts, which looked for what they have";
    }
}

#[test]
fn loss_is_not_named_where_a_host_took_the_time() {
    let lossy = || Evidence {
        lossy: vec![("the cable of n0".to_owned(), 0.449)],
        repeated: 0.4,
        ..run(0.4)
    };
    assert_said! {
        { synced: some("n1").zip(Some(0.94)) } lossy() =>
            "n1: verifying and syncing (94 % of the time)";
        { awaited: Some(("n1".to_owned(), 8.9)) } lossy() => "n1: nothing moved for 8.9 s";
        { last: Some(("n1".to_owned(), 2.5)) } lossy() => "the cable of n0 (loss 44.9 %)";
    }
}

/// Regression: a calm report named "the links themselves, as predicted" for receivers of which one
/// had gone.
#[test]
fn where_a_receiver_was_lost_the_links_are_named_only_by_what_was_measured() {
    let lost = |copy: f64| Evidence {
        has_failed: true,
        ..run(copy)
    };
    assert_said! {
        {} lost(9.3) => "the links themselves: the busiest, host n0 to switch s0, carries the bytes once, at 93 %";
        { predicted_seconds: Some(9.9) } run(4.7) => "the predicted time, 47 % of it on the links";
        { predicted_seconds: Some(9.9) } lost(4.7) => "not known: ";
        { predicted_seconds: Some(9.9), copy_seconds: None } run(0.0) => "the links themselves, as predicted";
        { predicted_seconds: Some(9.9), copy_seconds: None } lost(0.0) => "not known: ";
    }
}

#[test]
fn several_rounds_of_a_carousel_name_no_limit() {
    let mut run = kept("abbb");
    run.seconds = 8.0;
    for (rounds, is_said) in [(0, true), (1, true), (2, false)] {
        run.rounds = rounds;
        let of_host = of_receiver(&run, &run.receivers[0]);
        let said = [part(&run).is_some(), of_host.is_some()];
        assert_eq!(said, [is_said; 2], "{rounds}");
        assert!(is_said || !is_of_network(&run), "{rounds}");
    }
}

#[test]
fn a_dead_host_is_named_only_if_the_others_waited() {
    let mut run = kept("aaaaaaaa");
    let host = |host: &str, status: &str, seconds| Receiver {
        host: host.to_owned(),
        status: status.to_owned(),
        seconds,
        ..Receiver::default()
    };
    run.seconds = 8.0;
    run.receivers = vec![
        host("n1", "verified", 8.0),
        host("n2", "verified", 7.9),
        host("n3", "died", 2.0),
    ];
    let timeline = &mut run.run.as_mut().expect("it has one").timeline;
    timeline.seconds = (0..9).map(f64::from).collect();
    timeline.incidents = vec![Incident {
        seconds: 3.1,
        kind: "failed".to_owned(),
        hosts: vec!["n3".to_owned()],
        text: String::new(),
    }];
    let moving = |timeline: &mut Timeline, bytes: [u64; 9]| timeline.sent_bytes = bytes.to_vec();
    moving(timeline, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(Evidence::of(&run).awaited, None);
    moving(
        &mut run.run.as_mut().expect("it has one").timeline,
        [0, 1, 1, 1, 4, 5, 6, 7, 8],
    );
    assert_eq!(Evidence::of(&run).awaited, Some(("n3".to_owned(), 2.0)));
    assert_eq!(
        part(&run).as_deref(),
        Some("n3: nothing moved for 2.0 s while it was waited for")
    );
    let given_up = Kept {
        error: Some("interrupted".to_owned()),
        ..run.clone()
    };
    assert_eq!(part(&given_up), None, "the end, not a cause, set the time");
    run.receivers
        .iter_mut()
        .for_each(|one| one.status = "write-failed".to_owned());
    assert_eq!(
        part(&run),
        None,
        "nobody has anything: its failure is the news"
    );
}

#[test]
fn causes_follow_from_the_figures_of_the_report() {
    let mut one = kept("aaaa");
    one.seconds = 1.0;
    one.frames = Frames {
        data_sent: 1000,
        data_resent: 25,
        ..Frames::default()
    };
    assert_eq!(
        part(&one).as_deref(),
        Some("loss: n0 sent 2.5 % of its frames again")
    );
    one.frames = Frames::default();
    assert_eq!(
        part(&one).as_deref(),
        Some("not known: no rates were known before the start")
    );
}
