//! Tests of the diagnosis on reports of runs in which one known cause was created.

use super::super::kept::{
    Contended, Edge, Frames, Incident, Kept, Others, PlanRecord, Receiver, Run, Timeline, Track,
};
use super::part;

const HOSTS: usize = 5;
const BYTES: u64 = 100 << 20;
const MOMENTS: usize = 21;

/// A run of 10 s from n0 to four receivers on a chain, whose cables were full for `share` of the
/// time.
fn run(share: f64) -> Kept {
    let host = |rank: usize| format!("n{rank}");
    let receiver = |rank: usize| Receiver {
        host: host(rank),
        status: "verified".to_owned(),
        bytes: BYTES,
        seconds: 10.0,
        frames: Some(70_000),
        repaired_frames: Some(0),
        ..Receiver::default()
    };
    let edges = (1..HOSTS)
        .map(|to| Edge {
            from: host(to - 1),
            to: host(to),
            half: 0,
        })
        .collect();
    let plan = PlanRecord {
        via: "chain".to_owned(),
        hosts: (0..HOSTS).map(host).collect(),
        edges,
    };
    let bytes: Vec<u64> = (0..MOMENTS as u64)
        .map(|at| BYTES * at / (MOMENTS as u64 - 1))
        .collect();
    let track = |rank: usize| Track {
        host: host(rank),
        bytes: bytes.clone(),
        states: "s".repeat(MOMENTS),
    };
    let timeline = Timeline {
        seconds: (0..MOMENTS).map(|at| at as f64 / 2.0).collect(),
        sent_bytes: bytes.clone(),
        resent_frames: vec![0; MOMENTS],
        receivers: (1..HOSTS).map(track).collect(),
        ..Timeline::default()
    };
    let run = Run {
        root: "n0".to_owned(),
        interface: "eth0".to_owned(),
        mtu_bytes: 1500,
        plan: Some(plan),
        copy_seconds: Some(10.0 * share),
        processor_seconds: Some(2.0),
        timeline,
        ..Run::default()
    };
    Kept {
        bytes: BYTES,
        seconds: 10.0,
        total_seconds: 11.0,
        via: "chain".to_owned(),
        frames: Frames {
            data_sent: 71_500,
            ..Frames::default()
        },
        receivers: (1..HOSTS).map(receiver).collect(),
        run: Some(run),
        ..Kept::default()
    }
}

impl Kept {
    fn with(mut self, plant: impl FnOnce(&mut Kept, &mut Run)) -> Kept {
        let mut run = self.run.take().unwrap_or_default();
        plant(&mut self, &mut run);
        self.run = Some(run);
        self
    }

    fn cast(self) -> Kept {
        self.with(|kept, run| {
            kept.via = "cast".to_owned();
            let plan = run.plan.as_mut().expect("it has one");
            plan.via = "cast".to_owned();
            plan.edges
                .iter_mut()
                .for_each(|edge| edge.from = "n0".to_owned());
        })
    }

    /// The same run along a flat tree: the root sends to each receiver.
    fn star(self) -> Kept {
        self.with(|kept, run| {
            kept.via = "flat".to_owned();
            let plan = run.plan.as_mut().expect("it has one");
            plan.via = "flat".to_owned();
            plan.edges
                .iter_mut()
                .for_each(|edge| edge.from = "n0".to_owned());
        })
    }

    /// The same run, in which a receiver failed that had this part of the bytes.
    fn died(mut self, host: &str, part: f64) -> Kept {
        let failed = self
            .receivers
            .iter_mut()
            .find(|one| one.host == host)
            .expect("it is a receiver");
        (failed.status, failed.bytes) = ("died".to_owned(), (BYTES as f64 * part) as u64);
        self
    }

    fn losing(self, lost: [u64; HOSTS - 1]) -> Kept {
        self.with(|kept, _| {
            kept.frames.data_resent = lost.iter().sum();
            kept.receivers
                .iter_mut()
                .zip(lost)
                .for_each(|(one, lost)| one.repaired_frames = Some(lost));
        })
    }

    fn states(self, rank: usize, states: &[(char, usize)]) -> Kept {
        let states: String = states
            .iter()
            .flat_map(|&(state, times)| std::iter::repeat_n(state, times))
            .collect();
        assert_eq!(states.len(), MOMENTS);
        self.with(|_, run| run.timeline.receivers[rank - 1].states = states)
    }

    fn held_up_by(self, host: &str) -> Kept {
        self.with(|_, run| run.held_up_by = Some(host.to_owned()))
    }

    fn ending(self, seconds: [f64; HOSTS - 1]) -> Kept {
        self.with(|kept, _| {
            kept.receivers
                .iter_mut()
                .zip(seconds)
                .for_each(|(one, at)| one.seconds = at)
        })
    }

    fn incident(self, seconds: f64, kind: &str, host: &str, text: &str) -> Kept {
        let (kind, text) = (kind.to_owned(), text.to_owned());
        let incident = Incident {
            seconds,
            kind,
            hosts: vec![host.to_owned()],
            text,
        };
        self.with(|_, run| run.timeline.incidents.push(incident))
    }

    /// The same run, in which nothing moved from one moment to another.
    fn still(self, from: usize, to: usize) -> Kept {
        self.with(|_, run| {
            let tracks = run
                .timeline
                .receivers
                .iter_mut()
                .map(|track| &mut track.bytes);
            for bytes in tracks.chain([&mut run.timeline.sent_bytes]) {
                let before = bytes[from];
                bytes[from..=to].fill(before);
            }
        })
    }

    fn demoted(self, host: &str, text: &str) -> Kept {
        self.incident(2.0, "aside", host, text)
            .with(|_, run| run.demoted.push(host.to_owned()))
    }

    fn others(self, host: &str, seconds: f64, share: f64, sessions: &[&str]) -> Kept {
        let sessions = sessions.iter().map(|&one| one.to_owned()).collect();
        self.with(|_, run| {
            run.others = Some(Others {
                host: host.to_owned(),
                seconds,
                share,
                sessions,
            })
        })
    }

    fn limit(self, bits_per_second: u64) -> Kept {
        self.with(|kept, _| kept.rate_limit_bits_per_second = Some(bits_per_second))
    }

    fn nice(self) -> Kept {
        self.with(|kept, _| kept.nice = true)
    }

    fn processor(self, seconds: f64) -> Kept {
        self.with(|_, run| run.processor_seconds = Some(seconds))
    }

    fn topology(self) -> Kept {
        let text = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-1]\"\nlinks = [\"s1\"]\n[[switch]]\nname = \
                    \"s1\"\nhosts = \"n[2-4]\"\n";
        self.with(|_, run| run.topology = Some(text.to_owned()))
    }

    fn contended(self) -> Kept {
        let cable = Contended {
            from: "s1".to_owned(),
            to: "s0".to_owned(),
            senders: 2,
        };
        self.with(|kept, _| kept.contention = Some(vec![cable]))
    }

    fn rerouted(self, why: &str) -> Kept {
        let incident = Incident {
            seconds: 2.0,
            kind: "rerouted".to_owned(),
            hosts: Vec::new(),
            text: why.to_owned(),
        };
        self.with(|kept, run| {
            kept.rerouted = true;
            run.timeline.incidents.push(incident);
        })
    }

    fn predicted(self, seconds: f64) -> Kept {
        self.with(|kept, _| kept.predicted_seconds = Some(seconds))
    }

    fn unmeasured(self) -> Kept {
        self.with(|_, run| run.copy_seconds = None)
    }
}

const BLOCKED: &[(char, usize)] = &[('a', 2), ('b', 18), ('v', 1)];
const SYNCED: &[(char, usize)] = &[('a', 8), ('v', 1), ('y', 12)];
const WAITED: &[(char, usize)] = &[('s', 4), ('v', 1), ('t', 16)];

const UNKNOWN: &str = "not known: the cable of n0 carried 30 % of what two hosts alone reach";
const LINKS: &str =
    "the links themselves: the busiest, the cable of n0, carries the bytes once, at 95 %";

/// A planted cause, the report of such a run, and how the diagnosis has to begin.
type Planted = (&'static str, Kept, &'static str);

macro_rules! planted_causes {
    ($($what:literal: $kept:expr, $begins:expr;)*) => {
        vec![$(($what, $kept, $begins)),*]
    };
}

fn of_links_and_readers() -> Vec<Planted> {
    planted_causes! {
        "full links": run(0.95), LINKS;
        "full links of a cast": run(0.95).cast(),
            "the links themselves: each carries every frame once, at 95 %";
        "full links, and a host that polls": run(0.95).processor(11.0), LINKS;
        "full links, and some loss": run(0.95).losing([0, 1500, 0, 0]), LINKS;
        "full links, and a reader that paused": run(0.95).states(2, BLOCKED).held_up_by("n2"),
            LINKS;
        "full links, and little other traffic": run(0.95).others("n2", 9.0, 0.05, &[]), LINKS;
        "full links, and --nice": run(0.95).nice(), LINKS;
        "full links, and a dead host": run(0.95).incident(5.0, "failed", "n4", "it died"), LINKS;
        "full links to those that stayed": run(0.495).star().died("n3", 0.0).died("n4", 0.0),
            "the links themselves: the busiest, the cable of n0, carries the bytes 2 times, at 99 %";
        "full links to those that stayed, and one that left late": run(0.28).star().died("n4", 0.5),
            "the links themselves: the busiest, the cable of n0, carries the bytes 4 times, at 98 %";
        "full links to a host that left, whose child stayed": run(0.95).died("n3", 0.0), LINKS;
        "rates that were only predicted": run(0.3).unmeasured().predicted(9.8),
            "the links themselves, as predicted";
        "several switches untold": run(0.3),
            "not known: the cable of n0 carried 30 % of what two hosts alone reach; are there several switches?";
        "nothing measured": run(0.3).unmeasured(),
            "not known: no rates were known before the start";
        "a measurement of a busy moment": run(3.0),
            "not known: the cables carried more than was measured";
        "a slow disk": run(0.3).states(2, BLOCKED).held_up_by("n2"),
            "n2: its disk, or the reader of its output (86 %";
        "a slow reader in a chain":
            run(0.3).states(3, BLOCKED).states(2, &[('c', 21)]).states(1, &[('c', 21)])
                .held_up_by("n3"),
            "n3: its disk, or the reader of its output (86 %";
        "a slow reader, unmeasured": run(0.3).unmeasured().states(2, BLOCKED).held_up_by("n2"),
            "n2: its disk, or";
        "a slow reader, and --nice": run(0.3).nice().states(2, BLOCKED).held_up_by("n2"),
            "n2: its disk, or";
        "a reader that paused once, on a slow network":
            run(0.3).states(2, &[('a', 20), ('b', 1)]).held_up_by("n2"), UNKNOWN;
        "a disk that syncs slowly": run(0.4).states(2, SYNCED),
            "n2: verifying and syncing (62 % of the time)";
        "disks that sync slowly": run(0.4).states(2, SYNCED).states(3, SYNCED),
            "n3: verifying and syncing (62 %";
    }
}

fn of_losses() -> Vec<Planted> {
    planted_causes! {
        "loss on one cable": run(0.3).losing([0, 3000, 3000, 0]), "the cable of n2 (loss 4.3 %)";
        "loss from one host to the next": run(0.3).losing([0, 3000, 0, 0]),
            "the cable of n1 or n2 (loss 4.3 %)";
        "loss on one cable of a cast": run(0.3).cast().losing([0, 3000, 0, 0]),
            "the cable of n2 (loss 4.3 %)";
        "loss on one cable, told": run(0.3).topology().losing([0, 3000, 0, 0]),
            "cable n1–s0 or n2–s1 or s1–s0 (loss";
        "loss on the root's cable": run(0.3).cast().losing([3000; 4]),
            "the cable of n0, or every cable alike (loss";
        "loss on all cables": run(0.3).losing([2900, 3000, 3100, 3000]),
            "every cable alike (loss 4.3 %)";
        "loss that receivers do not count":
            run(0.3).losing([3000; 4]).with(|kept, _| kept.receivers.iter_mut()
                .for_each(|one| one.frames = None)),
            "loss: n0 sent 16.8 % of its frames again";
        "loss, and --nice": run(0.3).nice().losing([2900, 3000, 3100, 3000]),
            "every cable alike (loss";
        "loss elsewhere than on the cable of two senders":
            run(0.3).cast().topology().contended().losing([0, 0, 0, 3000]),
            "cable n4–s1 (loss 4.3 %)";
        "two senders on a cable": run(0.3).topology().contended(),
            "the cable s1–s0, over which the plan has 2 hosts";
        "two senders on a cable that loses":
            run(0.3).cast().topology().contended().losing([0, 3000, 3000, 3000]),
            "the cable s1–s0, over which the plan has 2 hosts";
    }
}

fn of_the_own_side_and_others() -> Vec<Planted> {
    planted_causes! {
        "a busy sender": run(0.3).processor(10.5), "the processor of n0, busy for 95 %";
        "a busy sender with several threads": run(0.3).processor(25.0),
            "the processor of n0, busy for 100 %";
        "a busy sender, unmeasured": run(0.3).unmeasured().processor(10.5),
            "not known: no rates were known before the start; seen was the processor of n0, busy for 95 %";
        "a limit": run(0.3).limit(90_000_000), "the configured limit of 90.0 Mbit/s";
        "a limit, and a host that polls": run(0.3).limit(90_000_000).processor(11.0),
            "the configured limit of";
        "a limit of two copies":
            run(0.3).limit(180_000_000).with(|kept, _| kept.frames.data_sent = 143_000),
            "the configured limit of 180.0 Mbit/s";
        "a limit far above, and a slow network": run(0.3).limit(900_000_000), UNKNOWN;
        "--nice": run(0.3).nice(), "yielding to others, as asked (--nice)";
        "--nice beside others": run(0.3).nice().others("n2", 9.0, 0.6, &[]),
            "yielding to others, as asked";
        "a flow": run(0.5).others("n3", 9.5, 0.47, &[]),
            "other traffic, which took 47 % of the link of n3 for 9.5 s";
        "another session": run(0.5).others("n3", 9.5, 0.49, &["n8"]),
            "another ethbcast session of n8: others took";
        "another session, since before the measurement":
            run(0.98).predicted(9.8).others("n3", 9.8, 0.51, &["n8"]),
            "another ethbcast session of n8: others took 51 %";
        "two other sessions": run(0.35).others("n3", 9.5, 0.6, &["n8", "n9"]),
            "other ethbcast sessions of n[8-9]";
        "a flow that explains little": run(0.3).others("n3", 9.0, 0.15, &[]), UNKNOWN;
        "a flow that took nothing": run(0.3).others("n3", 9.0, 0.004, &[]), UNKNOWN;
    }
}

fn of_hosts_at_the_end() -> Vec<Planted> {
    planted_causes! {
        "own link down": run(0.4).with(|_, run| run.cut_off_seconds = 5.0),
            "the interface eth0 of n0 itself, which was away or had no link for 5.0 s";
        "a receiver's link down":
            run(0.4).still(4, 14).incident(6.5, "held-up", "n2", "is not heard"),
            "n2: nothing moved for 5.0 s while it was waited for";
        "a dead host that was waited for":
            run(0.4).still(4, 14).incident(6.8, "failed", "n3", "died"), "n3: nothing";
        "full links, and a dead host that was waited for":
            run(0.81).died("n3", 0.9).still(16, 20).incident(10.0, "failed", "n3", "died"),
            "n3: nothing moved for 2.0 s";
        "rates that were only predicted, and a dead host that was waited for":
            run(0.3).unmeasured().predicted(8.5).died("n3", 0.9).still(16, 20)
                .incident(10.0, "failed", "n3", "died"),
            "n3: nothing moved for 2.0 s";
        "full links, and a dead host that was waited for briefly":
            run(1.94).died("n3", 0.9).still(19, 20).incident(10.0, "failed", "n3", "died")
                .with(|kept, _| kept.seconds = 20.0),
            "the links themselves";
        "a straggler at the end": run(0.5).ending([5.0, 5.1, 5.0, 10.0]),
            "n4, which finished 4.9 s after all others";
        "one of two as a straggler":
            run(0.5).with(|kept, _| {kept.receivers.truncate(2);kept.receivers[0].seconds = 5.0;}),
            "n2, which finished 5.0 s after all others";
        "two stragglers at the end":
            run(0.5).ending([5.0, 5.1, 5.0, 10.0])
                .with(|kept, _| {
                    let ninth = Receiver {
                        host: "n5".to_owned(),
                        seconds: 9.9,
                        ..kept.receivers[3].clone()
                    };
                    kept.receivers.push(ninth);
                }),
            "n[4-5], which finished 4.8 s after all others";
        "a straggler, while others wait for the verdict":
            run(0.3).ending([2.5, 2.5, 2.5, 10.0]).states(1, WAITED).states(2, WAITED)
                .held_up_by("n1"),
            "n4, which finished 7.5 s after all others";
    }
}

fn of_what_was_rerouted_or_short() -> Vec<Planted> {
    planted_causes! {
        "a slow cable": run(0.3).demoted("n2", "takes 10.0 Mbit/s"), "n2, which takes 10.0 Mbit/s";
        "a slow cable that is known":
            run(0.3).predicted(9.8)
                .with(|_, run| run.slow_cable = Some("host n3 to switch s0".to_owned())),
            "host n3 to switch s0, which is known to be slower than the others";
        "a policer": run(0.3).rerouted("switches police broadcast").losing([3000; 4]),
            "switches police broadcast: it went on via chain";
        "a pair that cannot talk":
            run(0.3).incident(1.0, "apart", "n1 and n2", "").demoted("n2", ""),
            "the path between n1 and n2, where nothing gets through";
        "an update of little": run(0.05).with(|kept, _| kept.sent_bytes = Some(BYTES / 20)),
            "the hosts, which looked for what they have";
        "1 KiB": run(0.0).with(|kept, _| (kept.bytes, kept.frames.data_sent) = (1024, 1)),
            "not known: so short a transfer";
        "1 KiB with a limit":
            run(0.0).limit(1_000_000)
                .with(|kept, _| (kept.bytes, kept.frames.data_sent) = (1024, 1)),
            "not known: so short a transfer";
    }
}

#[test]
fn of_many_planted_causes_each_is_named_and_no_other() {
    let groups = [
        of_links_and_readers(),
        of_losses(),
        of_the_own_side_and_others(),
        of_hosts_at_the_end(),
        of_what_was_rerouted_or_short(),
    ];
    let table: Vec<Planted> = groups.into_iter().flatten().collect();
    let wrong: Vec<String> = table
        .iter()
        .map(|(name, kept, expected)| (name, part(kept).unwrap_or_default(), expected))
        .filter(|(_, said, expected)| !said.starts_with(**expected))
        .map(|(name, said, expected)| format!("{name}: {said}, expected {expected}"))
        .collect();
    assert!(
        wrong.is_empty() && table.len() >= 50,
        "{} of {}:\n{}",
        wrong.len(),
        table.len(),
        wrong.join("\n")
    );
}
