//! Simulated tests of transfers with keys in which a receiver is malicious: it relays false data,
//! but cannot sign.

use ethbcast_collectives::ErrorKind;
use ethbcast_collectives::keys::{ContentCipher, SessionName, Signer};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::verified::{Checked, ChunkSize, Encoder, SPAN_BYTES, SpanBuffer, VerifiedSource};
use ethbcast_collectives::session::{Damage, Outcome, ReceiveReport};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, Disk, Sent, data, hosts_of, keys, root_keys, sent, star};
use ethbcast_transport::sim::{NoFaults, Simulation};
use ethbcast_transport::wire::{EtherType, Flags, Guard, Identity, Kind};
use ethbcast_transport::{Instant, MacAddr, Machine, forward};
use std::time::Duration;

const RECEIVERS: usize = 4;
/// The member that lies.
const LIAR: usize = 2;

/// Change that a member makes to the frames that it passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// A content of its own, with hash lists that it has made with the group's secret.
    Content,
    /// Chunks of its own behind the sender's hash lists.
    Chunks,
    /// Each span in the place of the next.
    Order,
    /// An end of its own.
    End,
}

struct Liar {
    lie: Lie,
    guard: Guard,
    heard: Vec<u8>,
    forged: Vec<u8>,
}

impl Liar {
    fn new(case: &Case, seed: u64, lie: Lie) -> Liar {
        let root = root_keys(keys(1), seed);
        let member = ContentCipher::new(&root.group, root.hash);
        let member = member.sent_by(Signer::new(&root.group).public(), SessionName([0; 32]));
        let chunk = ChunkSize::DEFAULT.signed(true);
        let (mut encoder, mut forged) = (Encoder::new(chunk).ciphered(member), Vec::new());
        for part in data(case.bytes, !seed).chunks(SPAN_BYTES) {
            let mut span = SpanBuffer::empty(chunk, SpanBuffer::default());
            span.room()[..part.len()].copy_from_slice(part);
            span.filled(part.len());
            encoder.seal(&mut span);
            forged.extend_from_slice(span.as_bytes());
        }
        Liar { lie, guard: root.group.guard(root.hash), heard: Vec::new(), forged }
    }

    /// Changes the payload of a frame that begins at byte `at` of the stream.
    fn change(&mut self, at: usize, is_last: bool, payload: &mut [u8]) {
        let whole = ChunkSize::DEFAULT.signed(true).whole_bytes();
        if is_last {
            if self.lie == Lie::End {
                payload.iter_mut().for_each(|byte| *byte ^= 1);
            }
            return;
        }
        if self.heard.len() == at {
            self.heard.extend_from_slice(payload);
        }
        for (at, byte) in (at..).zip(payload) {
            let is_in_hash_list = at % whole < whole - SPAN_BYTES;
            match self.lie {
                Lie::Content => *byte = self.forged[at],
                Lie::Chunks if !is_in_hash_list => *byte = self.forged[at],
                Lie::Order if at >= whole => *byte = self.heard[at - whole],
                _ => {}
            }
        }
    }
}

struct Host {
    honest: Participant<VerifiedSource<Sent>, Checked<Disk>>,
    liar: Option<Liar>,
    payload_bytes: usize,
}

impl Machine for Host {
    forward!(self => self.honest; handle_frame, handle_timeout, poll_timeout, is_urgent);

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let length = self.honest.poll_transmit(now, buffer)?;
        let Some(liar) = &mut self.liar else { return Some(length) };
        let copy = buffer[..length].to_vec();
        let Ok(frame) = liar.guard.parse(&copy) else { return Some(length) };
        if frame.header.kind != Kind::DATA {
            return Some(length);
        }
        let (header, mut payload) = (frame.header, frame.payload.to_vec());
        let at = header.sequence as usize * self.payload_bytes;
        liar.change(at, header.flags.has(Flags::LAST), &mut payload);
        let destination = MacAddr::from(*copy.first_chunk::<6>().expect("a frame has addresses"));
        let (session, stream, rank, guard) = (header.session, header.stream, header.rank, liar.guard.clone());
        let (mac, ether_type) = (frame.source, EtherType::DEFAULT);
        let identity = Identity { session, stream, rank, mac, ether_type, guard };
        Some(identity.write(buffer, destination, &header, &payload))
    }
}

struct InsiderPlay {
    fates: Vec<(Outcome, String)>,
    damages: Vec<Damage>,
    /// Bytes that each receiver's program has seen.
    shown: Vec<usize>,
    /// Kind of each receiver's failure.
    failures: Vec<Option<ErrorKind>>,
}

/// Plays a session by a chain, and checks that no receiver shows a byte that the root has not sent.
fn play(lie: Lie, pipe: bool, keeps: bool) -> InsiderPlay {
    let case = Case { mtu_bytes: 1500, pipe, ..Case::new(Via::Chain, RECEIVERS, 2_500_000) }.with_feed(256).keyed();
    let (seed, content) = (5, data(case.bytes, 5));
    let source = VerifiedSource::of(sent(&case, seed));
    let source = if keeps { source } else { source.forgetting() };
    let sinks = |_| Checked::checking(Disk::default().keeping(keeps));
    let hosts = hosts_of(&case, seed, source, sinks).into_iter().enumerate().map(|(host, honest)| {
        let liar = (host == LIAR).then(|| Liar::new(&case, seed, lie));
        Host { honest, liar, payload_bytes: 1460 }
    });
    let mut simulation = Simulation::new(&star(&case, 1_000_000_000), hosts.collect(), NoFaults);
    let limit = Instant::START + Duration::from_secs(120);
    let end = simulation.run(limit, |_, host, now| Participant::turn(&mut host.honest, now));
    assert!(end.is_quiet(), "{lie:?}: {end:?}");
    let hosts = simulation.machines();
    let Participant::Root(root, _) = &hosts[0].honest else { unreachable!("host 0 is the root") };
    let (mut shown, mut failures) = (Vec::new(), Vec::new());
    for host in &hosts[1..] {
        let Participant::Receiver(receiver, receiving) = &host.honest else { unreachable!("the others receive") };
        let report = ReceiveReport::new("receiver", receiver, receiving);
        failures.push(report.check().err().map(|error| error.kind()));
        let disk = receiving.sink().content();
        assert!(content.starts_with(disk.bytes()), "{lie:?}: a receiver shows what the root has not sent");
        assert!(!disk.is_published() || disk.bytes() == content, "{lie:?}: a receiver publishes a part");
        shown.push(disk.bytes().len());
    }
    let fates = root.reports().map(|report| (report.outcome, report.text.clone())).collect();
    InsiderPlay { fates, damages: root.damages(), shown, failures }
}

#[test]
fn a_relay_that_lies_is_named_and_the_root_gives_each_what_it_has_signed() {
    for lie in [Lie::Content, Lie::Chunks, Lie::Order] {
        let InsiderPlay { fates, damages, .. } = play(lie, false, true);
        assert!(fates.iter().all(|(fate, _)| *fate == Outcome::Delivered), "{lie:?}: {fates:?}");
        assert!(!damages.is_empty());
        let liar = format!("n{LIAR}");
        assert!(damages.iter().all(|damage| damage.from.as_ref() == Some(&liar)), "{lie:?}: {damages:?}");
        assert_eq!(damages.iter().any(|damage| damage.is_hash_list), lie != Lie::Chunks, "{lie:?}: {damages:?}");
    }
}

#[test]
fn who_gets_only_lies_fails_and_shows_nothing_of_them() {
    for lie in [Lie::Content, Lie::Chunks, Lie::Order, Lie::End] {
        let InsiderPlay { fates, damages, shown, failures } = play(lie, true, false);
        for (host, (fate, text)) in (1..).zip(&fates) {
            let expected = if host <= LIAR { Outcome::Delivered } else { Outcome::Damaged };
            assert_eq!(*fate, expected, "{lie:?}: n{host} {text}");
        }
        // Exit code 5.
        let integrity = [Some(ErrorKind::Integrity); RECEIVERS - LIAR];
        assert_eq!((&failures[..LIAR], &failures[LIAR..]), (&[None; LIAR][..], &integrity[..]), "{lie:?}");
        let liar = format!("n{LIAR}");
        assert!(damages.iter().all(|damage| damage.from.as_ref() == Some(&liar)), "{lie:?}: {damages:?}");
        assert_eq!(damages.is_empty(), lie == Lie::End, "{lie:?}: {damages:?}");
        let whole = match lie {
            Lie::Content | Lie::Chunks => 0,
            Lie::Order => SPAN_BYTES,
            Lie::End => 2_500_000,
        };
        assert_eq!(shown[LIAR..], [whole; RECEIVERS - LIAR], "{lie:?}");
    }
}
