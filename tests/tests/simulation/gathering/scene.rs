//! Test helper: simulated senders and receivers on one switch, with their events and times. Tests
//! of what those hear who do not take part stand here, too.

use super::{decline_once_asked, within};
use ethbcast_collectives::session::application::{Collected, MemoryContent, Participant};
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{
    ContentKind, End, Message, Receiver, ReceiverConfig, ReceiverEvent, Refusal, Root, RootConfig,
    RootEvent, RootFailure, Stage, Station, Wanted,
};
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, Faults, HostSettings, Network, NoFaults, Simulation, host_mac,
};
use ethbcast_transport::wire::{OVERHEAD_BYTES, Rank, group_mac};
use ethbcast_transport::{Instant, MacAddr, Tuning};
use std::time::Duration;

pub type Host = Participant<MemoryContent<Vec<u8>>, Collected>;

pub struct Scene {
    pub mtu_bytes: u16,
    hosts: Vec<Host>,
    /// Events of roots, with their moments and hosts.
    pub root_events: Vec<(Duration, usize, RootEvent)>,
    pub receiver_events: Vec<(Duration, usize, ReceiverEvent)>,
}

pub fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

impl Scene {
    pub fn new(mtu_bytes: u16) -> Scene {
        Scene {
            mtu_bytes,
            hosts: Vec::new(),
            root_events: Vec::new(),
            receiver_events: Vec::new(),
        }
    }

    pub fn station(&self, host: usize) -> Station {
        Station::new("group", &format!("n{host}"), host_mac(host), self.mtu_bytes)
    }

    /// Adds a root that starts after `begin` milliseconds and sends `bytes` bytes.
    pub fn root(self, begin: u64, bytes: usize, wanted: Wanted) -> Scene {
        self.root_with(begin, bytes, |config| RootConfig { wanted, ..config })
    }

    pub fn root_with(
        mut self,
        begin: u64,
        bytes: usize,
        change: impl Fn(RootConfig) -> RootConfig,
    ) -> Scene {
        let number = self.hosts.len();
        let config = RootConfig::new(
            self.station(number),
            0x1000 + number as u32,
            &format!("file{number}"),
        );
        let tuning = Tuning::default().with_feed_frames(256);
        let config = change(RootConfig {
            size: Some(bytes as u64),
            probe: false,
            tuning,
            ..config
        });
        let root = Root::new(at(begin), config);
        self.hosts.push(Participant::root(
            root,
            MemoryContent::new(vec![number as u8; bytes]),
        ));
        self
    }

    /// Frames of a larger MTU do not leave the last root's interface.
    pub fn with_first_hop(mut self, mtu_bytes: usize) -> Scene {
        if let Some(Participant::Root(root, _)) = self.hosts.last_mut() {
            root.set_first_hop(mtu_bytes);
        }
        self
    }

    pub fn receivers(self, count: usize) -> Scene {
        self.receivers_with(count, |config| config)
    }

    pub fn receivers_with(
        mut self,
        count: usize,
        change: impl Fn(ReceiverConfig) -> ReceiverConfig,
    ) -> Scene {
        for _ in 0..count {
            let number = self.hosts.len();
            let config = ReceiverConfig::new(self.station(number), 77 + number as u64);
            let tuning = Tuning::default().with_feed_frames(256);
            let patience = Some(Duration::from_secs(30));
            let config = change(ReceiverConfig {
                tuning,
                patience,
                ..config
            });
            let receiver = Receiver::new(Instant::START, config);
            self.hosts
                .push(Participant::receiver(receiver, Collected::default()));
        }
        self
    }

    pub fn play<F: Faults>(
        mut self,
        faults: F,
        prepare: impl FnOnce(&mut Simulation<Host, F>),
    ) -> GatheringPlay {
        let groups = vec![group_mac("group")];
        let settings = HostSettings {
            groups,
            nic_receive_frames: 4096,
            ..HostSettings::default()
        };
        let cable = Cable::new(1_000_000_000, Duration::from_micros(5));
        let network =
            Network::star(self.hosts.len(), cable, &settings).with_mtu_bytes(self.mtu_bytes.into());
        let mut simulation = Simulation::new(&network, std::mem::take(&mut self.hosts), faults);
        prepare(&mut simulation);
        let end = simulation.run(at(60_000), |number, host: &mut Host, now| {
            let when = now.since(Instant::START);
            match host {
                Participant::Root(root, sending) => {
                    while let Some(event) = root.poll_event() {
                        sending.handle_event(root, now, &event);
                        self.root_events.push((when, number, event));
                    }
                }
                Participant::Receiver(receiver, receiving) => {
                    while let Some(event) = receiver.poll_event() {
                        self.receiver_events.push((when, number, event.clone()));
                        receiving.handle_event(now, event);
                    }
                }
            }
            host.turn(now)
        });
        assert!(
            end.is_quiet(),
            "{end:?}, next {:?}",
            simulation.next_deadline()
        );
        GatheringPlay {
            hosts: simulation.into_machines(),
            scene: self,
        }
    }
}

pub fn switched_on(host: usize, millis: u64) -> impl Faults {
    move |delivery: &Delivery<'_>| {
        if delivery.to == host && delivery.at < at(millis) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    }
}

pub fn run_until<F: Faults>(simulation: &mut Simulation<Host, F>, millis: u64) {
    let end = simulation.run(at(millis), |_, host, now| host.turn(now));
    assert!(!end.is_quiet(), "something is still to come");
}

pub struct GatheringPlay {
    pub hosts: Vec<Host>,
    pub scene: Scene,
}

impl GatheringPlay {
    pub fn root(&self, host: usize) -> &Root {
        if let Participant::Root(root, _) = &self.hosts[host] {
            root
        } else {
            panic!("host {host} is no root")
        }
    }

    pub fn failure(&self, host: usize) -> String {
        self.root(host)
            .failure()
            .map(RootFailure::to_string)
            .unwrap_or_default()
    }

    pub fn has(&self, host: usize) -> Option<usize> {
        let bytes = self.hosts[host].receiving()?.sink().bytes();
        let first = usize::from(*bytes.first()?);
        let sent = self.hosts[first].sending()?.source().bytes();
        (bytes == sent).then_some(first)
    }

    pub fn told(
        &self,
        host: usize,
        matches: impl Fn(&RootEvent) -> bool,
    ) -> Option<(Duration, &RootEvent)> {
        let mut events = self
            .scene
            .root_events
            .iter()
            .filter(|(_, number, _)| *number == host);
        events
            .find(|(_, _, event)| matches(event))
            .map(|(when, _, event)| (*when, event))
    }

    /// Returns the whole seconds at which such an event happened.
    pub fn all_told(&self, host: usize, matches: impl Fn(&RootEvent) -> bool) -> Vec<u64> {
        let events = self
            .scene
            .root_events
            .iter()
            .filter(|(_, number, event)| *number == host && matches(event));
        events.map(|(when, ..)| when.as_secs()).collect()
    }

    pub fn left_out(&self, host: usize) -> Vec<&str> {
        let events = self
            .scene
            .receiver_events
            .iter()
            .filter(|(_, number, _)| *number == host);
        events
            .filter_map(|(_, _, event)| {
                if let ReceiverEvent::LeftOut { text, .. } = event {
                    Some(text.as_str())
                } else {
                    None
                }
            })
            .collect()
    }
}

pub fn forged(from: MacAddr, to: MacAddr, session: u32, message: &Message) -> Vec<u8> {
    let station = Station::new("group", "ghost", from, 9000);
    let (kind, body) = message.encode();
    let identity = station.identity(session, Rank::NONE);
    let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
    identity.write(&mut frame, to, &identity.header(kind), &body);
    frame
}

pub fn join(host: &str, nonce: u64) -> Message {
    let (group, host) = ("group".to_owned(), host.to_owned());
    Message::Join {
        nonce,
        group,
        host,
        mtu_bytes: 9000,
        free_bytes: u64::MAX,
        features: 0,
    }
}

pub fn announce(host: &str) -> Message {
    let (group, host, source) = ("group".to_owned(), host.to_owned(), "old file".to_owned());
    let (content, chunk, stage) = (ContentKind::Stream, ChunkSize::DEFAULT, Stage::Gathering);
    Message::Announce {
        group,
        host,
        source,
        size: None,
        content,
        chunk,
        mtu_bytes: 1500,
        stage,
        age_millis: 99_999,
    }
}

/// Regression: of three hosts, of which one would do, it said "0 of 1 receivers joined", and to ask
/// for fewer.
#[test]
fn a_root_to_which_nobody_came_says_how_many_were_wanted_and_not_how_few_would_do() {
    let wanted = Wanted {
        at_least: 1,
        enough: Some(3),
        patience: within(3),
    };
    let hosts = ["n1", "n2", "n3"].map(str::to_owned).to_vec();
    let scene = Scene::new(1500)
        .root_with(0, 1000, |config| RootConfig {
            wanted,
            hosts: hosts.clone(),
            ..config
        })
        .receivers(1);
    let played = scene.play(NoFaults, |simulation| decline_once_asked(simulation, 1));
    let text = "0 of 3 receivers joined within 3 s (not n[2-3]; refused n1 (02:eb:00:00:00:01): cannot hold it; n1 \
                says: DEST exists); start `ethbcast recv` on the missing hosts";
    assert_eq!(played.failure(0), text);
}

/// Regression: who had asked when the others were enough heard nothing, waited for the start for
/// half a minute, and ended as if no sender had been heard.
#[test]
fn who_asked_when_enough_had_joined_hears_why_it_did_not() {
    let wanted = Wanted {
        patience: within(5),
        ..Wanted::exactly(1)
    };
    let end = |played: &GatheringPlay, host: usize| {
        played.hosts[host]
            .receiving()
            .and_then(|one| one.end().cloned())
    };
    for (hosts, expected) in [(&[][..], Refusal::Late), (&["pc"], Refusal::Twin)] {
        let hosts: Vec<String> = hosts.iter().map(|host: &&str| (*host).to_owned()).collect();
        let config = |config| RootConfig {
            wanted,
            hosts: hosts.clone(),
            ..config
        };
        let scene = Scene::new(1500).root_with(0, 1000, config);
        let called_pc = |mut config: ReceiverConfig| {
            config.station.host = "pc".to_owned();
            ReceiverConfig {
                patience: Some(within(5)),
                ..config
            }
        };
        let played = scene.receivers_with(2, called_pc).play(NoFaults, |_| {});
        let (with, without) = if played.has(1).is_some() {
            (1, 2)
        } else {
            (2, 1)
        };
        assert_eq!(
            (played.has(with), played.has(without)),
            (Some(0), None),
            "{}",
            played.failure(0)
        );
        let Some(End::Refused(why, text)) = end(&played, without) else {
            panic!("{:?}", end(&played, without))
        };
        assert_eq!(why, expected, "{text}");
        let told: Vec<_> = played.root(0).turned_away().map(|away| away.why).collect();
        assert_eq!(told, [expected]);
    }
}

/// Regression: a host that was not among those named, and asked again after the start, counted as
/// one that came too late, and `cp` failed for want of it.
#[test]
fn who_is_not_among_the_named_hosts_is_unwanted_whenever_it_asks() {
    let named = |config| RootConfig {
        wanted: Wanted::exactly(1),
        hosts: vec!["n1".to_owned()],
        ..config
    };
    let played = Scene::new(1500)
        .root_with(0, 10_000_000, named)
        .receivers(1)
        .play(NoFaults, |simulation| {
            for millis in [1, 150, 300, 450, 600] {
                let frame = forged(host_mac(7), host_mac(0), 0x1000, &join("n7", millis));
                simulation.inject(at(millis), 0, &frame);
            }
        });
    assert_eq!(played.has(1), Some(0), "{}", played.failure(0));
    let told: Vec<_> = played
        .root(0)
        .turned_away()
        .map(|away| (&*away.host, away.why))
        .collect();
    assert_eq!(told, [("n7", Refusal::NotWanted)]);
}
