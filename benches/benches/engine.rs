//! Speed of the protocol code on one processor, without a network. `cargo bench -p
//! ethbcast-benches` runs it. Only rates of the same machine are comparable.

use std::hint::black_box;
use std::time::{Duration, Instant as Moment};

use ethbcast_planning::plan::{self, Costs, Via};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::{Cable, HostSettings, Network, RandomFaults, Simulation, host_mac};
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{
    EtherType, Guard, Identity, Kind, PayloadHash, Peer, Rank, StreamId, group_mac, parse,
};
use ethbcast_transport::{Alone, Instant, Tuning};

const PAYLOAD_BYTES: usize = 1468;
const FRAMES: u64 = 4096;
const HOSTS: usize = 1024;
const MIN_TIME: Duration = Duration::from_millis(600);

fn main() {
    println!("{:<58} {:>12}", "what", "rate");
    let (sent, captured) = played(1, &Outlet::Lanes(vec![peer(1)]), 0.0);
    assert_eq!(sent, FRAMES, "every frame once");
    let frame = captured.expect("a data frame was sent");
    say("frames parsed and checked, 1514 bytes", "/s", 1, || {
        _ = black_box(parse(black_box(&frame)))
    });
    for hash in [
        PayloadHash::Polyval,
        PayloadHash::Poly1305,
        PayloadHash::Blake3,
    ] {
        let keyed = Identity {
            guard: Guard::keyed(&[1; 32], &[2; 32], hash),
            ..identity(0)
        };
        let (header, mut frame) = (keyed.header(Kind::DATA), [0x5a; 1514]);
        let length = keyed.write(&mut frame, host_mac(1), &header, &[0x5a; 1460]);
        let content = keyed.guard.parse(&frame).expect("it is sealed").content;
        let what = format!("frames parsed and proven by {hash:?}, {length} bytes");
        say(&what, "/s", 1, || {
            _ = black_box(keyed.guard.parse(black_box(&frame)))
        });
        let again =
            |frame: &mut [u8]| keyed.seal_around(frame, host_mac(2), &header, 1460, content);
        say(&format!("such frames passed on, {hash:?}"), "/s", 1, || {
            _ = black_box(again(black_box(&mut frame)))
        });
    }
    let cast = |receivers: usize| Outlet::Cast {
        group: group_mac("bench"),
        listeners: (1..=receivers).map(peer).collect(),
    };
    for (receivers, loss) in [(1, 0.0), (31, 0.0), (31, 0.01)] {
        let what = format!(
            "frames of a cast to {receivers}, {} % lost, both ends",
            loss * 100.0
        );
        say(&what, "/s", FRAMES, || {
            _ = black_box(played(receivers, &cast(receivers), loss))
        });
    }
    let switches = (0..HOSTS / 16).map(|switch| {
        let link = if switch > 0 {
            format!("links = ['s{}']\n", (switch - 1) / 2)
        } else {
            String::new()
        };
        format!(
            "[[switch]]\nname = 's{switch}'\nhosts = 'n[{}-{}]'\n{link}",
            switch * 16,
            switch * 16 + 15
        )
    });
    let text = format!("schema = 1\n{}", switches.collect::<String>());
    let topology = Topology::parse(&text, "a tree of switches").expect("it is a tree");
    let all: Vec<usize> = (0..HOSTS).collect();
    for via in [Via::Chain, Via::Binary] {
        let plan = || plan::make(via, &topology, 0, &all, &Costs::default()).expect("a plan");
        say(&format!("plans of {HOSTS} hosts, {via}"), "/s", 1, || {
            _ = black_box(plan())
        });
    }
}

/// Repeats `work`, which does `count` things, and prints their number per second.
fn say(what: &str, unit: &str, count: u64, mut work: impl FnMut()) {
    let (begin, mut turns) = (Moment::now(), 0_u64);
    while begin.elapsed() < MIN_TIME {
        work();
        turns += 1;
    }
    let rate = (turns * count) as f64 / begin.elapsed().as_secs_f64();
    println!("{what:<58} {rate:>12.0}{unit}");
}

fn peer(host: usize) -> Peer {
    Peer {
        rank: Rank(host as u16),
        mac: host_mac(host),
    }
}

fn identity(host: usize) -> Identity {
    let (stream, ether_type, guard) = (StreamId(1), EtherType::DEFAULT, Guard::Plain);
    Identity {
        session: 42,
        stream,
        rank: Rank(host as u16),
        mac: host_mac(host),
        ether_type,
        guard,
    }
}

/// Broadcasts on a simulated switch; returns the data frames that the root sent, and one of them.
fn played(receivers: usize, outlet: &Outlet, loss: f64) -> (u64, Option<Vec<u8>>) {
    let settings = HostSettings {
        groups: vec![group_mac("bench")],
        ..HostSettings::default()
    };
    let network = Network::star(receivers + 1, Cable::GIGABIT, &settings);
    let root = Stream::origin(identity(0), PAYLOAD_BYTES, outlet, Tuning::default());
    let none = Outlet::Lanes(Vec::new());
    let others = (1..=receivers).map(|host| {
        Stream::receiver(
            identity(host),
            PAYLOAD_BYTES,
            peer(0),
            &none,
            Tuning::default(),
        )
    });
    let machines = std::iter::once(root)
        .chain(others)
        .map(Alone::new)
        .collect();
    let mut simulation = Simulation::new(&network, machines, RandomFaults::new(1).loss(loss));
    let (mut pushed, content) = (0, [0x5a; PAYLOAD_BYTES]);
    let outcome = simulation.run(
        Instant::START + Duration::from_secs(60),
        |host, machine, now| {
            let stream = &mut machine.part;
            let ending = |pushed| {
                if pushed + 1 == FRAMES {
                    Ending::Stream
                } else {
                    Ending::None
                }
            };
            while host == 0 && pushed < FRAMES && stream.push(&content, ending(pushed)) {
                pushed += 1;
            }
            while stream.peek().is_some() {
                stream.consume(now);
            }
            None
        },
    );
    assert!(
        outcome.is_quiet(),
        "the simulated broadcast did not end: {outcome:?}"
    );
    let stats = simulation.machines()[0].part.stats();
    (stats.data_sent - stats.data_resent, captured())
}

/// Returns a data frame as a stream makes it.
fn captured() -> Option<Vec<u8>> {
    let mut root = Stream::origin(
        identity(0),
        PAYLOAD_BYTES,
        &Outlet::Lanes(vec![peer(1)]),
        Tuning::default(),
    );
    assert!(
        root.push(&[0x5a; PAYLOAD_BYTES], Ending::Stream),
        "an empty feed has room"
    );
    let mut buffer = vec![0; PAYLOAD_BYTES + 64];
    let bytes = ethbcast_transport::Machine::poll_transmit(
        &mut Alone::new(root),
        Instant::START,
        &mut buffer,
    )?;
    buffer.truncate(bytes);
    Some(buffer)
}
