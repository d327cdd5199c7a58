//! Hundreds of receivers die together: one new view, and the data goes on.

use ethbcast_collectives::session::application::{Collected, MemoryContent, Participant};
use ethbcast_collectives::session::kind::VIEW;
use ethbcast_collectives::session::{Outcome, Timing};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, data, hosts_of, star};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, Simulation};
use ethbcast_transport::wire::{Kind, parse};
use std::collections::BTreeSet;
use std::time::Duration;

const RECEIVERS: usize = 1000;
const BYTES: usize = 600_000;
const RATE_BITS_PER_SECOND: u64 = 100_000_000;

#[derive(Default)]
struct Heard {
    views: BTreeSet<u8>,
    data: Vec<Instant>,
}

#[test]
fn of_a_thousand_half_die_at_once_and_one_view_says_so_while_data_stands_still_for_the_dead_limit_and_a_second() {
    let timing = Timing { patience: Duration::from_secs(3), ..Timing::default() };
    let case = Case { timing, mtu_bytes: 1500, ..Case::new(Via::Cast, RECEIVERS, BYTES) };
    let hosts = hosts_of(&case, 1, MemoryContent::new(data(BYTES, 1)), |_| Collected::default());
    let mut heard = Heard::default();
    let listen = |delivery: &Delivery<'_>| {
        if delivery.to == RECEIVERS
            && let Ok(frame) = parse(delivery.frame)
        {
            match frame.header.kind {
                VIEW => drop(heard.views.insert(frame.header.epoch)),
                Kind::DATA => heard.data.push(delivery.at),
                _ => {}
            }
        }
        Fate::Deliver
    };
    let mut simulation = Simulation::new(&star(&case, RATE_BITS_PER_SECOND), hosts, listen);
    // In the middle of the data.
    let mut turn = |_: usize, host: &mut Participant<MemoryContent<Vec<u8>>, Collected>, now| host.turn(now);
    while simulation.machines()[RECEIVERS].streams().is_none_or(|streams| streams.frames() < 50) {
        assert!(simulation.step(Instant::START + Duration::from_secs(60), &mut turn).is_none(), "it does not begin");
    }
    let died_at = simulation.now();
    (0..RECEIVERS / 2).for_each(|half| simulation.crash(1 + half * 2, died_at));
    let outcome = simulation.run(Instant::START + Duration::from_secs(60), turn);
    assert!(outcome.is_quiet(), "{outcome:?}, {:?}", simulation.next_deadline());
    let hosts = simulation.into_machines();
    let Participant::Root(root, _) = &hosts[0] else { panic!("host 0 is the root") };
    let delivered = root.reports().filter(|report| report.outcome == Outcome::Delivered).count();
    assert_eq!(delivered, RECEIVERS / 2);
    // The first view, the one in which they step aside, and the one in which their patience has
    // ended.
    assert_eq!(heard.views, BTreeSet::from([1, 2, 3]));
    let pauses = heard.data.windows(2).map(|two| two[1].since(two[0]));
    let longest = pauses.max().expect("data has come");
    assert!(longest < timing.dead + Duration::from_secs(1), "{longest:?}");
}
