//! One control frame with hostile values from the right address: each kind, in each phase, to each
//! kind of member.
//!
//! There are no keys yet. One frame with all values right can end the session for its recipients
//! (ABORT, and VERDICT that says it is over), or one member's part (VIEW in which it is gone,
//! LEAVE, and JOIN in its name before its own). With any other values everybody has everything.

use super::forgery::{self, Forged, Harm};
use super::scene::{MEMBERS, Name, PHASES, Phase, Scene};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_transport::sim::Random;
use std::sync::atomic::{AtomicU64, Ordering};

const RUNS: [u64; 2] = [4_000, 8_000];
const WAYS: [Via; 4] = [Via::Chain, Via::Cast, Via::Binary, Via::ScatterAllgather];

/// Recipient and forged sender: the root from its first child, from the last, and from itself; a
/// relay and the last member from the root, from another member, and from the group.
const PLACES: [(usize, Name); 7] = [
    (0, Name::Host(1)),
    (0, Name::Host(MEMBERS)),
    (0, Name::Host(0)),
    (2, Name::Host(0)),
    (MEMBERS, Name::Host(0)),
    (2, Name::Host(1)),
    (MEMBERS, Name::Group),
];

fn play(seed: u64) {
    let (ways, phases, places) = (WAYS.len() as u64, PHASES.len() as u64, PLACES.len() as u64);
    let via = WAYS[(seed % ways) as usize];
    let phase = PHASES[(seed / ways % phases) as usize];
    let (to, name) = PLACES[(seed / (ways * phases) % places) as usize];
    let round = seed / (ways * phases * places);
    let mut scene = Scene::new(via);
    let watched = if to == 0 { MEMBERS } else { to };
    assert!(scene.run_to(phase, watched), "{via}: there is no {phase:?}");
    let from = if let Name::Host(from) = name { from } else { 0 };
    let all = forgery::all(&scene, to, from);
    // Some kinds have hundreds of forgeries, others three: each kind has its turn.
    let family = &all[(round % all.len() as u64) as usize];
    let forged = &family[Random::new(seed).below(family.len() as u64) as usize];
    let replay = format!(
        "replay with ETHBCAST_SEED={seed} cargo test -p ethbcast-tests --test simulation hostile_sessions::values \
         ({via}, {phase:?}, to n{to} in the name of {name:?}: {})",
        forged.what
    );
    scene.inject(to, name, forged.kind, &forged.body);
    let has = scene.finish(&replay);
    judge(&scene, forged, (to, name, phase), &has, &replay);
}

fn judge(scene: &Scene, forged: &Forged, (to, name, phase): (usize, Name, Phase), has: &[bool], replay: &str) {
    let from = if let Name::Host(from) = name { from } else { usize::MAX };
    // The root's messages have no effect in another name, and those of members only at the root.
    let heard = forgery::is_for(forged.kind, to, from, phase);
    let harm = if heard { forged.harm } else { Harm::Nothing };
    let concerned = if to == 0 { from } else { to };
    match harm {
        Harm::Nothing => assert!(has[0], "{replay}: {has:?} {}", scene.story()),
        Harm::OneMember => {
            let others = (1..=MEMBERS).filter(|&host| host != concerned).all(|host| has[host]);
            assert!(others, "{replay}: {has:?} {}", scene.story());
        }
        Harm::Session => {}
    }
}

#[test]
fn one_frame_with_hostile_values_ends_no_more_than_is_said_here() {
    if let Ok(seed) = std::env::var("ETHBCAST_SEED") {
        play(seed.parse().expect("ETHBCAST_SEED is a number"));
        return;
    }
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= in_full(RUNS[0], RUNS[1]) {
                        return;
                    }
                    play(seed);
                }
            });
        }
    });
}
