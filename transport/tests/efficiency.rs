//! Test of retransmission efficiency in a lossy broadcast: selective repair compared with
//! go-back-n. The collapse calculated in `docs/design.md` §3 is compared with the simulation.
//!
//! The table is a reviewed snapshot, `snapshots/efficiency.txt`, with `docs/results/efficiency.csv`
//! beside it. To accept another one, review the difference and run `ETHBCAST_ACCEPT=1 cargo test -p
//! ethbcast-transport --test efficiency`.

#[path = "common/accepted.rs"]
mod accepted;

use accepted::compare;
use ethbcast_transport::Alone;
use ethbcast_transport::sim::{Cable, HostSettings, Network, RandomFaults, Simulation, host_mac};
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Rank, StreamId, group_mac};
use ethbcast_transport::wire::{Guard, Identity, Peer};
use ethbcast_transport::{Instant, Policy, Tuning};
use std::path::PathBuf;
use std::time::Duration;

const WINDOWS_FRAMES: [u64; 2] = [16, 64];
const RECEIVERS: [usize; 4] = [1, 8, 32, 100];
const LOSSES: [f64; 4] = [0.0001, 0.001, 0.01, 0.05];
const PAYLOAD_BYTES: usize = 1468;
/// At 1 Gbit/s this makes a round trip of 70 frames: either window is in flight completely when its
/// first loss is known.
const CABLE_DELAY: Duration = Duration::from_micros(200);
/// Losses per cell of the table, within the limits below.
const LOSSES_WANTED: f64 = 40.0;
const FRAMES: std::ops::RangeInclusive<u64> = 1000..=200_000;

#[derive(Clone, Copy, Debug)]
struct Row {
    window_frames: u64,
    receivers: usize,
    loss: f64,
    strict: Efficiency,
    holes: Efficiency,
}

#[derive(Clone, Copy, Debug)]
struct Efficiency {
    simulated: f64,
    /// Calculated as in `docs/design.md` §3: each loss repeats a window, or just the frame.
    calculated: f64,
}

impl Row {
    fn simulate(window_frames: u64, receivers: usize, loss: f64) -> Row {
        let efficiency = |policy, again_frames: u64| Efficiency {
            simulated: simulate(policy, window_frames, receivers, loss),
            calculated: 100.0 / (1.0 + receivers as f64 * loss * again_frames as f64),
        };
        let strict = efficiency(Policy::InOrderOnly, window_frames);
        Row {
            window_frames,
            receivers,
            loss,
            strict,
            holes: efficiency(Policy::HolesAllowed, 1),
        }
    }

    fn text(&self) -> String {
        let Row {
            window_frames,
            receivers,
            loss,
            strict,
            holes,
        } = self;
        format!(
            "{window_frames:>6} {receivers:>9} {loss:>7} {:>10.1} {:>10.1} {:>12.1} {:>10.1}\n",
            strict.simulated, strict.calculated, holes.simulated, holes.calculated
        )
    }

    fn csv(&self) -> String {
        let Row {
            window_frames,
            receivers,
            loss,
            strict,
            holes,
        } = self;
        format!(
            "{window_frames},{receivers},{loss},{:.1},{:.1},{:.1},{:.1}\n",
            strict.simulated, strict.calculated, holes.simulated, holes.calculated
        )
    }
}

const TEXT_HEADING: &str = "\
New frames of all data frames a cast's root sends, in percent. \
Simulated: 1 Gbit/s, full frames, a round trip of 70 frames,\n\
every delivery lost alike (acknowledgements too), repairs counted whether broadcast or unicast. \
Calculated: 1 / (1 + N p W)\n\
for strict go-back-n, 1 / (1 + N p) for hole repair. \
The window is the feed's slots; strict go-back-n keeps to it as well.\n\
\n\
window receivers    loss     strict calculated  hole repair calculated\n\
";

const CSV_HEADING: &str = "window_frames,receivers,loss,strict_percent,strict_calculated_percent,\
                           hole_repair_percent,hole_repair_calculated_percent\n";

fn tuning(policy: Policy, window_frames: u64) -> Tuning {
    let mut tuning = Tuning {
        policy,
        ..Tuning::default()
    }
    .with_feed_frames(window_frames);
    tuning.window.start_frames = window_frames;
    tuning.window.min_frames = window_frames;
    tuning.window.max_frames = window_frames;
    tuning.ack.every_frames = window_frames / 4;
    tuning
}

fn machine(policy: Policy, window_frames: u64, receivers: usize, host: usize) -> Alone<Stream> {
    let peer = |host: usize| Peer {
        rank: Rank(host as u16),
        mac: host_mac(host),
    };
    let identity = Identity {
        session: 5,
        stream: StreamId(1),
        rank: Rank(host as u16),
        mac: host_mac(host),
        ether_type: EtherType::DEFAULT,
        guard: Guard::Plain,
    };
    let tuning = tuning(policy, window_frames);
    Alone::new(if host == 0 {
        let outlet = Outlet::Cast {
            group: group_mac("efficiency"),
            listeners: (1..=receivers).map(peer).collect(),
        };
        Stream::origin(identity, PAYLOAD_BYTES, &outlet, tuning)
    } else {
        Stream::receiver(
            identity,
            PAYLOAD_BYTES,
            peer(0),
            &Outlet::Lanes(Vec::new()),
            tuning,
        )
    })
}

fn simulate(policy: Policy, window_frames: u64, receivers: usize, loss: f64) -> f64 {
    let frames =
        ((LOSSES_WANTED / (loss * receivers as f64)) as u64).clamp(*FRAMES.start(), *FRAMES.end());
    let settings = HostSettings {
        groups: vec![group_mac("efficiency")],
        ..HostSettings::default()
    };
    let network = Network::star(
        receivers + 1,
        Cable::new(1_000_000_000, CABLE_DELAY),
        &settings,
    );
    let machines = (0..=receivers)
        .map(|host| machine(policy, window_frames, receivers, host))
        .collect();
    let mut simulation = Simulation::new(&network, machines, RandomFaults::new(7).loss(loss));
    let mut pushed = 0;
    let mut taken = vec![0; receivers + 1];
    let outcome = simulation.run(
        Instant::START + Duration::from_secs(600),
        |host, machine, now| {
            let stream = &mut machine.part;
            if host == 0 {
                let ending = |pushed| {
                    if pushed + 1 == frames {
                        Ending::Stream
                    } else {
                        Ending::None
                    }
                };
                while pushed < frames && stream.push(&[0; PAYLOAD_BYTES], ending(pushed)) {
                    pushed += 1;
                }
                return None;
            }
            while stream.peek().is_some() {
                stream.consume(now);
                taken[host] += 1;
            }
            None
        },
    );
    let case = format!("{policy:?}, window {window_frames}, {receivers} receivers, loss {loss}");
    assert!(outcome.is_quiet(), "{case}: {outcome:?}");
    assert!(
        taken[1..].iter().all(|&count| count == frames),
        "{case}: {taken:?} of {frames}"
    );
    let stats = simulation.machines()[0].part.stats();
    assert_eq!(stats.data_sent, frames, "{case}: a frame is new once");
    100.0 * frames as f64 / (stats.data_sent + stats.data_resent) as f64
}

#[test]
fn strict_go_back_n_collapses_under_broadcast_and_hole_repair_does_not() {
    let cells = WINDOWS_FRAMES
        .into_iter()
        .flat_map(|window| RECEIVERS.map(|receivers| (window, receivers)));
    let rows: Vec<Row> = cells
        .flat_map(|(window, receivers)| LOSSES.map(|loss| Row::simulate(window, receivers, loss)))
        .collect();

    for row in &rows {
        assert!(
            row.holes.simulated >= row.strict.simulated,
            "holes are never worse: {row:?}"
        );
        assert!(
            row.holes.simulated > row.holes.calculated - 2.0,
            "what one repair cannot help many can share: {row:?}"
        );
    }
    let collapsed = rows
        .iter()
        .find(|row| (row.window_frames, row.receivers, row.loss) == (64, 100, 0.001));
    let Row { strict, holes, .. } =
        collapsed.expect("the case of `docs/design.md` is in the table");
    assert_eq!(
        [strict.calculated, holes.calculated].map(|percent| format!("{percent:.1}")),
        ["13.5", "90.9"]
    );
    assert!(
        holes.simulated > 85.0 && strict.simulated < holes.simulated / 2.0,
        "{strict:?}, {holes:?}"
    );

    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let text: String = rows.iter().map(Row::text).collect();
    let test = "-p ethbcast-transport --test efficiency";
    compare(
        &root.join("tests/snapshots/efficiency.txt"),
        &format!("{TEXT_HEADING}{text}"),
        test,
    );
    let csv: String = rows.iter().map(Row::csv).collect();
    compare(
        &root.join("../docs/results/efficiency.csv"),
        &format!("{CSV_HEADING}{csv}"),
        test,
    );
}
