//! Simulated tests of communicators: which broadcast algorithm is used, chosen or configured.

use ethbcast_collectives::Route;
use ethbcast_collectives::communicator::CommunicatorError;
use ethbcast_planning::model::{Calibration, Situation, choose};
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::plan::{Costs, Via, make};
use ethbcast_planning::topology::Topology;
use ethbcast_tests::communicator::{Case, NetworkKnowledge, Play, Step, play};
use ethbcast_tests::in_full;
use ethbcast_transport::sim::{
    Delivery, Departure, Fate, Faults, NoFaults, RandomFaults, Sending, StormControl,
};
use ethbcast_transport::wire::{Kind, Rank, parse};
use std::time::Duration;

const MIBIBYTE: usize = 1 << 20;
pub const RATE: u64 = 25_000_000;

/// A case with the ranks of a test bed on its switches, and full frames on its cables; only rank 0
/// knows the topology, and that casts are excluded.
pub fn bed(name: &str, program: &[Step]) -> Case {
    let topology = Topology::builtin(name).expect("a test bed");
    let mut case = Case::new(topology.hosts().len() as u16, program);
    case.mtus.iter_mut().for_each(|mtu| *mtu = 1500);
    case.rate_bits_per_second = RATE;
    case.wiring = Some(topology.clone());
    case.told[0] = NetworkKnowledge {
        topology: Some(topology),
        casts: false,
        ..NetworkKnowledge::default()
    };
    case
}

pub fn took(case: &Case) -> f64 {
    let played = play(case, 1, NoFaults, "a bed");
    let joined = played
        .processes()
        .iter()
        .filter_map(|process| process.joined_at)
        .max()
        .expect("all have joined");
    let ended = played
        .processes()
        .iter()
        .filter_map(|process| Some(process.ended.as_ref()?.1))
        .max();
    ended.expect("all have ended").since(joined).as_secs_f64()
}

/// Returns the seconds that `bytes` in full frames take on one cable of a bed.
pub fn copy_seconds(bytes: usize) -> f64 {
    let frames = bytes.div_ceil(1468);
    (bytes + frames * (14 + 32 + 24)) as f64 * 8.0 / RATE as f64
}

#[test]
fn a_broadcast_takes_hardly_longer_than_one_copy_however_neighbours_are_named() {
    let program = [
        Step::Broadcast {
            root: 0,
            bytes: MIBIBYTE,
        },
        Step::Barrier,
    ];
    // Idle cables of a lab pass a frame at once, as those of a cut-through switch do.
    let burst = |name| Case {
        burst_bytes: 3 << 10,
        ..bed(name, &program)
    };
    let [by_switch, dealt] =
        ["fig9-4", "fig9-5"].map(|name| took(&burst(name)) / copy_seconds(MIBIBYTE));
    println!("copies: fig9-4 {by_switch:.3}, fig9-5 {dealt:.3}");
    assert!(dealt <= 1.10, "fig9-5: {dealt:.3} copies");
    assert!(
        (by_switch / dealt - 1.0).abs() <= 0.05,
        "fig9-4: {by_switch:.3} copies, fig9-5: {dealt:.3}"
    );
    // Cables and switches that store each frame delay it twice from rank to rank, and once more
    // between switches.
    let floor = copy_seconds(MIBIBYTE) + (2 * 31 + 3) as f64 * copy_seconds(1468);
    let stored = ["fig9-4", "fig9-5"].map(|name| took(&bed(name, &program)) / floor);
    println!("of what storing each frame leaves possible: {stored:.3?}");
    assert!(
        stored.iter().all(|times| *times <= 1.05),
        "{stored:.3?} of what is possible"
    );
}

#[test]
fn a_chain_in_rank_order_crosses_every_cable_between_switches_again_and_again() {
    let mut case = bed(
        "fig9-5",
        &[
            Step::Broadcast {
                root: 0,
                bytes: MIBIBYTE / 4,
            },
            Step::Barrier,
        ],
    );
    case.told[0].route = Route::Via(Via::ChainUnaware);
    let copies = took(&case) / copy_seconds(MIBIBYTE / 4);
    assert!(
        copies > 5.0,
        "{copies:.3} copies: the switches of the test are none"
    );
}

#[test]
fn every_way_brings_every_byte_to_all_from_any_root_with_losses_too() {
    let lengths = [0, 1, 500, 3_000, 60_000];
    let program: Vec<Step> = lengths
        .into_iter()
        .flat_map(|bytes| [0, 3, 6].map(|root| Step::Broadcast { root, bytes }))
        .chain([
            Step::Scatter {
                root: 2,
                bytes: 700,
            },
            Step::Allgather { bytes: 900 },
            Step::Barrier,
        ])
        .collect();
    let text = "schema = 1\nswitch = [{name='a', hosts='n[0,3,5]', links=['b']}, {name='b', hosts='n[1-2,4,6]'}]";
    let topology = Topology::parse(text, "two").expect("a topology");
    for via in Via::every().chain([Via::Kary(2), Via::Kary(5)]) {
        for (casts, loss) in [(true, 0.0), (via == Via::Cast, 0.05)] {
            let mut case = Case {
                wiring: Some(topology.clone()),
                ..Case::new(7, &program)
            };
            let route = Route::Via(via);
            case.told[4] = NetworkKnowledge {
                topology: Some(topology.clone()),
                route,
                casts,
                ..NetworkKnowledge::default()
            };
            play(
                &case,
                1,
                RandomFaults::new(1).loss(loss),
                &format!("{via}, loss {loss}"),
            );
        }
    }
}

#[test]
fn all_ranks_choose_one_route_which_is_the_models() {
    let topology = Topology::builtin("fig9-5").expect("a test bed");
    let mut case = bed("fig9-5", &[]);
    case.calibration = Some(
        Calibration::assumed(RATE, 1468)
            .with_cast_max(200)
            .expect("a rate"),
    );
    case.told.fill(NetworkKnowledge {
        topology: Some(topology),
        ..NetworkKnowledge::default()
    });
    case.leave = false;
    let mut play = Play::new(&case, 1, NoFaults, "all are told the same");
    play.run(Duration::from_secs(2));
    play.assert_done();
    for bytes in [64, 1_000, 8 << 10, 64 << 10, MIBIBYTE] {
        let choices: Vec<(Via, u64)> = (0..32)
            .map(|host| {
                let choice = play
                    .member(host)
                    .choice(Rank(7), bytes)
                    .expect("there is a rank 7");
                (choice.plan.via(), choice.plan.digest_u64())
            })
            .collect();
        assert!(
            choices.windows(2).all(|pair| pair[0] == pair[1]),
            "{bytes} bytes: {choices:?}"
        );
        println!("{bytes} bytes: {}", choices[0].0);
    }
    let (topology, members) = (case.wiring.expect("a bed"), Vec::from_iter(0..32));
    for bytes in [2_000, 8 << 10, 64 << 10, MIBIBYTE] {
        let chosen = choose(&Situation {
            topology: &topology,
            root_host: 7,
            members: &members,
            size_bytes: Some(bytes as u64),
            frame_payload_bytes: 1468,
            calibration: case.calibration.as_ref().expect("it was told"),
        });
        let (model, group) = (
            chosen.expect("a plan"),
            play.member(0).choice(Rank(7), bytes).expect("a choice"),
        );
        assert_eq!(
            group.plan.via(),
            model.plan.via(),
            "{bytes} bytes: {} and {}",
            group.reason,
            model.reason
        );
    }
}

fn saved(name: &str, via: Via, root: usize) -> SavedPlan {
    let topology = Topology::builtin(name).expect("a test bed");
    let members: Vec<usize> = (0..topology.hosts().len()).collect();
    let plan = make(via, &topology, root, &members, &Costs::default()).expect("a plan");
    let names: Vec<&str> = topology.hosts().iter().map(String::as_str).collect();
    let text = SavedPlan::from_plan(&plan, &names, 1468, None).to_toml();
    SavedPlan::parse(&text, "plan.toml").expect("what was written is read")
}

#[test]
fn a_saved_plan_is_run_by_all_from_its_root_and_others_choose() {
    let broadcasts = [5, 0].map(|root| Step::Broadcast {
        root,
        bytes: 200_000,
    });
    let mut case = bed("fig9-5", &[&broadcasts[..], &[Step::Barrier]].concat());
    case.told[0].route = Route::Saved(Box::new(saved("fig9-5", Via::Kary(4), 5)));
    case.leave = false;
    let mut play = Play::new(&case, 1, NoFaults, "a saved plan");
    play.run(Duration::from_secs(10));
    play.assert_done();
    let via = |play: &mut Play<NoFaults>, root| {
        play.member(9)
            .choice(Rank(root), 200_000)
            .expect("a choice")
            .plan
            .via()
    };
    assert_eq!(
        (via(&mut play, 5), via(&mut play, 0)),
        (Via::Kary(4), Via::TwoTree)
    );
}

#[test]
fn all_ranks_choose_by_rank_0s_measurement_and_its_predictions_are_right() {
    for loss in [0.0, 0.1] {
        let mut case = Case::new(8, &[]);
        case.mtus.fill(1500);
        case.rate_bits_per_second = RATE;
        case.told[3].probe = true;
        case.leave = false;
        let mut play = Play::new(&case, 1, RandomFaults::new(1).loss(loss), "a probe");
        play.run(Duration::from_secs(2));
        play.assert_done();
        let costs: Vec<f64> = (0..8)
            .map(|host| {
                play.member(host)
                    .choice(Rank(5), MIBIBYTE)
                    .expect("a choice")
                    .predicted_seconds
            })
            .collect();
        assert!(
            costs.windows(2).all(|pair| pair[0] == pair[1]),
            "loss {loss}: {costs:?}"
        );
        if loss == 0.0 {
            let began = play.simulation().now();
            play.go_on(&[
                Step::Broadcast {
                    root: 5,
                    bytes: MIBIBYTE,
                },
                Step::Barrier,
            ]);
            play.run(Duration::from_secs(5));
            play.assert_done();
            let ended = play
                .processes()
                .iter()
                .filter_map(|process| Some(process.ended.as_ref()?.1))
                .max();
            let took = ended.expect("they ended").since(began).as_secs_f64();
            assert!(
                (0.9..1.1).contains(&(costs[0] / took)),
                "{:.4} s predicted, took {took:.4}",
                costs[0]
            );
        }
    }
}

/// Faults that count data frames to all, and lose some of those to rank 2.
#[derive(Default)]
struct ToAll {
    data: u64,
    arrived: u64,
}

impl Faults for ToAll {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        self.arrived += 1;
        if delivery.to == 2 && self.arrived.is_multiple_of(20) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    }

    fn sending(&mut self, departure: &Departure<'_>) -> Sending {
        let is_to_all = departure.frame[0] & 1 == 1;
        self.data += u64::from(
            is_to_all && parse(departure.frame).is_ok_and(|frame| frame.header.kind == Kind::DATA),
        );
        Sending::Taken
    }
}

/// Broadcasts short and long, barriers and exchanges of blocks, first casts and then BYEs.
#[test]
fn where_casts_are_not_allowed_no_data_goes_to_all() {
    let round = |at: usize| {
        let root = at as u16 % 8;
        let [short, long] = [200, 30_000].map(|bytes| Step::Broadcast { root, bytes });
        [
            short,
            Step::Barrier,
            long,
            Step::Allgather { bytes: 700 },
            Step::Barrier,
        ]
    };
    let program: Vec<Step> = (0..8).flat_map(round).collect();
    let sent = |casts| {
        let mut case = Case::new(8, &program);
        case.told[0] = NetworkKnowledge {
            casts,
            ..NetworkKnowledge::default()
        };
        let mut played = play(&case, 1, ToAll::default(), "no casts");
        played.simulation().faults_mut().data
    };
    assert_eq!(sent(false), 0);
    assert!(sent(true) > 40, "the test counts what goes to all");
}

fn refusals(case: &Case) -> Vec<CommunicatorError> {
    let case = Case {
        patience: Duration::from_secs(3),
        ..case.clone()
    };
    let mut play = Play::new(&case, 1, NoFaults, "refused");
    play.run(Duration::from_secs(5));
    (0..case.programs.len())
        .map(|host| play.error(host))
        .collect()
}

#[test]
fn files_about_other_hosts_are_refused_with_line_and_remedy() {
    let says = |case: &Case, words: &[&str]| {
        let refusals = refusals(case);
        let text = refusals[0].to_string();
        // The others are notified at once, and are referred to the rank that knows the reason.
        let sent_home = refusals[1..]
            .iter()
            .all(|error| *error == refusals[0] || error.to_string().contains("n0 cannot"));
        assert!(sent_home, "{:?}", refusals[1]);
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    let told = |told: NetworkKnowledge| {
        let mut case = Case::new(4, &[]);
        case.told[0] = told;
        case
    };
    let topology =
        |text: &str| Topology::parse(&format!("schema = 1\nswitch = [{text}]"), "t").ok();
    says(
        &told(NetworkKnowledge {
            topology: topology("{name='a', hosts='n[0-2]'}"),
            ..NetworkKnowledge::default()
        }),
        &["names no host n3", "add it there"],
    );
    let route = Route::Saved(Box::new(saved("fig9-1", Via::Chain, 0)));
    says(
        &told(NetworkKnowledge {
            route,
            ..NetworkKnowledge::default()
        }),
        &["plan.toml:6:", "`n[4-15]` missing", "ethbcast plan --out"],
    );
    let mut case = bed("fig9-5", &[]);
    case.told[0].route = Route::Saved(Box::new(saved("fig9-5", Via::ChainUnaware, 0)));
    says(
        &case,
        &[
            "plan.toml:",
            "several hosts at a time",
            "ethbcast plan --out",
        ],
    );
    says(
        &told(NetworkKnowledge {
            route: Route::Via(Via::Cast),
            casts: false,
            ..NetworkKnowledge::default()
        }),
        &["casts are not allowed"],
    );
    let text = "schema = 1\n[[point]]\nbytes = 64\ngap_ns = 6\nlatency_ns = 9\n[[point]]\nbytes = 640\ngap_ns = 60\n\
                latency_ns = 9\n[[host]]\nname = \"m7\"\ninjection_ns = 9\n";
    let calibration = Calibration::parse(text, "c.toml").expect("a calibration");
    says(
        &Case {
            calibration: Some(calibration),
            ..Case::new(3, &[])
        },
        &["c.toml:11:", "`m7`", "ethbcast probe"],
    );
}

#[test]
fn ranks_with_different_configurations_are_named_to_all() {
    let mut case = bed("fig9-5", &[]);
    let other = NetworkKnowledge {
        topology: Topology::builtin("fig9-4"),
        casts: false,
        ..NetworkKnowledge::default()
    };
    (case.told[7], case.told[9]) = (other, case.told[0].clone());
    for refusal in refusals(&case) {
        let CommunicatorError::NetworksDiffer { one, other } = &refusal else {
            panic!("{refusal}")
        };
        assert!([one, other].contains(&&"n7".to_owned()), "{refusal}");
    }
}

#[test]
fn one_ranks_configuration_reaches_all_through_losses_and_small_frames() {
    // A description of many different hosts is long.
    let hosts: String = (0..48)
        .map(|host| format!("{{name='n{host}', rate='{}mbit'}},", 100 + host))
        .collect();
    let text = format!("schema = 1\nswitch = [{{name='a', hosts='n[0-47]'}}]\nhost = [{hosts}]");
    let topology = Topology::parse(&text, "t").expect("a topology");
    for seed in 0..5 {
        let mut case = Case::new(
            48,
            &[
                Step::Broadcast {
                    root: 3,
                    bytes: 5_000,
                },
                Step::Barrier,
            ],
        );
        case.told[31] = NetworkKnowledge {
            topology: Some(topology.clone()),
            casts: false,
            ..NetworkKnowledge::default()
        };
        play(
            &case,
            seed,
            RandomFaults::new(seed).loss(0.2),
            &format!("seed {seed}"),
        );
    }
}

#[test]
fn a_relay_that_dies_fails_the_broadcast_on_all_with_its_name() {
    for via in [
        Via::Binary,
        Via::Kary(3),
        Via::Binomial,
        Via::Latency,
        Via::ScatterAllgather,
        Via::TwoTree,
    ] {
        let mut case = Case::new(
            8,
            &[
                Step::Broadcast {
                    root: 0,
                    bytes: 3 << 20,
                },
                Step::Barrier,
            ],
        );
        case.told[0].route = Route::Via(via);
        case.rate_bits_per_second = RATE;
        case.patience = Duration::from_secs(5);
        let plan = make(
            via,
            &one_switch(8),
            0,
            &Vec::from_iter(0..8),
            &Costs::default(),
        )
        .expect("a plan");
        let relay = plan.children(0)[0];
        case.crashes = vec![(relay, Duration::from_millis(200))];
        case.leave = false;
        let mut play = Play::new(&case, 1, NoFaults, &via.to_string());
        play.run(Duration::from_secs(12));
        for host in (0..8).filter(|&host| host != relay) {
            let error = play.error(host);
            assert!(
                error
                    .to_string()
                    .contains(&format!("rank {relay} (n{relay}) is silent")),
                "{via}, {host}: {error}"
            );
        }
    }
}

fn one_switch(hosts: usize) -> Topology {
    Topology::single_switch((0..hosts).map(|host| format!("n{host}"))).expect("hosts")
}

/// A broadcast that fits one frame is otherwise always cast; here a group frame may be lost
/// whenever another has just been sent.
#[test]
fn where_broadcast_is_policed_neither_short_messages_nor_barriers_are_cast() {
    let rounds = 60;
    let program = [
        Step::Broadcast {
            root: 0,
            bytes: 256,
        },
        Step::Barrier,
    ]
    .repeat(rounds);
    let mut case = Case::new(8, &program);
    let costs = Calibration::assumed(case.rate_bits_per_second, 544)
        .with_cast_max(500)
        .expect("a rate");
    case.calibration = Some(costs);
    let mut play = Play::new(&case, 1, NoFaults, "policed, and known to be");
    let storm_control = StormControl {
        frames_per_second: 500,
        burst_frames: 20,
    };
    let start = play.simulation().now();
    case.network()
        .switches()
        .for_each(|switch| play.simulation().police(switch, Some(storm_control), start));
    play.run(Duration::from_secs(20));
    play.assert_done();
    let stats = play.stats();
    let resent: u64 = stats.iter().map(|stats| stats.streams.data_resent).sum();
    // Each of the seven others receives both once, down a tree.
    let data: u64 = stats.iter().map(|stats| stats.streams.data_sent).sum();
    assert_eq!((data, resent), (2 * 7 * rounds as u64, 0));
    let ended = play
        .processes()
        .iter()
        .filter_map(|process| Some(process.ended.as_ref()?.1))
        .max()
        .expect("ended");
    let joined = play
        .processes()
        .iter()
        .filter_map(|process| process.joined_at)
        .max()
        .expect("all have joined");
    let each = ended.since(joined) / rounds as u32;
    assert!(
        each < Duration::from_millis(1),
        "{each:?} for each: a cast waits 2 ms for the one before"
    );
}

fn star(ranks: u16, program: &[Step]) -> Case {
    let mut case = Case {
        rate_bits_per_second: 100_000_000,
        burst_bytes: 3 << 10,
        ..Case::new(ranks, program)
    };
    case.mtus.fill(1500);
    case
}

fn without_casts(mut case: Case) -> Case {
    case.told[0].casts = false;
    case
}

fn counted(played: &Play<NoFaults>) -> (u64, u64, u64) {
    let (mut data, mut again) = (0, 0);
    for stats in played.stats() {
        let (streams, mailbox) = (stats.streams, stats.mailbox);
        data += streams.data_sent + mailbox.pushes_sent + mailbox.pulls_sent;
        again += streams.data_resent + mailbox.resent;
    }
    (data, again, played.network().drops.harmful())
}

#[test]
fn an_allgather_takes_hardly_longer_than_the_others_blocks_on_one_cable() {
    let (ranks, bytes) = (8, 256_usize << 10);
    let frames = bytes.div_ceil(1468) as u64 + 1;
    let floor = copy_seconds(bytes * 7) * RATE as f64 / 100e6;
    let casts = star(ranks, &[Step::Allgather { bytes }]);
    for (case, most_sent, what) in [
        (casts.clone(), 8 * frames, "casts"),
        (without_casts(casts), 8 * 7 * (frames + 2), "a ring"),
    ] {
        let times = took(&case) / floor;
        let (data, again, lost) = counted(&play(&case, 1, NoFaults, what));
        println!(
            "allgather by {what}: {times:.3} times the others' blocks, {data} data frames, {again} again"
        );
        assert!(times <= 1.10, "{what}: {times:.3}");
        assert!(
            data <= most_sent && again == 0 && lost == 0,
            "{what}: {data} frames, {again} again, {lost} lost"
        );
    }
}

#[test]
fn many_casts_at_once_take_turns_and_overflow_no_queue() {
    // Without pacing, blocks of 24 ranks would need some 280 places in each queue. (With more ranks
    // memory is the limit.)
    for (ranks, bytes) in [(16, 64 << 10), (24, 16 << 10)] {
        let case = star(ranks, &[Step::Allgather { bytes }, Step::Barrier]);
        let floor = copy_seconds(bytes * usize::from(ranks - 1)) * RATE as f64 / 100e6;
        let times = took(&case) / floor;
        let (data, again, lost) = counted(&play(&case, 1, NoFaults, "many"));
        println!(
            "{ranks} ranks: {times:.3} times the others' blocks, {data} data frames, {again} again, {lost} lost"
        );
        assert!(
            again == 0 && lost == 0,
            "{ranks} ranks: {again} again, {lost} lost"
        );
        assert!(times <= 1.10, "{ranks} ranks: {times:.3}");
    }
}

#[test]
fn without_a_topology_casts_are_as_fast_as_a_ring_along_the_switches() {
    let burst = |case| Case {
        burst_bytes: 3 << 10,
        ..case
    };
    let mut case = burst(bed("fig9-5", &[Step::Allgather { bytes: 64 << 10 }]));
    let along = took(&case);
    case.told[0] = NetworkKnowledge {
        casts: false,
        ..NetworkKnowledge::default()
    };
    let across = took(&case);
    case.told[0] = NetworkKnowledge::default();
    let casts = took(&case);
    println!(
        "fig9-5: {along:.3} s along the switches, {across:.3} s by number, {casts:.3} s by casts"
    );
    assert!(
        along * 2.0 < across && casts < along * 1.05,
        "{along:.3}, {across:.3}, {casts:.3}"
    );
}

#[test]
fn policed_casts_are_left_to_the_ring_by_all_ranks() {
    let mut case = star(8, &[Step::Allgather { bytes: 64 << 10 }, Step::Barrier]);
    case.calibration = Some(
        Calibration::assumed(100_000_000, 1468)
            .with_cast_max(500)
            .expect("a rate"),
    );
    case.told.iter_mut().for_each(|told| told.casts = true);
    let played = play(&case, 1, NoFaults, "policed");
    // Only the barrier's release is sent on a stream, down a tree.
    let data: u64 = played
        .stats()
        .iter()
        .map(|stats| stats.streams.data_sent)
        .sum();
    assert_eq!(data, 7);
}

#[test]
fn scatter_and_gather_of_long_blocks_take_what_the_roots_cable_takes_and_lose_nothing() {
    for (ranks, bytes) in [(8, 256 << 10), (32, 64 << 10)] {
        let floor = copy_seconds(bytes * usize::from(ranks - 1)) * RATE as f64 / 100e6;
        for (name, step) in [
            ("scatter", Step::Scatter { root: 3, bytes }),
            ("gather", Step::Gather { root: 3, bytes }),
        ] {
            let case = star(ranks, &[step, Step::Barrier]);
            let times = took(&case) / floor;
            let (data, again, lost) = counted(&play(&case, 1, NoFaults, name));
            println!(
                "{name}, {ranks} ranks: {times:.3} times the blocks, {data} frames, {again} again, {lost} lost"
            );
            assert!(times <= 1.10, "{name}, {ranks} ranks: {times:.3}");
            assert!(
                again == 0 && lost == 0,
                "{name}, {ranks} ranks: {again} again, {lost} lost"
            );
        }
    }
}

#[test]
fn many_short_blocks_share_frames_down_a_tree_and_up_again() {
    let ranks = 256;
    let both = [
        ("gather", Step::Gather { root: 5, bytes: 8 }),
        ("scatter", Step::Scatter { root: 5, bytes: 8 }),
    ];
    for (name, step) in both.into_iter().take(in_full(1, 2)) {
        let mut case = Case {
            leave: false,
            ..star(ranks, &[Step::Barrier])
        };
        case.calibration = Some(Calibration::assumed(100_000_000, 1468));
        let mut play = Play::new(&case, 1, NoFaults, name);
        play.run(Duration::from_secs(3));
        play.assert_done();
        let began = play.simulation().now();
        let sent = |play: &Play<NoFaults>| {
            play.stats()[5].mailbox.pushes_sent + play.stats()[5].mailbox.receipts_sent
        };
        let before = sent(&play);
        play.go_on(&[step]);
        play.run(Duration::from_secs(1));
        play.assert_done();
        let ended = play
            .processes()
            .iter()
            .filter_map(|process| Some(process.ended.as_ref()?.1))
            .max();
        let took = ended.expect("they ended").since(began);
        println!(
            "{name}: {took:?}, the root sent {} frames",
            sent(&play) - before
        );
        assert!(
            sent(&play) - before < 20,
            "{name}: the root sent {} frames for 255 blocks",
            sent(&play) - before
        );
        // 255 frames of the smallest size take 1.7 ms.
        assert!(took < Duration::from_micros(1_700), "{name}: {took:?}");
    }
}

#[test]
fn blocks_reach_their_ranks_by_every_way_whatever_is_lost() {
    for (ranks, bytes) in [(5, 30_000), (40, 3), (40, 2_000), (40, 0)] {
        let program: Vec<Step> = [0, 1, ranks - 1]
            .into_iter()
            .flat_map(|root| {
                [
                    Step::Scatter { root, bytes },
                    Step::Gather { root, bytes },
                    Step::Allgather { bytes },
                ]
            })
            .chain([Step::Barrier])
            .collect();
        for seed in 0..5 {
            let mut case = Case::new(ranks, &program);
            case.told[0].casts = seed % 2 == 0;
            let faults = RandomFaults::new(seed)
                .loss(0.05)
                .duplicate(0.02)
                .reorder(0.05, Duration::from_micros(200));
            play(
                &case,
                seed,
                faults,
                &format!("{ranks} ranks, {bytes} bytes, seed {seed}"),
            );
        }
    }
}

#[test]
fn a_rank_that_dies_is_named_by_all_whatever_the_call() {
    for (ranks, bytes) in [(8, 512 << 10), (24, 40_000)] {
        for step in [
            Step::Scatter { root: 1, bytes },
            Step::Gather { root: 1, bytes },
            Step::Allgather { bytes },
        ] {
            for (dead, casts) in [(0, true), (2, false), (5, true)] {
                let long = [
                    Step::Compute(Duration::from_millis(300)),
                    step,
                    Step::Barrier,
                ];
                let mut case = Case {
                    patience: Duration::from_secs(8),
                    leave: false,
                    ..star(ranks, &long)
                };
                case.told[0].casts = casts;
                // It dies in the middle of the call, before its own block is sent and its arrival
                // announced.
                let at = if ranks == 8 { 310 } else { 303 };
                case.crashes = vec![(dead, Duration::from_millis(at))];
                let replay = format!("{ranks} ranks, {step:?}, host {dead} dies");
                let mut play = Play::new(&case, 1, NoFaults, &replay);
                play.run(Duration::from_secs(12));
                for host in (0..usize::from(ranks)).filter(|&host| host != dead) {
                    let error = play.error(host).to_string();
                    assert!(
                        error.contains(&format!("(n{dead})")),
                        "{replay}, host {host}: {error}"
                    );
                }
            }
        }
    }
}
