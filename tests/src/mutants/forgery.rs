//! Forged frames: well formed, from the right address, with impossible values.

use crate::session::Host;
use crate::session::{GROUP, session};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Done, Message, Outcome, Standing, Station, View, ViewPart};
use ethbcast_transport::sim::{Faults, Simulation, host_mac};
use ethbcast_transport::wire::{Flags, HEADER_BYTES, Kind, OVERHEAD_BYTES, Rank, StreamId};
use ethbcast_transport::{Instant, MacAddr};
use std::time::Duration;

/// Kind of forgery. None may keep a host from its bytes.
#[derive(Clone, Copy, Debug)]
pub enum Forgery {
    /// A member acknowledges all frames there are and `ahead` more, with a stamp `future` µs ahead.
    Ack { ahead: u64, future: u32 },
    /// A parent ends the stream with the next frame, which has other bytes.
    Last,
    /// The root sends a view that lacks the last members.
    FewerMembers,
    /// The root tells a member that it has gone, under a digest that is not the view's.
    WrongDigest,
    /// A member reports success with another digest, and then that it has published the bytes.
    WrongReports,
}

#[derive(Clone, Copy)]
struct Way {
    session: u32,
    from: (usize, Rank),
    to: usize,
}

impl Way {
    fn inject<F: Faults>(self, simulation: &mut Simulation<Host, F>, at: Instant, made_up: &MadeUp<'_>) {
        let station = Station::new(GROUP, "x", host_mac(self.from.0), 1500);
        let identity = station.identity(self.session, self.from.1);
        let mut header = identity.header(made_up.kind);
        (header.stream, header.flags) = (made_up.stream, made_up.flags);
        (header.sequence, header.stamp) = (made_up.sequence, made_up.stamp);
        let mut frame = vec![0; OVERHEAD_BYTES + made_up.body.len()];
        identity.write(&mut frame, host_mac(self.to), &header, made_up.body);
        simulation.inject(at, self.to, &frame);
    }
}

struct MadeUp<'a> {
    kind: Kind,
    stream: StreamId,
    flags: Flags,
    sequence: u64,
    stamp: u32,
    body: &'a [u8],
}

impl<'a> MadeUp<'a> {
    fn control(kind: Kind, body: &'a [u8]) -> MadeUp<'a> {
        MadeUp { kind, stream: StreamId(0), flags: Flags::default(), sequence: 0, stamp: 0, body }
    }

    fn of_stream(kind: Kind, flags: Flags, sequence: u64, stamp: u32, body: &'a [u8]) -> MadeUp<'a> {
        MadeUp { kind, stream: StreamId(1), flags, sequence, stamp, body }
    }
}

impl Forgery {
    pub(super) fn inject<F: Faults>(
        self,
        simulation: &mut Simulation<Host, F>,
        seed: u64,
        number: usize,
        now: Instant,
    ) {
        let Participant::Root(root, sending) = &simulation.machines()[0] else { unreachable!("host 0 is the root") };
        let Some(view) = root.view().cloned() else { return };
        let (session, bytes) = (session(seed), sending.trailer().map_or(0, |trailer| trailer.bytes));
        let rank = Rank(1 + (number % (view.members.len() - 1)) as u16);
        let host_of = |rank: Rank| host(view.members[rank.index()].mac, simulation.machines().len());
        let parent = view.members[rank.index()].parent.unwrap_or(Rank::ROOT);
        let (child, above) = (host_of(rank), host_of(parent));
        let frames = |host: usize| simulation.machines()[host].streams().map_or(0, |streams| streams.frames());
        let (here, there) = (frames(above), frames(child));
        let stamp = now.as_micros() as u32;
        let up = Way { session, from: (child, rank), to: above };
        let down = Way { session, from: (above, parent), to: child };
        let to_root = Way { to: 0, ..up };
        let from_root = Way { from: (0, Rank::ROOT), ..down };
        match self {
            Forgery::Ack { ahead, future } => {
                let mut body = [0; 20];
                body[..4].copy_from_slice(&64_u32.to_be_bytes());
                let stamp = stamp.wrapping_add(future);
                let ack = MadeUp::of_stream(Kind::ACK, Flags::default(), here + ahead, stamp, &body);
                up.inject(simulation, now, &ack);
            }
            // A forged last frame is detected only at the end, and cannot be repaired.
            Forgery::Last if there >= bytes / (1500 - HEADER_BYTES as u64) => {}
            Forgery::Last => {
                let last = MadeUp::of_stream(Kind::DATA, Flags::LAST, there, stamp, &[7; 40]);
                down.inject(simulation, now, &last);
            }
            Forgery::FewerMembers => {
                let mut fewer = View { epoch: view.epoch + 1, ..view };
                fewer.members.truncate(rank.index() + 1);
                tell(simulation, now, from_root, fewer.parts(1400));
            }
            Forgery::WrongDigest => {
                let mut gone = View { epoch: view.epoch + 1, ..view };
                gone.members[rank.index()].standing = Standing::Gone;
                let parts: Vec<ViewPart> = gone.parts(1400).map(|part| ViewPart { digest: [9; 32], ..part }).collect();
                tell(simulation, now, from_root, parts.into_iter());
            }
            Forgery::WrongReports => {
                for (step, outcome) in [Outcome::Verified, Outcome::Delivered].into_iter().enumerate() {
                    let done = Done { outcome, bytes, digest: [9; 32], text: String::new() };
                    let (kind, body) = Message::Done(done, None).encode();
                    let at = now + Duration::from_micros(100) * step as u32;
                    to_root.inject(simulation, at, &MadeUp::control(kind, &body));
                }
            }
        }
    }
}

fn tell<F: Faults>(
    simulation: &mut Simulation<Host, F>,
    now: Instant,
    way: Way,
    parts: impl Iterator<Item = ViewPart>,
) {
    for part in parts {
        let (kind, body) = Message::View(part).encode();
        way.inject(simulation, now, &MadeUp::control(kind, &body));
    }
}

fn host(mac: MacAddr, hosts: usize) -> usize {
    (0..hosts).find(|&host| host_mac(host) == mac).expect("every member is a host")
}
