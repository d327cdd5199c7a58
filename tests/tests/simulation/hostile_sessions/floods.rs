//! Floods of one kind of control frame: the session goes on, and its queues are bounded.

use super::scene::{MEMBERS, Name, Phase, Scene};
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{ContentKind, Fetch, FetchedPiece, Message, Refusal, Stage};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::GROUP;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

const TIMES: u64 = 10_000;
/// Interval of the shortest frames at 1 Gbit/s.
const EVERY: Duration = Duration::from_micros(1);

/// Plays a session in which host `to` receives a flood of `message`, each with another number, in
/// `phase`.
fn flood(phase: Phase, to: usize, from: Name, message: impl Fn(u64) -> Message) {
    for via in [Via::Chain, Via::Cast] {
        let mut scene = Scene::new(via);
        assert!(scene.run_to(phase, MEMBERS), "{via}: there is no {phase:?}");
        for number in 0..TIMES {
            let (kind, body) = message(number).encode();
            scene.inject_after(EVERY * number as u32, to, from, kind, &body);
        }
        let replay = format!("{via}, {phase:?}: {TIMES} times {:?} to n{to} in the name of {from:?}", message(0));
        let has = scene.finish(&replay);
        assert!(has[0], "{replay}: {has:?} {}", scene.story());
    }
}

fn announce(number: u64) -> Message {
    Message::Announce {
        group: GROUP.to_owned(),
        host: format!("n{number}"),
        source: "another".to_owned(),
        size: Some(number),
        content: ContentKind::Stream,
        chunk: ChunkSize::default(),
        mtu_bytes: 1500,
        stage: Stage::Gathering,
        age_millis: number as u32,
    }
}

#[test]
fn ten_thousand_words_of_one_kind_disturb_nobody() {
    for phase in [Phase::Joining, Phase::Middle] {
        for (to, from) in [(0, Name::Host(2)), (2, Name::Group), (MEMBERS, Name::Host(1)), (0, Name::Group)] {
            flood(phase, to, from, announce);
            flood(phase, to, from, |nonce| Message::Refuse { nonce, why: Refusal::Late, text: "no".to_owned() });
        }
    }
    let join = |nonce| {
        let (group, host) = (GROUP.to_owned(), "n2".to_owned());
        Message::Join { nonce: 1 << 32 | nonce, group, host, mtu_bytes: 1500, free_bytes: 0, features: 0 }
    };
    for from in [Name::Host(2), Name::Group] {
        flood(Phase::Middle, 0, from, join);
    }
    // READYs for views that were never sent: each gets a reply, but not a view.
    let ready = |number| Message::Ready { epoch: 2 + number as u32 % 20, digest: [9; 32], arrived: number };
    flood(Phase::Middle, 0, Name::Host(2), ready);
    // One request of each member waits, and the replies get a fifth of the link.
    for phase in [Phase::FirstFrames, Phase::Middle, Phase::Verifying] {
        let asks = |rank, number: u64| {
            let (bytes, attempt) = (number % 30_000..number % 30_000 + 20_000, 1 + (number % 3) as u8);
            Message::Fetch(Fetch { rank, bytes, attempt, blamed: Rank(1) })
        };
        flood(phase, 0, Name::Host(2), |number| asks(Rank(2), number));
        flood(phase, MEMBERS, Name::Host(0), |number| asks(Rank(2), number));
        let piece = |number| Message::Piece(FetchedPiece { from: number * 1000, end: 1 << 40, bytes: vec![7; 1000] });
        flood(phase, 2, Name::Host(0), piece);
        flood(phase, 0, Name::Host(2), piece);
    }
}
