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
/// So often somebody says again to each of the hosts what he has heard there.
const EVERY: Duration = Duration::from_micros(4800);
/// For so long.
const LASTS: Duration = Duration::from_secs(8);
/// What a session needs meanwhile: without all this half of it.
const NEEDS: Duration = Duration::from_millis(1500);
/// And if a host dies whose frames are among those that come again: so it is heard, and makes no progress.
const STALL: Duration = Duration::from_secs(4);

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
        now += EVERY / (case.receivers as u32 + 1);
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

fn all_but_the_dead(case: Case, seed: u64, loss: f64, dies: bool) {
    let timing = Timing { stall: STALL, patience: Duration::from_secs(6), ..Timing::default() };
    let crashes = if dies { vec![(7, Duration::from_millis(60 + 20 * seed))] } else { Vec::new() };
    let case = Case { timing, mtu_bytes: 1500, crashes, ..case }.with_feed(256);
    let fates = play(&case, seed, loss);
    let replay = format!("{} to {}, seed {seed}, loss {loss}, dies {dies}", case.via, case.receivers);
    let within = if dies { STALL + NEEDS } else { NEEDS };
    for (rank, (fate, took)) in fates.iter().enumerate().filter(|(rank, _)| !dies || *rank != 6) {
        assert_eq!(*fate, Outcome::Delivered, "{replay}: rank {}: {fates:?}", rank + 1);
        assert!(*took < within, "{replay}: rank {}: {fates:?}", rank + 1);
    }
}

#[test]
fn frames_that_come_again_much_later_cost_nobody_the_file() {
    for via in [Via::Chain, Via::Cast, Via::Binary] {
        for seed in 0..6 {
            for (loss, dies) in [(0.0, false), (0.0, true), (0.03, false), (0.03, true)] {
                all_but_the_dead(Case::new(via, 7, 4_000_000), seed, loss, dies);
            }
        }
    }
}

#[test]
fn nor_does_an_ack_tree_stand_still() {
    for seed in 0..2 {
        for (loss, dies) in [(0.01, false), (0.01, true)] {
            all_but_the_dead(Case::new(Via::Cast, 140, 1_000_000), seed, loss, dies);
        }
    }
}
