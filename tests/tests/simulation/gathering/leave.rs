//! A receiver with an admission hook, and sessions to ignore.

use super::scene::{Host, Scene, at, run_until};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Admission, Receiver, ReceiverConfig, RootEvent, Wanted};
use ethbcast_transport::sim::{NoFaults, Simulation, host_mac};
use std::time::Duration;

/// A receiver without room at first: the admission hook sets the space.
fn by_leave(config: ReceiverConfig) -> ReceiverConfig {
    ReceiverConfig { by_leave: true, free_bytes: 0, ..config }
}

fn receiver(simulation: &mut Simulation<Host, NoFaults>, host: usize) -> &mut Receiver {
    let Participant::Receiver(receiver, _) = simulation.machine_mut(host) else { panic!("a receiver") };
    receiver
}

#[test]
fn a_receiver_that_needs_leave_asks_when_it_has_it_and_says_the_room_of_that_moment() {
    let wanted = Wanted { at_least: 1, enough: Some(1), patience: Duration::from_secs(20) };
    let scene = Scene::new(1500).root(0, 5000, wanted).receivers_with(1, by_leave);
    let played = scene.play(NoFaults, |simulation| {
        run_until(simulation, 2000);
        assert_eq!(receiver(simulation, 1).admission(), Admission::Wanted);
        receiver(simulation, 1).set_free_bytes(100);
        receiver(simulation, 1).admit(at(2000));
        simulation.wake(1, at(2000));
        run_until(simulation, 2100);
        assert_eq!(receiver(simulation, 1).admission(), Admission::None, "turned away, it gives its leave back");
        run_until(simulation, 9000);
        assert_eq!(receiver(simulation, 1).admission(), Admission::Wanted, "the root still invites");
        receiver(simulation, 1).set_free_bytes(1 << 20);
        receiver(simulation, 1).admit(at(9000));
        simulation.wake(1, at(9000));
    });
    assert_eq!(played.has(1), Some(0), "{}", played.failure(0));
    assert!(played.left_out(1).is_empty() || played.left_out(1)[0].contains("room"), "{:?}", played.left_out(1));
    let (when, _) = played.told(0, |event| matches!(event, RootEvent::Started { .. })).expect("started");
    assert!(when >= Duration::from_secs(9), "{when:?}");
}

#[test]
fn leave_for_a_root_that_has_gone_meanwhile_is_given_back() {
    let wanted = Wanted { at_least: 1, enough: Some(1), patience: Duration::from_secs(2) };
    let scene = Scene::new(1500).root(0, 1000, wanted).receivers_with(1, by_leave);
    let played = scene.play(NoFaults, |simulation| {
        run_until(simulation, 1000);
        assert_eq!(receiver(simulation, 1).admission(), Admission::Wanted);
        run_until(simulation, 10_000);
        receiver(simulation, 1).admit(at(10_000));
        simulation.wake(1, at(10_000));
        run_until(simulation, 10_100);
        assert_eq!(receiver(simulation, 1).admission(), Admission::None);
    });
    assert_eq!(played.has(1), None);
}

#[test]
fn a_session_that_was_had_is_not_asked_for_again_and_the_next_of_the_same_root_is() {
    let wanted = || Wanted { at_least: 1, enough: Some(1), patience: Duration::from_secs(3) };
    let had = |config: ReceiverConfig| ReceiverConfig { had: vec![(host_mac(0), 0x1000)], ..config };
    let played = Scene::new(1500).root(0, 1000, wanted()).receivers_with(1, had).play(NoFaults, |_| {});
    assert!(played.failure(0).contains("0 of 1 receivers joined"), "{}", played.failure(0));
    assert_eq!((played.has(1), played.left_out(1).len()), (None, 0));
    let other = |config: ReceiverConfig| ReceiverConfig { had: vec![(host_mac(0), 0x0fff)], ..config };
    let played = Scene::new(1500).root(0, 1000, wanted()).receivers_with(1, other).play(NoFaults, |_| {});
    assert_eq!(played.has(1), Some(0));
}
