//! Test helper: forged control frames with correct addresses and harmful values.

use super::scene::{BYTES, MEMBERS, Phase, Scene};
use Harm::{Nothing, OneMember};
use ethbcast_collectives::measure::kind::{ECHO, PROBE, REPORT};
use ethbcast_collectives::session::kind::{ABORT, LEAVE, VERDICT, VIEW};
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{
    Behind, ContentKind, Done, LinkShare, MemberRole, MemberState, Message, Outcome, Refusal,
    Stage, Status, Taken, Trailer, Verdict, View, ViewMember, ViewPart,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::first_view;
use ethbcast_transport::MacAddr;
use ethbcast_transport::stream::LostRange;
use ethbcast_transport::wire::{Kind, Rank, StreamId};

/// Greatest harm of one frame. These sessions have no keys: a frame with all values right is
/// believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    Nothing,
    /// The recipient, or the forged sender, is out of the session.
    OneMember,
    /// The session is over for every recipient.
    Session,
}

#[derive(Clone, Debug)]
pub struct Forged {
    pub what: String,
    pub kind: Kind,
    pub body: Vec<u8>,
    pub harm: Harm,
}

pub fn forged(message: &Message, harm: Harm) -> Forged {
    let (kind, body) = message.encode();
    let what = format!("{message:?}");
    let what = what.chars().take(300).collect();
    Forged {
        what,
        kind,
        body,
        harm,
    }
}

fn views(scene: &Scene, to: usize) -> Vec<(Harm, View)> {
    let Some(view) = scene.view() else {
        return first_views(scene, to);
    };
    let later = |steps: u32| View {
        epoch: view.epoch.wrapping_add(steps),
        ..view.clone()
    };
    let standing = |rank: usize, standing: MemberRole| {
        let mut changed = later(1);
        changed.members[rank].standing = standing;
        changed
    };
    let other = if to == 1 { 3 } else { to - 1 };
    let mut views: Vec<_> = [
        0,
        1,
        2,
        60,
        64 + 4 * 5,
        100_000,
        u32::MAX - view.epoch,
        u32::MAX,
    ]
    .map(later)
    .into();
    views.push(standing(other, MemberRole::Gone));
    views.push(standing(other, MemberRole::Demoted));
    views.push(standing(to, MemberRole::Demoted));
    let mut alone = later(1);
    alone.members[1..]
        .iter_mut()
        .for_each(|member| member.standing = MemberRole::Gone);
    alone.members[to].standing = MemberRole::InPlace;
    views.push(alone);
    views.extend([
        flat(later(1)),
        turned(later(1)),
        turned(standing(other, MemberRole::Gone)),
    ]);
    let mut fewer = later(1);
    fewer.members.truncate(2);
    views.push(fewer);
    let mut more = later(1);
    let ghost = ViewMember {
        mac: MacAddr::new(2, 9, 9, 9, 9, 9),
        nonce: 9,
        ..more.members[1].clone()
    };
    more.members.push(ViewMember {
        standing: MemberRole::Demoted,
        ..ghost
    });
    views.push(more);
    let mut moved = later(1);
    moved.members[0].mac = MacAddr::new(2, 9, 9, 9, 9, 9);
    views.push(moved);
    let mut renamed = later(1);
    renamed.members[to].nonce ^= 1;
    views.push(renamed);
    let terms = [Via::Chain, Via::Cast, Via::ScatterAllgather].map(|via| View { via, ..later(1) });
    views.extend(terms);
    views.extend([0, 1, 63, 65_535].map(|payload_bytes| View {
        payload_bytes,
        ..later(1)
    }));
    views.extend([0, u32::MAX].map(|segment_frames| View {
        segment_frames,
        ..later(1)
    }));
    views.extend([None, Some(0), Some(u64::MAX - 1)].map(|size| View { size, ..later(1) }));
    views.push(View {
        content: ContentKind::Tree,
        ..later(1)
    });
    views.push(View {
        chunk: ChunkSize::SHORTEST,
        ..later(1)
    });
    views.push(View {
        selective: !view.selective,
        segment_frames: 1,
        ..later(1)
    });
    let mut views: Vec<_> = views.into_iter().map(|view| (Nothing, view)).collect();
    views.push((OneMember, standing(to, MemberRole::Gone)));
    views
}

fn flat(mut view: View) -> View {
    for (order, member) in (0..).zip(&mut view.members[1..]) {
        (member.parent, member.order) = (Some(Rank::ROOT), order);
    }
    view
}

fn turned(mut view: View) -> View {
    let last = view.members.len() - 1;
    for (rank, member) in (1..).zip(&mut view.members[1..]) {
        member.parent = Some(if rank == last {
            Rank::ROOT
        } else {
            Rank(rank as u16 + 1)
        });
    }
    view
}

/// First views before there is one: a host that receives one becomes a member of another session.
fn first_views(scene: &Scene, to: usize) -> Vec<(Harm, View)> {
    let nonce = |rank: usize| if rank == 0 { 0 } else { scene.nonce(rank) };
    let view = first_view(
        (0..=MEMBERS).map(|rank| (scene.mac(rank), nonce(rank))),
        BYTES as u64,
    );
    let mut views = vec![
        (Nothing, view.clone()),
        (
            Nothing,
            View {
                epoch: u32::MAX,
                ..view.clone()
            },
        ),
    ];
    views.push((
        Nothing,
        View {
            via: Via::ScatterAllgather,
            segment_frames: u32::MAX,
            ..view.clone()
        },
    ));
    views.push((
        Nothing,
        View {
            size: Some(u64::MAX - 1),
            ..view.clone()
        },
    ));
    views.push((
        Nothing,
        View {
            selective: true,
            ..view.clone()
        },
    ));
    views.push((
        Nothing,
        View {
            selective: true,
            size: Some(u64::MAX - 1),
            ..view.clone()
        },
    ));
    let mut demoted = view.clone();
    demoted.members[to].standing = MemberRole::Demoted;
    views.push((Nothing, demoted));
    let mut gone = view.clone();
    gone.members[to].standing = MemberRole::Gone;
    views.push((Nothing, gone));
    views.extend([0, 63, 1469, 65_535].map(|payload_bytes| {
        (
            Nothing,
            View {
                payload_bytes,
                ..view.clone()
            },
        )
    }));
    let mut non_member = view;
    non_member.members[to].nonce ^= 1;
    views.push((Nothing, non_member));
    views
}

fn parts_of(scene: &Scene) -> Vec<ViewPart> {
    let digest = scene.view().map_or([7; 32], View::digest);
    let epoch = scene.view().map_or(1, |view| view.epoch);
    let part = |epoch, digest, at, count, bytes: &[u8]| ViewPart {
        epoch,
        digest,
        at,
        count,
        bytes: bytes.to_vec(),
    };
    vec![
        part(epoch + 1, [9; 32], 0, u16::MAX, &[1; 64]),
        part(epoch + 1, [9; 32], u16::MAX, u16::MAX, &[]),
        part(epoch + 1, [9; 32], u16::MAX - 1, u16::MAX, &[1; 1000]),
        part(epoch + 1, [9; 32], 3, 0, &[1; 64]),
        part(epoch + 1, *blake3::hash(&[]).as_bytes(), 0, 1, &[]),
        part(
            epoch + 1,
            *blake3::hash(&[0xFF; 900]).as_bytes(),
            0,
            1,
            &[0xFF; 900],
        ),
        part(u32::MAX, digest, 0, 1, &[]),
        part(epoch, digest, 0, 1, &[0; 30]),
    ]
}

fn verdicts(scene: &Scene) -> Vec<Forged> {
    let wrong = Trailer {
        bytes: u64::MAX,
        digest: [9; 32],
    };
    let mut found = Vec::new();
    for over in [false, true] {
        for trailer in [None, Some(scene.trailer()), Some(wrong)] {
            for bits in [vec![], vec![0xFF], vec![0], vec![0xFF; 250]] {
                let harm = if over { Harm::Session } else { Nothing };
                let verdict = Verdict {
                    over,
                    trailer,
                    heard: bits.clone(),
                    accepted: bits,
                };
                found.push(forged(&Message::Verdict(verdict), harm));
            }
        }
    }
    found
}

fn refusals(scene: &Scene, to: usize) -> Vec<Forged> {
    let all = [
        Refusal::SmallMtu,
        Refusal::NoSpace,
        Refusal::Late,
        Refusal::Twin,
        Refusal::NotInTopology,
        Refusal::Path,
        Refusal::NotWanted,
    ];
    let nonces = [scene.nonce(to), 0];
    let refuse = |(why, nonce)| {
        forged(
            &Message::Refuse {
                nonce,
                why,
                text: "go away".to_owned(),
            },
            Nothing,
        )
    };
    all.into_iter()
        .flat_map(|why| nonces.map(|nonce| (why, nonce)))
        .map(refuse)
        .collect()
}

fn announcements() -> Vec<Forged> {
    let stages = [Stage::Gathering, Stage::Started, Stage::LateWelcome];
    let announce = |(stage, group): (Stage, &str)| Message::Announce {
        group: group.to_owned(),
        host: "n0".to_owned(),
        source: "another".to_owned(),
        size: Some(3),
        content: ContentKind::Tree,
        chunk: ChunkSize::default(),
        mtu_bytes: 1500,
        stage,
        age_millis: u32::MAX,
    };
    let groups = [ethbcast_tests::session::GROUP, "x"];
    let all = stages
        .into_iter()
        .flat_map(|stage| groups.map(|group| (stage, group)));
    all.map(|which| forged(&announce(which), Nothing)).collect()
}

const STATES: [MemberState; 8] = [
    MemberState::Alive,
    MemberState::Blocked,
    MemberState::Starved,
    MemberState::Verifying,
    MemberState::WaitsForChild,
    MemberState::Syncing,
    MemberState::Settled,
    MemberState::Done,
];

fn statuses(scene: &Scene) -> Vec<Forged> {
    let sent = scene.sent_frames();
    let mut found = Vec::new();
    for state in STATES {
        for (arrived, consumed) in [
            (0, 0),
            (sent, sent),
            (sent + 1, 0),
            (u64::MAX, u64::MAX),
            (0, u64::MAX),
        ] {
            for waits_for in [None, Some(0), Some(1), Some(4), Some(60_000)] {
                let status = Status {
                    state,
                    waits_for: waits_for.map(Rank),
                    arrived,
                    consumed,
                    is_mute: true,
                    link: None,
                };
                found.push(forged(&Message::Status(status), Nothing));
            }
        }
        for [own, others, ip] in [
            [0, 0, 0],
            [0, u32::MAX, u32::MAX],
            [1, u32::MAX, 1],
            [u32::MAX; 3],
        ] {
            for is_sent in [false, true] {
                let link = Some(LinkShare {
                    is_sent,
                    own,
                    others,
                    ip,
                });
                let status = Status {
                    state,
                    waits_for: None,
                    arrived: sent,
                    consumed: sent,
                    is_mute: false,
                    link,
                };
                found.push(forged(&Message::Status(status), Nothing));
            }
        }
    }
    found
}

fn readiness(scene: &Scene) -> Vec<Forged> {
    let digest = scene.view().map_or([0; 32], View::digest);
    let epoch = scene.view().map_or(1, |view| view.epoch);
    let epochs = [0, epoch, epoch + 1, epoch + 60, u32::MAX];
    let which = epochs
        .into_iter()
        .flat_map(|epoch| [(epoch, digest), (epoch, [9; 32])]);
    which
        .flat_map(|(epoch, digest)| {
            [0, u64::MAX].map(|arrived| Message::Ready {
                epoch,
                digest,
                arrived,
            })
        })
        .map(|ready| forged(&ready, Nothing))
        .collect()
}

fn orphans(scene: &Scene) -> Vec<Forged> {
    let sent = scene.sent_frames();
    let gaps = [
        (0, u64::MAX),
        (0, sent),
        (sent.saturating_sub(1), sent),
        (5, 3),
        (u64::MAX - 1, u64::MAX),
        (0, 1),
    ];
    let mut found = Vec::new();
    for stream in [0, 1, 2, 5, 6, 0x4001, u16::MAX] {
        for rank in [0, 1, 2, 3, 4, 60_000] {
            for (from, to) in gaps {
                let gap = LostRange {
                    rank: Rank(rank),
                    from,
                    to,
                };
                found.push(forged(
                    &Message::Orphan {
                        stream: StreamId(stream),
                        gap,
                    },
                    Nothing,
                ));
            }
        }
    }
    found
}

fn reports(scene: &Scene) -> Vec<Forged> {
    let Trailer { bytes, digest } = scene.trailer();
    let right = (bytes, digest);
    let outcomes = [
        Outcome::Delivered,
        Outcome::NoSpace,
        Outcome::WriteFailed,
        Outcome::Damaged,
        Outcome::Interrupted,
        Outcome::Silent,
        Outcome::Lost,
        Outcome::Verified,
        Outcome::Stalled,
        Outcome::Died,
    ];
    let claims = [(bytes, digest), (bytes, [9; 32]), (u64::MAX, digest)];
    let all = outcomes
        .into_iter()
        .flat_map(|outcome| claims.map(|(bytes, digest)| (outcome, bytes, digest)));
    all.map(move |(outcome, bytes, digest)| {
        // The root decides about success, and believes a failure.
        let is_success = matches!(outcome, Outcome::Delivered | Outcome::Verified);
        let harm = if is_success && (bytes, digest) == right {
            Nothing
        } else {
            OneMember
        };
        let done = Done {
            outcome,
            bytes,
            digest,
            text: "made up".to_owned(),
        };
        let behind = Behind::new(2, vec![("made up".to_owned(), outcome)], 100);
        forged(&Message::Done(done, Taken::new(9, 3), behind), harm)
    })
    .collect()
}

fn joins(scene: &Scene, of: usize) -> Vec<Forged> {
    let mut found = Vec::new();
    for nonce in [scene.nonce(of), 0, u64::MAX] {
        // Of two runs of a receiver at one address the first is admitted.
        let first = scene.view().is_none() && nonce != scene.nonce(of);
        let harm = if first { OneMember } else { Nothing };
        for (mtu_bytes, free_bytes, features) in [
            (1500, u64::MAX, 0),
            (0, 0, 0),
            (1500, 0, 1 << 31),
            (576, 9, u32::MAX),
        ] {
            let (group, host) = (ethbcast_tests::session::GROUP.to_owned(), "n1".to_owned());
            found.push(forged(
                &Message::Join {
                    nonce,
                    group,
                    host,
                    mtu_bytes,
                    free_bytes,
                    features,
                },
                harm,
            ));
        }
    }
    found
}

fn departures(scene: &Scene, of: usize) -> Vec<Forged> {
    let leave = |nonce, harm| {
        forged(
            &Message::Leave {
                nonce,
                text: "made up".to_owned(),
            },
            harm,
        )
    };
    vec![
        leave(scene.nonce(of), OneMember),
        leave(0, Nothing),
        leave(u64::MAX, Nothing),
    ]
}

fn rubbish() -> Vec<Forged> {
    let bodies: [&[u8]; 5] = [&[], &[0], &[0; 64], &[0xFF; 64], &[0xFF; 1400]];
    let kinds = (16..=25)
        .chain([29, 30, 31, 36, 48, 99])
        .map(Kind)
        .chain([PROBE, ECHO, REPORT]);
    let all = kinds.flat_map(|kind| bodies.map(|body| (kind, body)));
    all.map(|(kind, body)| {
        let what = format!(
            "kind {} with {} bytes of {:?}",
            kind.0,
            body.len(),
            body.first()
        );
        // These kinds need no further body.
        let harm = if [VERDICT, ABORT].contains(&kind) {
            Harm::Session
        } else {
            Nothing
        };
        Forged {
            what,
            kind,
            body: body.to_vec(),
            harm,
        }
    })
    .collect()
}

/// All forgeries to host `to` in the name of host `from` at this moment, in families.
pub fn all(scene: &Scene, to: usize, from: usize) -> Vec<Vec<Forged>> {
    // The member affected: the recipient, or the forged sender.
    let member = if to == 0 { from.max(1) } else { to };
    let view = |(harm, view): (Harm, View)| {
        let part = view.parts(1468).next().expect("a view has a part");
        let what = format!(
            "view {} via {} {:?} {:?}",
            view.epoch,
            view.via,
            view.size,
            standings(&view)
        );
        let (kind, body) = Message::View(part).encode();
        Forged {
            what,
            kind,
            body,
            harm,
        }
    };
    let abort = forged(
        &Message::Abort {
            text: "made up".to_owned(),
        },
        Harm::Session,
    );
    vec![
        views(scene, member).into_iter().map(view).collect(),
        parts_of(scene)
            .into_iter()
            .map(|part| forged(&Message::View(part), Nothing))
            .collect(),
        verdicts(scene),
        refusals(scene, member),
        announcements(),
        vec![abort],
        statuses(scene),
        readiness(scene),
        orphans(scene),
        reports(scene),
        joins(scene, member),
        departures(scene, member),
        super::questions(),
        super::answers(),
        super::words(),
        rubbish(),
    ]
}

fn standings(view: &View) -> Vec<(MemberRole, u64)> {
    view.members
        .iter()
        .map(|member| (member.standing, member.nonce))
        .collect()
}

pub fn is_for(kind: Kind, to: usize, from: usize, phase: Phase) -> bool {
    match kind {
        // A host that is no member yet sends its request again.
        VERDICT | ABORT if phase == Phase::Joining => false,
        VIEW | VERDICT | ABORT => to > 0 && from == 0,
        LEAVE => to == 0 && from > 0,
        _ => true,
    }
}
