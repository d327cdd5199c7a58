//! Frames of the session itself that come again much later, as a host that hears and repeats them can make them: they
//! cost time, and nobody the file.

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Outcome, Timing};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, Host, hosts, star};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, Faults, Random, Simulation};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const RATE_BITS_PER_SECOND: u64 = 100_000_000;
/// So often somebody says again what he has heard.
const EVERY: Duration = Duration::from_micros(600);
/// For so long.
const LASTS: Duration = Duration::from_secs(5);
/// What a session needs when that is over.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// A frame, and where it came.
type Heard = (usize, Vec<u8>);

fn at(after: Duration) -> Instant {
    Instant::START + after
}

fn faults(seed: u64, loss: f64, heard: Rc<RefCell<Vec<Heard>>>) -> impl Faults {
    let mut random = Random::new(seed);
    move |delivery: &Delivery<'_>| {
        heard.borrow_mut().push((delivery.to, delivery.frame.to_vec()));
        if random.chance(loss) { Fate::Drop } else { Fate::Deliver }
    }
}

/// Plays a session until all is over, while somebody says again what he has heard; what it comes to at the root.
fn play(case: &Case, seed: u64, loss: f64) -> Vec<(Outcome, Duration)> {
    let heard: Rc<RefCell<Vec<Heard>>> = Rc::default();
    let network = star(case, RATE_BITS_PER_SECOND);
    let mut simulation = Simulation::new(&network, hosts(case, seed), faults(seed, loss, Rc::clone(&heard)));
    for &(host, after) in &case.crashes {
        simulation.crash(host, at(Timing::default().announce * 2 + after));
    }
    let (mut random, mut now) = (Random::new(!seed), Duration::ZERO);
    while now < LASTS {
        now += EVERY;
        let outcome = simulation.run(at(now), |_, host: &mut Host, now| host.turn(now));
        if outcome.is_quiet() {
            break;
        }
        let count = heard.borrow().len() as u64;
        if count > 0 {
            let (to, frame) = heard.borrow()[random.below(count) as usize].clone();
            simulation.inject(at(now), to, &frame);
        }
    }
    let outcome = simulation.run(at(Duration::from_secs(60)), |_, host: &mut Host, now| host.turn(now));
    assert!(outcome.is_quiet(), "{outcome:?}");
    let Participant::Root(root, _) = &simulation.machines()[0] else { unreachable!("host 0 is the root") };
    root.reports().map(|report| (report.outcome, report.took)).collect()
}

fn all_but_the_dead(via: Via, seed: u64, loss: f64, dies: bool) {
    let timing = Timing { stall: Duration::from_secs(4), patience: Duration::from_secs(6), ..Timing::default() };
    let case = Case { timing, mtu_bytes: 1500, ..Case::new(via, 7, 4_000_000) }.with_feed(256);
    let crashes = if dies { vec![(7, Duration::from_millis(60 + 20 * seed))] } else { Vec::new() };
    let case = Case { crashes, ..case };
    let fates = play(&case, seed, loss);
    let replay = format!("{via}, seed {seed}, loss {loss}, dies {dies}");
    for (rank, (fate, took)) in fates.iter().enumerate().filter(|(rank, _)| !dies || *rank != 6) {
        assert_eq!(*fate, Outcome::Delivered, "{replay}: rank {}: {fates:?}", rank + 1);
        assert!(*took < LASTS + AFTERWARDS, "{replay}: rank {}: {fates:?}", rank + 1);
    }
}

#[test]
fn frames_that_come_again_much_later_cost_nobody_the_file() {
    for via in [Via::Chain, Via::Cast, Via::Binary] {
        for seed in 0..6 {
            for (loss, dies) in [(0.0, false), (0.0, true), (0.03, false), (0.03, true)] {
                all_but_the_dead(via, seed, loss, dies);
            }
        }
    }
}
