//! Test helper: a simulated transfer to four receivers, stopped at any time to forge a frame.

use ethbcast_collectives::session::application::{
    Collected, MemoryContent, Participant, Sink, SinkState,
};
use ethbcast_collectives::session::{
    Arrival, Done, End, MemberRole, Outcome, Receiver, Root, Timing, Trailer, View,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, GROUP, data, hosts_of, nonce, session, star};
use ethbcast_transport::sim::{NoFaults, Simulation, host_mac};
use ethbcast_transport::wire::{Kind, OVERHEAD_BYTES, Rank, group_mac};
use ethbcast_transport::{Instant, MacAddr};
use std::time::Duration;

pub const MEMBERS: usize = 4;
pub const BYTES: usize = 150_000;
const SEED: u64 = 77;
const RATE_BITS_PER_SECOND: u64 = 1_000_000_000;
/// Time to check the bytes, and again to publish them.
const DISK_TIME: Duration = Duration::from_millis(4);
/// Patience of the root. Without faults all is over after 0.3 s.
const PATIENCE: Duration = Duration::from_secs(3);
const STALL: Duration = Duration::from_secs(2);
const BOUND: Duration = Duration::from_secs(14);
/// Time for which a receiver that was not admitted goes on listening.
const LISTENS: Duration = Duration::from_secs(40);
const MAX_CONTROL_FRAMES: u64 = 6000;
const MAX_STREAM_FRAMES: u64 = 20_000;

#[derive(Debug, Default)]
pub struct SlowDisk {
    collected: Collected,
    verdict: Option<Done>,
    ready_at: Option<Instant>,
    published: bool,
}

impl Sink for SlowDisk {
    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        self.collected.take(now, arrival);
        if matches!(arrival, Arrival::End(_)) {
            self.verdict = self.collected.turn(now).verdict;
            self.ready_at = Some(now + DISK_TIME);
        }
    }

    fn publish(&mut self, now: Instant) -> bool {
        assert!(
            !std::mem::replace(&mut self.published, true),
            "once is enough"
        );
        let verdict = self.verdict.take();
        self.verdict = verdict.map(|done| Done {
            outcome: Outcome::Delivered,
            ..done
        });
        self.ready_at = Some(now + DISK_TIME);
        false
    }

    fn turn(&mut self, now: Instant) -> SinkState {
        let is_ready = self.ready_at.take_if(|at| *at <= now).is_some();
        SinkState {
            is_syncing: false,
            verdict: self.verdict.clone().filter(|_| is_ready),
            again_at: self.ready_at,
        }
    }
}

pub type Host = Participant<MemoryContent<Vec<u8>>, SlowDisk>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Joining,
    BeforeData,
    FirstFrames,
    Middle,
    LastFrames,
    Verifying,
    Settled,
}

pub const PHASES: [Phase; 7] = [
    Phase::Joining,
    Phase::BeforeData,
    Phase::FirstFrames,
    Phase::Middle,
    Phase::LastFrames,
    Phase::Verifying,
    Phase::Settled,
];

pub struct Scene {
    simulation: Simulation<Host, NoFaults>,
}

impl Scene {
    pub fn new(via: Via) -> Scene {
        let timing = Timing {
            stall: STALL,
            patience: PATIENCE,
            sync: PATIENCE,
            ..Timing::default()
        };
        let case = Case {
            timing,
            mtu_bytes: 1500,
            ..Case::new(via, MEMBERS, BYTES)
        };
        let hosts = hosts_of(&case, SEED, MemoryContent::new(data(BYTES, SEED)), |_| {
            SlowDisk::default()
        });
        let mut simulation = Simulation::new(&star(&case, RATE_BITS_PER_SECOND), hosts, NoFaults);
        simulation.set_event_limit(3_000_000);
        Scene { simulation }
    }

    pub fn mac(&self, host: usize) -> MacAddr {
        host_mac(host)
    }

    pub fn nonce(&self, host: usize) -> u64 {
        nonce(SEED, host)
    }

    pub fn root(&self) -> &Root {
        if let Participant::Root(root, _) = &self.simulation.machines()[0] {
            root
        } else {
            panic!("host 0 is the root")
        }
    }

    fn receiver(&self, host: usize) -> &Receiver {
        match &self.simulation.machines()[host] {
            Participant::Receiver(receiver, _) => receiver,
            Participant::Root(..) => panic!("host {host} is the root"),
        }
    }

    pub fn view(&self) -> Option<&View> {
        self.root().view()
    }

    pub fn trailer(&self) -> Trailer {
        self.simulation.machines()[0]
            .sending()
            .expect("the root")
            .source()
            .trailer()
    }

    pub fn sent_frames(&self) -> u64 {
        self.root().streams().map_or(0, |streams| streams.frames())
    }

    pub fn run_to(&mut self, phase: Phase, host: usize) -> bool {
        let frames = BYTES.div_ceil(1468) as u64;
        loop {
            let receiver = self.receiver(host);
            let arrived = receiver.streams().map(|streams| streams.frames());
            let disk = self.simulation.machines()[host]
                .receiving()
                .map(|receiving| receiving.sink());
            let is_there = match phase {
                Phase::Joining => receiver.final_frame("").is_some(),
                Phase::BeforeData => arrived.is_some(),
                Phase::FirstFrames => arrived >= Some(3),
                Phase::Middle => arrived >= Some(frames / 2),
                Phase::LastFrames => arrived >= Some(frames - 2),
                Phase::Verifying => disk.is_some_and(|disk| disk.verdict.is_some()),
                Phase::Settled => disk.is_some_and(|disk| disk.published),
            };
            if is_there {
                return true;
            }
            if self.simulation.step(far(), &mut turn).is_some() {
                return false;
            }
        }
    }

    pub fn pause(&mut self, host: usize, lasts: Duration) {
        let now = self.simulation.now();
        self.simulation.pause(host, now);
        self.simulation.resume(host, now + lasts);
    }

    pub fn run_until_demoted(&mut self, host: usize) {
        let rank = self.rank(host).index();
        while self
            .view()
            .is_none_or(|view| view.members[rank].standing != MemberRole::Demoted)
        {
            assert!(
                self.simulation.step(far(), &mut turn).is_none(),
                "n{host} is put aside"
            );
        }
    }

    pub fn inject(&mut self, to: usize, from: Name, kind: Kind, body: &[u8]) {
        self.inject_after(Duration::ZERO, to, from, kind, body);
    }

    pub fn inject_after(
        &mut self,
        after: Duration,
        to: usize,
        from: Name,
        kind: Kind,
        body: &[u8],
    ) {
        let (mac, rank) = match from {
            Name::Host(host) => (host_mac(host), self.rank(host)),
            Name::Group => (group_mac(GROUP), Rank::ROOT),
        };
        let station = ethbcast_collectives::session::Station::new(GROUP, "x", mac, 1500);
        let identity = station.identity(session(SEED), rank);
        let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
        identity.write(&mut frame, host_mac(to), &identity.header(kind), body);
        self.simulation
            .inject(self.simulation.now() + after, to, &frame);
    }

    /// The rank of a host is its number, for names are in this order.
    fn rank(&self, host: usize) -> Rank {
        Rank(host as u16)
    }

    /// Ends the session and checks it; returns which hosts have everything. The root's entry is
    /// whether all have.
    pub fn finish(&mut self, replay: &str) -> Vec<bool> {
        let begun = self.simulation.now();
        let (bound, end) = (begun + BOUND, begun + LISTENS);
        let _ = self.simulation.run(bound, turn_of_closure);
        assert!(
            self.root().is_over(),
            "{replay}: the root is not over; {:?}",
            self.simulation.next_deadline()
        );
        for host in 1..=MEMBERS {
            let receiver = self.receiver(host);
            let never_was = receiver.view().is_none();
            assert!(
                never_was || receiver.is_over(),
                "{replay}: n{host} is not over"
            );
        }
        let outcome = self.simulation.run(end, turn_of_closure);
        assert!(
            outcome.is_quiet(),
            "{replay}: {outcome:?}, {:?}",
            self.simulation.next_deadline()
        );
        self.check(replay)
    }

    fn check(&self, replay: &str) -> Vec<bool> {
        let hosts = self.simulation.machines();
        let sent = hosts[0].sending().expect("the root").source().bytes();
        let is = |rank: Rank, host: usize| {
            self.view()
                .is_some_and(|view| view.members[rank.index()].mac == self.mac(host))
        };
        let fate = |host: usize| self.root().reports().find(|report| is(report.rank, host));
        let mut has = vec![true];
        for (host, machine) in hosts.iter().enumerate().skip(1) {
            let receiving = machine.receiving().expect("a receiver");
            let published = receiving.sink().published;
            let same = receiving.sink().collected.bytes() == sent;
            assert!(
                !published || same,
                "{replay}: n{host} has published what the root has not sent"
            );
            let claims = matches!(receiving.end(), Some(End::Confirmed | End::Unconfirmed));
            assert!(
                !claims || published,
                "{replay}: n{host} ends as {:?} and has published nothing",
                receiving.end()
            );
            let counted = fate(host).is_some_and(|report| report.outcome == Outcome::Delivered);
            assert!(
                !counted || published,
                "{replay}: the root counts n{host}, which has published nothing"
            );
            has.push(published && counted);
        }
        has[0] = has.iter().all(|&has| has);
        self.check_bounds(replay);
        has
    }

    fn check_bounds(&self, replay: &str) {
        let hosts = self.simulation.machines();
        let control: u64 = hosts.iter().map(|host| host.control_stats().sent).sum();
        assert!(
            control < MAX_CONTROL_FRAMES,
            "{replay}: {control} control frames"
        );
        let sent: u64 = self
            .simulation
            .stats()
            .hosts
            .iter()
            .map(|host| host.sent_frames)
            .sum();
        assert!(sent < MAX_STREAM_FRAMES, "{replay}: {sent} frames");
    }

    pub fn story(&self) -> String {
        let reports: Vec<String> = self
            .root()
            .reports()
            .map(|report| format!("{} {:?} {}", report.host, report.outcome, report.text))
            .collect();
        let ends: Vec<_> = self
            .simulation
            .machines()
            .iter()
            .filter_map(Host::receiving)
            .map(|receiving| receiving.end())
            .collect();
        format!("{reports:?} {:?} {ends:?}", self.root().failure())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Host(usize),
    Group,
}

fn far() -> Instant {
    Instant::START + Duration::from_secs(120)
}

fn turn(_: usize, host: &mut Host, now: Instant) -> Option<Instant> {
    host.turn(now)
}

fn turn_of_closure(number: usize, host: &mut Host, now: Instant) -> Option<Instant> {
    turn(number, host, now)
}
