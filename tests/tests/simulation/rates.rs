//! Simulated tests of rate limits, low-priority transfers, and switches that limit broadcasts.

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{
    End, OnSlow, Outcome, Rate, Receiver, ReceiverConfig, Root, RootConfig, RootEvent, Route, Station, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, Disk, GROUP, Host, Played, Sent, data, hosts, play, run, star, turn};
use ethbcast_transport::sim::{
    Cable, Delivery, Departure, Fate, Faults, HostSettings, Network, Random, RandomFaults, Sending, Simulation,
    StormControl, SwitchSettings, host_mac,
};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

const LINK_BITS_PER_SECOND: u64 = 100_000_000;
const LIMIT_BITS_PER_SECOND: u64 = 40_000_000;
const SECOND: Duration = Duration::from_secs(1);
/// A frame and the control messages of a second at most, in bits.
const BOUNDARY_BITS: u64 = 1514 * 8 * 2;

/// Host, moment and bytes of each departure, in bytes as the kernel counts them.
#[derive(Clone, Default)]
struct Meter(Rc<RefCell<Vec<(usize, Instant, usize)>>>);

impl Meter {
    /// Bytes sent within a second from each frame of a host on, for seconds inside `within`.
    fn seconds(&self, host: usize, within: &Range<Instant>) -> Vec<u64> {
        let log = self.0.borrow();
        let own: Vec<_> = log.iter().filter(|(from, ..)| *from == host).collect();
        let whole = |begin: Instant| within.start <= begin && begin + SECOND <= within.end;
        let bits = |begin: Instant| {
            let from = own.partition_point(|(_, at, _)| *at < begin);
            let to = own.partition_point(|(_, at, _)| *at < begin + SECOND);
            own[from..to].iter().map(|(.., bytes)| *bytes as u64 * 8).sum()
        };
        own.iter().map(|(_, at, _)| *at).filter(|&at| whole(at)).step_by(7).map(bits).collect()
    }

    /// Time from a host's hundredth full frame (the first ones probe whether such frames arrive) to
    /// its last.
    fn bulk(&self, host: usize) -> Range<Instant> {
        let log = self.0.borrow();
        let mut full = log.iter().filter(|(from, _, bytes)| *from == host && *bytes > 1000).map(|(_, at, _)| *at);
        let first = full.nth(100).expect("a host that sends");
        first..full.next_back().unwrap_or(first)
    }
}

struct Metered {
    faults: RandomFaults,
    meter: Meter,
}

impl Faults for Metered {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        self.faults.fate(delivery)
    }

    fn sending(&mut self, departure: &Departure<'_>) -> Sending {
        let length = departure.frame.len();
        self.meter.0.borrow_mut().push((departure.from, departure.at, length));
        Sending::Taken
    }
}

fn limited(via: Via, receivers: usize, seconds: f64) -> Case {
    let bytes = (LIMIT_BITS_PER_SECOND as f64 * seconds / 8.0) as usize;
    let rate = Rate::new(LIMIT_BITS_PER_SECOND);
    Case { mtu_bytes: 1500, rate, ..Case::new(via, receivers, bytes) }.with_feed(1024)
}

/// Plays it, and changes the root's limit at a moment; returns the duration and the departures.
fn play_limited(case: &Case, network: &Network, loss: f64, change: Option<(Duration, Rate)>) -> (Duration, Meter) {
    let meter = Meter::default();
    let faults = Metered { faults: RandomFaults::new(7).loss(loss), meter: meter.clone() };
    let mut simulation = Simulation::new(network, hosts(case, 7), faults);
    simulation.set_event_limit(20_000_000);
    let replay = format!("{} to {} at {loss}", case.via, case.receivers);
    run(&mut simulation, Duration::from_secs(60), &replay, |host: &mut Host, now| {
        let again = turn(host, now);
        if let (Participant::Root(root, _), Some((at, rate))) = (host, change) {
            if now >= Instant::START + at {
                root.set_rate(now, rate);
            } else {
                return again.into_iter().chain([Instant::START + at]).min();
            }
        }
        again
    });
    let Participant::Root(root, _) = &simulation.machines()[0] else { unreachable!("host 0 is the root") };
    assert!(root.reports().all(|report| report.outcome == Outcome::Delivered), "{replay}");
    (root.took(), meter)
}

fn extremes(meter: &Meter, host: usize) -> (u64, u64) {
    let seconds = meter.seconds(host, &meter.bulk(host));
    assert!(!seconds.is_empty(), "host {host} sends for a second");
    (seconds.iter().copied().max().unwrap_or(0), seconds.iter().copied().min().unwrap_or(0))
}

fn assert_within(meter: &Meter, host: usize, what: &str) {
    let (most, least) = extremes(meter, host);
    println!("{what}: host {host} sent {least} to {most} bit in a second");
    let tolerated = LIMIT_BITS_PER_SECOND / 100 + BOUNDARY_BITS;
    assert!(most <= LIMIT_BITS_PER_SECOND + tolerated, "{what}: host {host} sent {most} bit in a second");
    assert!(least + tolerated >= LIMIT_BITS_PER_SECOND, "{what}: host {host} sent {least} bit in a second");
}

#[test]
fn root_and_relays_of_a_chain_and_the_root_of_a_cast_send_the_limit_in_every_second() {
    for (via, senders) in [(Via::Chain, 0..4), (Via::Cast, 0..1), (Via::Kary(3), 0..1)] {
        let case = limited(via, 4, 2.5);
        let (_, meter) = play_limited(&case, &star(&case, LINK_BITS_PER_SECOND), 0.0, None);
        senders.for_each(|host| assert_within(&meter, host, &via.to_string()));
    }
}

#[test]
fn repairs_and_several_children_do_not_lift_anybody_above_the_limit() {
    for (via, loss) in [(Via::Chain, 0.02), (Via::Cast, 0.02), (Via::Binomial, 0.01), (Via::Kary(2), 0.02)] {
        let case = limited(via, 7, 2.0);
        let (_, meter) = play_limited(&case, &star(&case, LINK_BITS_PER_SECOND), loss, None);
        let everywhere = Instant::START..Instant::from_nanos(u64::MAX);
        for host in 0..=case.receivers {
            let most = meter.seconds(host, &everywhere).into_iter().max().unwrap_or(0);
            assert!(
                most <= LIMIT_BITS_PER_SECOND + LIMIT_BITS_PER_SECOND / 100 + BOUNDARY_BITS,
                "{via}: host {host} sent {most} bit in a second"
            );
        }
    }
}

#[test]
fn a_relay_that_stood_still_does_not_catch_up_faster() {
    let case = limited(Via::Chain, 4, 3.0);
    let meter = Meter::default();
    let faults = Metered { faults: RandomFaults::new(7), meter: meter.clone() };
    let network = star(&case, LINK_BITS_PER_SECOND);
    let mut simulation = Simulation::new(&network, hosts(&case, 7), faults);
    simulation.pause(2, Instant::START + Duration::from_millis(1000));
    simulation.resume(2, Instant::START + Duration::from_millis(1500));
    run(&mut simulation, Duration::from_secs(60), "a pause", turn);
    let everywhere = Instant::START..Instant::from_nanos(u64::MAX);
    for host in 0..4 {
        let most = meter.seconds(host, &everywhere).into_iter().max().expect("it sends");
        assert!(most <= LIMIT_BITS_PER_SECOND + LIMIT_BITS_PER_SECOND / 100 + BOUNDARY_BITS, "host {host}: {most} bit");
    }
}

#[test]
fn a_changed_limit_holds_everywhere_from_its_announcement() {
    let slower = Rate::new(LIMIT_BITS_PER_SECOND / 2).expect("above the lowest");
    let at = Duration::from_millis(1500);
    for via in [Via::Chain, Via::Cast] {
        let case = limited(via, 3, 2.5);
        let (_, meter) = play_limited(&case, &star(&case, LINK_BITS_PER_SECOND), 0.0, Some((at, slower)));
        // A relay gets the view one view period later, and still sends its feed's content then.
        let begin = Instant::START + at + Duration::from_millis(100);
        for host in 0..if via == Via::Chain { 3 } else { 1 } {
            let seconds = meter.seconds(host, &(begin..meter.bulk(host).end));
            let (most, least) = (seconds.iter().max().expect("some"), seconds.iter().min().expect("some"));
            let tolerated = slower.bits_per_second() / 100 + BOUNDARY_BITS;
            assert!(most.abs_diff(slower.bits_per_second()) <= tolerated, "{via}: host {host}: {most}");
            assert!(least.abs_diff(slower.bits_per_second()) <= tolerated, "{via}: host {host}: {least}");
        }
    }
}

#[test]
fn a_limit_above_the_link_changes_nothing_and_the_prediction_knows_one_below() {
    let below = limited(Via::Chain, 3, 1.0);
    let free = Case { rate: None, ..below.clone() };
    let above = Case { rate: Rate::new(10 * LINK_BITS_PER_SECOND), ..below.clone() };
    let took = |case: &Case| play_limited(case, &star(case, LINK_BITS_PER_SECOND), 0.0, None).0;
    assert_eq!(took(&above), took(&free));
    let ratio = took(&below).as_secs_f64() / took(&free).as_secs_f64();
    assert!((2.4..2.6).contains(&ratio), "{ratio}");
}

#[test]
fn the_probe_before_the_start_keeps_to_the_limit_too() {
    let case = Case { auto: true, ..limited(Via::Chain, 7, 2.0) };
    let (_, meter) = play_limited(&case, &star(&case, LINK_BITS_PER_SECOND), 0.0, None);
    let everywhere = Instant::START..Instant::from_nanos(u64::MAX);
    let most = meter.seconds(0, &everywhere).into_iter().max().expect("it sends");
    assert!(most <= LIMIT_BITS_PER_SECOND + LIMIT_BITS_PER_SECOND / 100 + BOUNDARY_BITS, "{most} bit");
}

const LINK: u64 = 100_000_000;
const MTU_BYTES: u16 = 1500;
/// Share of content in a host's bits: the rest is headers, and the wire's overhead for each frame.
const CONTENT: f64 = 1468.0 / 1538.0;

/// A session to some receivers: its hosts by their numbers in the network, the root first.
struct Flow {
    group: &'static str,
    hosts: Vec<usize>,
    via: Via,
    bytes: usize,
    rate: Option<Rate>,
}

impl Flow {
    fn machines(&self) -> Vec<Host> {
        let tuning = Tuning::default().with_feed_frames(1024);
        let station = |host: usize| Station::new(self.group, &format!("n{host}"), host_mac(host), MTU_BYTES);
        let source = Sent::new(data(self.bytes, 3), false);
        let config = RootConfig {
            size: Some(self.bytes as u64),
            wanted: Wanted { patience: Duration::from_secs(20), ..Wanted::exactly(self.hosts.len() - 1) },
            route: Route::Via(self.via),
            tuning: tuning.clone(),
            on_slow: OnSlow::Wait,
            rate: self.rate,
            ..RootConfig::new(station(self.hosts[0]), 77 + self.hosts[0] as u32, "test")
        };
        let root = Participant::root(Root::new(Instant::START, config), source);
        let receivers = self.hosts[1..].iter().map(|&host| {
            let config = ReceiverConfig::new(station(host), 1000 + host as u64);
            let config = ReceiverConfig { patience: Some(Duration::from_secs(30)), tuning: tuning.clone(), ..config };
            Participant::receiver(Receiver::new(Instant::START, config), Disk::default())
        });
        std::iter::once(root).chain(receivers).collect()
    }
}

/// Two switches and the cable between them: senders at the one, receivers at the other.
fn network(flows: &[Flow]) -> Network {
    let mut network = Network::new();
    let switches = [(); 2].map(|()| network.add_switch(SwitchSettings::default()));
    let cable = Cable::new(LINK, Duration::from_micros(5));
    network.connect(switches[0], switches[1], cable).expect("two switches");
    let settings = HostSettings {
        groups: flows.iter().map(|flow| group_mac(flow.group)).collect(),
        nic_receive_frames: 4096,
        nic_transmit_frames: 32,
        ..HostSettings::default()
    };
    for flow in flows {
        for place in 0..flow.hosts.len() {
            network.add_host(switches[place.min(1)], cable, settings.clone());
        }
    }
    network.with_mtu_bytes(MTU_BYTES.into())
}

/// Plays flows that begin together; returns the seconds of each.
fn play_flows(flows: &[Flow]) -> Vec<f64> {
    let machines: Vec<Host> = flows.iter().flat_map(Flow::machines).collect();
    let order: Vec<usize> = flows.iter().flat_map(|flow| flow.hosts.iter().copied()).collect();
    assert!(order.is_sorted(), "machines stand in the order of the network's hosts");
    let mut simulation = Simulation::new(&network(flows), machines, RandomFaults::new(5));
    simulation.set_event_limit(20_000_000);
    run(&mut simulation, Duration::from_secs(60), "yielding", turn);
    let took = |flow: &Flow| {
        let Participant::Root(root, _) = &simulation.machines()[flow.hosts[0]] else { unreachable!("the first") };
        assert!(root.reports().all(|report| report.outcome == Outcome::Delivered), "{}", flow.group);
        root.took().as_secs_f64()
    };
    flows.iter().map(took).collect()
}

/// A sender at a fixed rate without congestion control: 60 of the 100 Mbit/s, for two seconds.
fn rival(first: usize) -> Flow {
    let rate = Rate::new(60_000_000);
    Flow { group: "rival", hosts: vec![first, first + 1], via: Via::Chain, bytes: 15_000_000, rate }
}

fn bulk(via: Via, bytes: usize, rate: Option<Rate>) -> Flow {
    Flow { group: "bulk", hosts: vec![0, 1, 2, 3], via, bytes, rate }
}

#[test]
fn a_polite_session_leaves_a_rival_its_rate_and_takes_the_rest() {
    let [alone] = play_flows(&[rival(0)])[..] else { unreachable!("one flow") };
    for via in [Via::Cast, Via::Chain] {
        let polite = Some(Rate::HIGHEST.yielding());
        let both = |rate| play_flows(&[bulk(via, 10_000_000, rate), rival(4)]);
        let (rude, nice) = (both(None), both(polite));
        println!("{via}: alone {alone:.3} s, beside one {:.3} s, beside a polite one {:.3} s", rude[1], nice[1]);
        println!("{via}: the bulk takes {:.3} s, and politely {:.3} s", rude[0], nice[0]);
        assert!(rude[1] > alone * 1.05, "{via}: nobody was in its way: {} s of {alone}", rude[1]);
        assert!(nice[1] < alone * 1.03, "{via}: {} s instead of {alone}", nice[1]);
    }
}

#[test]
fn alone_a_polite_session_takes_nearly_all() {
    for via in [Via::Cast, Via::Chain] {
        let took = |rate| play_flows(&[bulk(via, 10_000_000, rate)])[0];
        let (rude, nice) = (took(None), took(Some(Rate::HIGHEST.yielding())));
        println!("{via}: alone {rude:.3} s, and politely {nice:.3} s");
        assert!(nice < rude * 1.25, "{via}: {nice} s instead of {rude}");
        assert!(rude * LINK as f64 * CONTENT >= 80_000_000.0 * 0.99, "{via}: {rude} s is faster than the cable");
    }
}

#[test]
fn a_polite_session_keeps_to_its_limit_too() {
    let limit = Rate::new(20_000_000).expect("above the lowest").yielding();
    let took = play_flows(&[bulk(Via::Chain, 5_000_000, Some(limit))])[0];
    assert!((2.0..2.3).contains(&took), "{took} s for 40 Mbit");
}

const RATE_BITS_PER_SECOND: u64 = 100_000_000;
const RECEIVERS: usize = 7;
const MIB: usize = 1 << 20;
/// A typical setting of an access switch: 500 frames a second, and a burst of five.
const STORM: StormControl = StormControl { frames_per_second: 500, burst_frames: 5 };

/// A session whose root measures first and chooses the kind of plan itself.
fn auto(bytes: usize) -> Case {
    Case { auto: true, mtu_bytes: 1500, ..Case::new(Via::Cast, RECEIVERS, bytes) }.with_feed(1024)
}

fn asked(via: Via, bytes: usize) -> Case {
    Case { auto: false, via, ..auto(bytes) }
}

fn free(case: &Case) -> Network {
    star(case, RATE_BITS_PER_SECOND)
}

fn policed(case: &Case, control: StormControl) -> Network {
    free(case).with_switches(SwitchSettings { storm_control: Some(control), ..SwitchSettings::default() })
}

/// All hosts but the last are on one switch. The last has a switch of its own, which polices for
/// its port alone.
fn with_one_behind(hosts: usize) -> Network {
    let groups = vec![group_mac(GROUP)];
    let settings =
        HostSettings { groups, nic_receive_frames: 4096, nic_transmit_frames: 32, ..HostSettings::default() };
    let cable = Cable::new(RATE_BITS_PER_SECOND, Duration::from_micros(5));
    let mut network = Network::new();
    let [all, one] = [(); 2].map(|()| network.add_switch(SwitchSettings::default()));
    network.connect(all, one, cable).expect("two switches");
    for host in 0..hosts {
        network.add_host(if host + 1 == hosts { one } else { all }, cable, settings.clone());
    }
    network.with_mtu_bytes(1500)
}

fn play_clean(case: &Case, network: &Network, seed: u64, replay: &str) -> Played {
    let played = play(case, network, seed, RandomFaults::new(seed), replay);
    assert!(
        played.fates.iter().all(|&fate| fate == Outcome::Delivered),
        "{replay}: {:?} {:?}",
        played.words,
        played.told
    );
    played
}

fn rerouted_at(played: &Played) -> Option<Duration> {
    let rerouted = |(_, event): &&(Duration, RootEvent)| matches!(event, RootEvent::Rerouted { .. });
    played.told.iter().find(rerouted).map(|&(at, _)| at)
}

#[test]
fn where_broadcast_arrives_it_is_chosen_after_a_tenth_of_a_second() {
    let case = auto(8 * MIB);
    let played = play_clean(&case, &free(&case), 1, "free");
    assert_eq!((played.view.via, rerouted_at(&played)), (Via::Cast, None));
    let asked = asked(Via::Cast, 8 * MIB);
    let known = play_clean(&asked, &free(&asked), 1, "cast, as asked");
    let longer = played.quiesced_at.saturating_sub(known.quiesced_at);
    println!("probe and ramp take {longer:?}");
    assert!(longer < Duration::from_millis(150) && played.took < known.took.mul_f64(1.02), "{longer:?}");
}

/// Seed `small:252:v5`: the next frame of a ramp at the full rate is due while the card still sends
/// the one before. A timer that had fired already was set again at once, without end.
#[test]
fn a_ramp_waits_for_room_in_a_card_that_holds_one_frame() {
    let groups = vec![group_mac(GROUP)];
    let settings = HostSettings { groups, nic_transmit_frames: 1, ..HostSettings::default() };
    for rate in [3_638_334, 5_000_000, 10_000_000] {
        let case = Case { mtu_bytes: 300, ..auto(MIB / 8) };
        let cable = Cable::new(rate, Duration::from_micros(5));
        let network = Network::star(RECEIVERS + 1, cable, &settings).with_mtu_bytes(300);
        play_clean(&case, &network, 1, "one slot");
    }
}

#[test]
fn a_broadcast_that_is_policed_from_the_start_is_not_bet_on() {
    let chain = asked(Via::Chain, MIB);
    let chain = play_clean(&chain, &policed(&chain, STORM), 1, "chain, as asked");
    for (frames_per_second, burst_frames) in [(500, 5), (100, 1), (2000, 16), (4000, 8)] {
        let case = auto(MIB);
        let control = StormControl { frames_per_second, burst_frames };
        let played = play_clean(&case, &policed(&case, control), 1, "policed");
        println!("{control:?}: {} in {:?}, a chain {:?}", played.view.via, played.took, chain.took);
        assert_eq!((played.view.via, rerouted_at(&played)), (Via::Chain, None), "{control:?}");
        assert!(played.took < chain.took.mul_f64(1.2), "{:?} of {:?}", played.took, chain.took);
    }
}

/// Faults of an overlay that copies at the sender's end from a moment on: a frame of host 0 to all
/// then takes the time of seven on its cable.
pub fn head_end(from: Duration) -> impl FnMut(&Delivery<'_>) -> Fate {
    let (mut free_at, mut last) = (0, Vec::new());
    move |delivery| {
        if delivery.from != Some(0) || delivery.at < Instant::START + from {
            return Fate::Deliver;
        }
        let (now, header) = (delivery.at.as_nanos(), &delivery.frame[..46]);
        if last != header {
            last = header.to_vec();
            let copies = if header[0] & 1 == 1 { RECEIVERS as u64 } else { 1 };
            let bits = (delivery.frame.len() as u64 + 24) * 8;
            free_at = free_at.max(now) + bits * 1_000_000_000 / RATE_BITS_PER_SECOND * copies;
        }
        Fate::Delay(Duration::from_nanos(free_at.saturating_sub(now)))
    }
}

#[test]
fn a_broadcast_that_is_copied_at_the_senders_end_is_not_bet_on() {
    for bytes in [64 << 10, 128 << 10, MIB, 4 * MIB] {
        let taken = |case: &Case| {
            let played = play(case, &free(case), 1, head_end(Duration::ZERO), "an overlay");
            assert!(played.fates.iter().all(|&fate| fate == Outcome::Delivered), "{:?}", played.words);
            (played.view.via, played.took)
        };
        let [(via, took), (_, chain), (_, cast)] =
            [auto(bytes), asked(Via::Chain, bytes), asked(Via::Cast, bytes)].map(|case| taken(&case));
        println!("{bytes} bytes: {via} in {took:?}, a chain {chain:?}, a cast {cast:?}");
        assert!(via != Via::Cast && took < chain.mul_f64(1.3) && took < cast, "{bytes} bytes: {took:?}");
    }
}

#[test]
fn contents_too_short_for_a_trial_use_no_cast_that_a_switch_may_police() {
    for bytes in [64 << 10, 128 << 10] {
        for control in [STORM, StormControl { frames_per_second: 500, burst_frames: 64 }] {
            let case = auto(bytes);
            let [auto, chain] = [case.clone(), asked(Via::Chain, bytes)]
                .map(|case| play_clean(&case, &policed(&case, control), 1, "policed"));
            assert_ne!(auto.view.via, Via::Cast, "{bytes} bytes, {control:?}");
            assert!(auto.took < chain.took.mul_f64(1.3), "{bytes} bytes: {:?} of {:?}", auto.took, chain.took);
        }
    }
}

#[test]
fn who_has_everything_hears_so_where_little_of_what_is_sent_to_all_passes() {
    for seed in 0..12 {
        let case = asked(Via::Cast, MIB);
        let control = StormControl { frames_per_second: [2, 20, 100][seed as usize % 3], burst_frames: 1 };
        let played = play_clean(&case, &policed(&case, control), seed, &format!("seed {seed}"));
        let ends: Vec<_> = played.ends.iter().filter(|end| **end != Some(End::Confirmed)).collect();
        assert!(ends.is_empty(), "seed {seed}: {ends:?} after {:?}", played.took);
    }
}

#[test]
fn a_single_policing_port_is_found_by_probing_all_receivers() {
    let mut case = auto(MIB);
    case.policed = vec![(1, STORM, Duration::ZERO)];
    let played = play_clean(&case, &with_one_behind(RECEIVERS + 1), 1, "one port");
    assert_eq!((played.view.via, played.aside()), (Via::Chain, vec![]));
}

#[test]
fn a_cast_goes_on_as_a_chain_when_switches_begin_to_police_it() {
    let bytes = 16 * MIB;
    let case = auto(bytes);
    let undisturbed = play_clean(&case, &free(&case), 1, "undisturbed").took;
    for seed in 0..18 {
        let mut case = auto(bytes);
        // At any moment of the transfer, which takes 1.4 s, except near its end.
        let at = Duration::from_millis(450 + 40 * seed);
        let frames_per_second = [50, 500, 1500][seed as usize % 3];
        let control = StormControl { frames_per_second, burst_frames: 20 };
        case.policed = vec![(0, control, at)];
        let played = play_clean(&case, &free(&case), seed, &format!("policed from {at:?} on, seed {seed}"));
        let rerouted = rerouted_at(&played).map(|rerouted| rerouted.saturating_sub(at));
        println!(
            "{control:?} from {at:?} on: {} after {rerouted:?}, {:?} of {undisturbed:?}",
            played.view.via, played.took
        );
        assert_eq!(played.view.via, Via::Chain, "seed {seed}");
        assert!(rerouted.is_some_and(|after| after < Duration::from_millis(1500)), "seed {seed}: {rerouted:?}");
        assert!(played.took < undisturbed.mul_f64(1.1) + Duration::from_millis(1500), "seed {seed}: {:?}", played.took);
    }
}

#[test]
fn deaths_and_absences_beside_policed_broadcast_delay_no_other_receiver() {
    for seed in 0..30 {
        let mut case = auto(8 * MIB);
        let at = Duration::from_millis(500);
        case.policed = vec![(0, STORM, at)];
        let victim = 1 + seed as usize % RECEIVERS;
        // The first receiver is admitted after 200 ms: from before the switches police until all
        // data goes down the chain.
        case.crashes = vec![(victim, Duration::from_millis(250 + 30 * seed))];
        let loss = (seed % 2) as f64 / 100.0;
        let replay = format!("n{victim} dies, seed {seed}");
        let played = play(&case, &free(&case), seed, RandomFaults::new(seed).loss(loss), &replay);
        for (rank, fate) in (1..).zip(&played.fates) {
            assert!(rank == victim || *fate == Outcome::Delivered, "{replay}: {:?} {:?}", played.fates, played.words);
        }
    }
}

#[test]
fn a_port_that_begins_to_police_costs_its_host_alone() {
    let mut case = auto(16 * MIB);
    let undisturbed = play_clean(&case, &with_one_behind(RECEIVERS + 1), 1, "undisturbed").took;
    case.policed = vec![(1, STORM, Duration::from_millis(600))];
    let played = play_clean(&case, &with_one_behind(RECEIVERS + 1), 1, "one port");
    assert_eq!((played.view.via, played.aside()), (Via::Cast, vec![RECEIVERS]));
    let others = played.each_took[..RECEIVERS - 1].iter().max().expect("there are others");
    println!("others {others:?}, n{RECEIVERS} {:?} of {undisturbed:?}", played.each_took[RECEIVERS - 1]);
    assert!(*others < undisturbed + Duration::from_millis(1500), "{others:?}");
}

#[test]
fn a_receiver_with_odd_reports_does_not_reroute_a_session() {
    // One receiver that loses every second frame of any sender may be demoted.
    let case = auto(8 * MIB);
    let faults = RandomFaults::new(1).loss_at(3, 0.5);
    let odd = play(&case, &free(&case), 1, faults, "one loses half");
    assert!(odd.fates.iter().all(|&fate| fate == Outcome::Delivered), "{:?}", odd.words);
    assert_eq!((odd.view.via, rerouted_at(&odd)), (Via::Cast, None), "{:?}", odd.told);
    // All begin to lose as much as bad cables do: repairs are cheaper than a reroute.
    let mut random = Random::new(1);
    let faults = |delivery: &Delivery<'_>| {
        let lost = delivery.at > Instant::START + Duration::from_millis(450) && random.unit() < 0.03;
        if lost { Fate::Drop } else { Fate::Deliver }
    };
    let lossy = play(&case, &free(&case), 1, faults, "three in a hundred are lost");
    assert!(lossy.fates.iter().all(|&fate| fate == Outcome::Delivered), "{:?}", lossy.words);
    assert_eq!((lossy.view.via, rerouted_at(&lossy)), (Via::Cast, None), "{:?}", lossy.told);
    // A disk that is slow for all kinds of plans is no policer.
    let slow = Case { slow: Some((2, 2_000_000)), ..auto(4 * MIB) };
    let slow = play_clean(&slow, &free(&slow), 1, "a slow disk");
    assert_eq!((slow.view.via, rerouted_at(&slow)), (Via::Cast, None));
}
