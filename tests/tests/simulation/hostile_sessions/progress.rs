//! Forged progress of a member does not hide its stall.

use super::scene::{Name, Phase, Scene};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{MemberState, Message, Outcome, Station, Status, Timing};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, GROUP, Host, hosts, session, star};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{NoFaults, Simulation, host_mac};
use ethbcast_transport::stream::Orphan;
use ethbcast_transport::wire::{OVERHEAD_BYTES, Rank, StreamId};
use std::time::Duration;

const RECEIVERS: usize = 4;
/// Its reader stops in the middle.
const STOPPED: usize = 4;
const SEED: u64 = 1;

#[test]
fn a_false_status_does_not_hide_a_reader_that_has_stopped() {
    let (stall, patience) = (Duration::from_secs(2), Duration::from_secs(3));
    let timing = Timing { stall, patience, ..Timing::default() };
    for (via, arrived) in
        [Via::Chain, Via::Cast].into_iter().flat_map(|via| [0, 1000, u64::MAX].map(|sent| (via, sent)))
    {
        let mut case = Case { timing, mtu_bytes: 1500, ..Case::new(via, RECEIVERS, 1_000_000) };
        case.stops = Some((STOPPED, 300_000));
        let mut simulation = Simulation::new(&star(&case, 1_000_000_000), hosts(&case, SEED), NoFaults);
        for state in [MemberState::Alive, MemberState::Starved, MemberState::WaitsForChild] {
            let status = Status { state, waits_for: Some(Rank(2)), arrived, consumed: arrived, is_mute: false };
            let (kind, body) = Message::Status(status).encode();
            let station = Station::new(GROUP, "x", host_mac(STOPPED), 1500);
            let identity = station.identity(session(SEED), Rank(STOPPED as u16));
            let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
            identity.write(&mut frame, host_mac(0), &identity.header(kind), &body);
            simulation.inject(Instant::START + Duration::from_millis(600 + state as u64), 0, &frame);
        }
        let end = simulation.run(Instant::START + Duration::from_secs(20), |_, host: &mut Host, now| host.turn(now));
        let replay = format!("{via}, {arrived}: {end:?}");
        let Participant::Root(root, _) = &simulation.machines()[0] else { panic!("host 0 is the root") };
        assert!(end.is_quiet() && root.is_over(), "{replay}");
        let fates: Vec<Outcome> = root.reports().map(|report| report.outcome).collect();
        assert_eq!(fates[STOPPED - 1], Outcome::Stalled, "{replay}");
        let others = fates[..STOPPED - 1].iter().all(|&fate| fate == Outcome::Delivered);
        assert!(others, "{replay}: {fates:?}");
    }
}

#[test]
fn a_false_ready_does_not_leave_out_what_a_member_aside_lacks() {
    for (via, host) in [(Via::Chain, 2), (Via::Chain, 4), (Via::Cast, 2), (Via::Binary, 1)] {
        for arrived in [60, 100, 103, u64::MAX] {
            let mut scene = Scene::new(via);
            let replay = format!("{via}: READY of n{host} with {arrived} frames");
            assert!(scene.run_to(Phase::FirstFrames, host), "{replay}");
            scene.pause(host, Duration::from_secs(2));
            scene.run_to_aside(host);
            let view = scene.view().expect("it is being run");
            let ready = Message::Ready { epoch: view.epoch, digest: view.digest(), arrived };
            let (kind, body) = ready.encode();
            scene.inject(0, Name::Host(host), kind, &body);
            let has = scene.finish(&replay);
            assert!(has[0], "{replay}: {}", scene.story());
        }
    }
}

/// Bytes of a pipe cannot be read again: a host that lacks them is lost, and the root goes on.
/// Formerly the root sent requests forever for a host whose fate it knew.
#[test]
fn a_false_word_that_one_who_has_everything_lacks_bytes_of_a_pipe_does_nothing() {
    let timing = Timing { stall: Duration::from_secs(2), patience: Duration::from_secs(4), ..Timing::default() };
    let mut case = Case { timing, mtu_bytes: 1500, pipe: true, ..Case::new(Via::Chain, RECEIVERS, 60_000) };
    case.stops = Some((STOPPED, 30_000));
    let mut simulation = Simulation::new(&star(&case, 1_000_000_000), hosts(&case, SEED), NoFaults);
    let gap = Orphan { rank: Rank(2), from: 0, to: 5 };
    let (kind, body) = Message::Orphan { stream: StreamId(1), gap }.encode();
    let identity = Station::new(GROUP, "x", host_mac(1), 1500).identity(session(SEED), Rank(1));
    let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
    identity.write(&mut frame, host_mac(0), &identity.header(kind), &body);
    simulation.inject(Instant::START + Duration::from_millis(600), 0, &frame);
    let end = simulation.run(Instant::START + Duration::from_secs(20), |_, host: &mut Host, now| host.turn(now));
    let Participant::Root(root, _) = &simulation.machines()[0] else { panic!("host 0 is the root") };
    let fates: Vec<Outcome> = root.reports().map(|report| report.outcome).collect();
    assert!(end.is_quiet() && root.is_over(), "{end:?}");
    assert!(fates[..STOPPED - 1].iter().all(|&fate| fate == Outcome::Delivered), "{fates:?}");
}
