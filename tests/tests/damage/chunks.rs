//! A host that damages what it passes on, under right checksums: every receiver finds it, asks again, and ends with the
//! content as it was sent; the host is named.

use ethbcast_collectives::session::application::{Again, Collected, Content, Next, Participant, Sink, Source};
use ethbcast_collectives::session::ledger::{Checked, Form, Ledgered};
use ethbcast_collectives::session::{Done, Outcome, Trailer};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, data, hosts_of, star};
use ethbcast_transport::sim::{Outcome as End, Random, RandomFaults, Simulation};
use ethbcast_transport::wire::{EtherType, EthernetHeader, Flags, Kind, OVERHEAD_BYTES, parse, seal};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine};
use std::time::Duration;

/// A content that can be read again, or not.
#[derive(Clone, Debug)]
struct Sent {
    content: Content<Vec<u8>>,
    pipe: bool,
}

impl Source for Sent {
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        self.content.next(now, consumed)
    }

    fn advance(&mut self, bytes: usize) {
        self.content.advance(bytes);
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        if self.pipe { Again::Impossible("a pipe".to_owned()) } else { self.content.read_again(now, offset, bytes) }
    }
}

/// Keeps all it is given, for others, too.
#[derive(Clone, Debug, Default)]
struct Kept(Collected);

impl Sink for Kept {
    fn write(&mut self, now: Instant, bytes: &[u8], message_end: bool) {
        self.0.write(now, bytes, message_end);
    }

    fn finish(&mut self, now: Instant, trailer: Trailer) {
        self.0.finish(now, trailer);
    }

    fn verdict(&mut self, now: Instant) -> Option<Done> {
        self.0.verdict(now)
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        Again::Bytes(&self.0.bytes()[offset as usize..][..bytes])
    }
}

type Whole = Participant<Ledgered<Sent>, Checked<Kept>>;

/// A host whose memory changes payloads as they come in, of DATA frames of these numbers, and makes the checksum fit.
#[derive(Debug)]
struct Vandal {
    host: Whole,
    damages: Vec<(u64, usize)>,
}

impl Vandal {
    /// The frame with one byte changed, if it is one of those, the first time it comes.
    fn damaged(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let parsed = parse(frame).ok()?;
        let is_content = parsed.header.kind == Kind::DATA && !parsed.header.flags.has(Flags::LAST);
        let at = self.damages.iter().position(|&(number, _)| is_content && number == parsed.header.sequence)?;
        let (_, byte) = self.damages.swap_remove(at);
        let mut copy = frame.to_vec();
        copy[OVERHEAD_BYTES + byte % parsed.payload.len()] ^= 0x40;
        let mac = |at: usize| MacAddr::from(*frame[at..].first_chunk::<6>().expect("a whole frame"));
        let ethernet = EthernetHeader { destination: mac(0), source: mac(6), ether_type: EtherType::DEFAULT };
        seal(&mut copy, ethernet, &parsed.header, parsed.payload.len());
        Some(copy)
    }
}

impl Machine for Vandal {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        match self.damaged(frame) {
            Some(damaged) => self.host.handle_frame(now, &damaged),
            None => self.host.handle_frame(now, frame),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.host.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.host.poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.host.poll_timeout(now)
    }

    fn is_urgent(&self) -> bool {
        self.host.is_urgent()
    }
}

/// A session in which one host damages frames.
struct Scene {
    case: Case,
    vandal: usize,
    /// Frames it damages, and which byte of each.
    damages: Vec<(u64, usize)>,
    pipe: bool,
    loss: f64,
}

/// What came of it: outcome and words by rank, and what was damaged on which hop.
struct Played {
    fates: Vec<(Outcome, String)>,
    hops: Vec<(String, Vec<String>)>,
}

fn play(scene: &Scene, seed: u64) -> Played {
    let Scene { case, vandal, damages, pipe, loss } = scene;
    let content = data(case.bytes, seed);
    let source = Ledgered::new(Sent { content: Content::new(content.clone()), pipe: *pipe });
    let hosts = hosts_of(case, seed, source, |_| Checked::new(Kept::default()));
    let own = |host: usize| if host == *vandal { damages.clone() } else { Vec::new() };
    let hosts = hosts.into_iter().enumerate().map(|(at, host)| Vandal { host, damages: own(at) }).collect();
    let faults = RandomFaults::new(seed).loss(*loss);
    let mut simulation = Simulation::new(&star(case, 1_000_000_000), hosts, faults);
    let end =
        simulation.run(Instant::START + Duration::from_secs(120), |_, vandal: &mut Vandal, now| vandal.host.turn(now));
    assert!(matches!(end, End::Quiet { .. }), "seed {seed}: {end:?}");
    let machines = simulation.machines();
    let Participant::Root(root, _) = &machines[0].host else { unreachable!("host 0 is the root") };
    for receiving in machines.iter().filter_map(|vandal| vandal.host.receiving()) {
        let got = receiving.sink().content().0.bytes();
        let sound = receiving.verdict().is_none_or(|verdict| verdict.outcome != Outcome::Delivered) || got == content;
        assert!(sound && content.starts_with(got), "seed {seed}: {} bytes that were not sent", got.len());
    }
    let fates = root.reports().map(|report| (report.outcome, report.text.clone())).collect();
    let hops = root.damages().into_iter().map(|damage| (damage.from.unwrap_or_default(), damage.to)).collect();
    Played { fates, hops }
}

fn case(via: Via, receivers: usize, bytes: usize) -> Case {
    Case { mtu_bytes: 1500, ..Case::new(via, receivers, bytes).with_feed(256) }
}

fn all_delivered(played: &Played, seed: u64) {
    let delivered = played.fates.iter().all(|(fate, _)| *fate == Outcome::Delivered);
    assert!(delivered, "seed {seed}: {:?}", played.fates);
}

/// Ten frames of the stream, and a byte of each.
fn ten(random: &mut Random, case: &Case) -> Vec<(u64, usize)> {
    let frames = Form::Ledgered.stream_bytes(case.bytes as u64).div_ceil(1468);
    (0..10).map(|_| (random.below(frames), random.below(1468) as usize)).collect()
}

#[test]
fn what_one_host_damages_is_sent_again_to_all_behind_it_and_the_hop_is_named() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let via = [Via::Chain, Via::Cast, Via::Binary][random.below(3) as usize];
        let case = case(via, 5, 1_000_000 + random.below(1_500_000) as usize);
        let damages = ten(&mut random, &case);
        let (vandal, loss) = (1 + random.below(5) as usize, [0.0, 0.01][random.below(2) as usize]);
        let played = play(&Scene { case, vandal, damages, pipe: false, loss }, seed);
        all_delivered(&played, seed);
        let name = format!("n{vandal}");
        assert!(!played.hops.is_empty(), "seed {seed}: nothing was damaged");
        let named = |(from, to): &(String, Vec<String>)| *to == [name.clone()] && *from != name;
        assert!(played.hops.len() <= 10 && played.hops.iter().all(named), "seed {seed}: {name}, {:?}", played.hops);
    }
}

#[test]
fn of_a_pipe_the_bytes_come_from_a_receiver_that_has_kept_them() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let case = case([Via::Chain, Via::Cast][random.below(2) as usize], 4, 2_300_000);
        let damages = ten(&mut random, &case);
        let vandal = 2 + random.below(3) as usize;
        all_delivered(&play(&Scene { case, vandal, damages, pipe: true, loss: 0.0 }, seed), seed);
    }
}

#[test]
fn what_nobody_has_undamaged_fails_by_name_and_nothing_of_it_is_kept() {
    let case = case(Via::Chain, 3, 1_500_000);
    let damages = vec![(800, 7)];
    let played = play(&Scene { case, vandal: 1, damages, pipe: true, loss: 0.0 }, 1);
    for (fate, text) in &played.fates {
        assert_eq!(*fate, Outcome::Damaged, "{text}");
        assert!(text.contains("came damaged, and they cannot be had again"), "{text}");
    }
}
