//! Symbolic model of the messages of docs/keys.md §3 and §4: all that an intruder can derive who
//! hears every message, keeps it for ever and sends any that can be made from what is known (Dolev
//! and Yao, 1983). Hashes, ciphers and signatures have no weakness of their own here.
//!
//! Two sessions of one root and two runs of receivers are explored to the end: until nothing new
//! can be derived, and no host has an answer to give.

use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Term {
    /// A word that everybody knows.
    Word(&'static str),
    /// A secret that a host has drawn, with the host's or the session's number.
    Drawn(&'static str, usize),
    /// The public key of an exchange secret.
    Public(Box<Term>),
    /// The result of an exchange with two secrets, the smaller one first.
    Exchanged(Box<Term>, Box<Term>),
    Hash(Vec<Term>),
    Tuple(Vec<Term>),
    /// A text under a secret: veiled, with a tag.
    Veiled(Box<Term>, Box<Term>),
    Signed(Box<Term>, Box<Term>),
}

use Term::{Drawn, Exchanged, Hash, Public, Signed, Tuple, Veiled, Word};

/// Weakness that the protocol does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weakness {
    /// Receivers believe invitations and views without looking at the signature.
    UnsignedView,
    /// Receivers believe verdicts, hash lists and the end of the stream without looking at the
    /// signature.
    UnsignedVerdict,
    /// The session's name is in no signature.
    NamelessSignature,
    /// The pair's secret is derived without the exchange.
    PairWithoutExchange,
    /// The root answers with the group's secret under the cluster's.
    KeysForAll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intruder {
    /// Has no key.
    Outsider,
    /// Steals the cluster's secret after the sessions that it has heard.
    Thief,
    /// A member with a receivers' key.
    Insider,
}

const SESSIONS: [usize; 2] = [1, 2];
const RUNS: [usize; 2] = [11, 12];
/// The intruder's own secrets.
const OWN: usize = 99;
const WORDS: [&str; 3] = ["verdict", "ledger", "trailer"];

fn cluster() -> Term {
    Drawn("cluster", 0)
}

fn signer() -> Term {
    Drawn("sign", 0)
}

fn public(number: usize) -> Term {
    Public(Box::new(Drawn("exchange", number)))
}

fn exchanged(one: usize, other: usize) -> Term {
    let [one, other] =
        [one.min(other), one.max(other)].map(|number| Box::new(Drawn("exchange", number)));
    Exchanged(one, other)
}

fn nonce(run: usize) -> Term {
    Hash(vec![public(run)])
}

/// The name of a session, from its random bytes and its exchange key.
fn name(session: usize) -> Term {
    Hash(vec![
        Word("session"),
        Drawn("random", session),
        public(session),
    ])
}

fn veiled(secret: Term, text: Term) -> Term {
    Veiled(Box::new(secret), Box::new(text))
}

/// State of the exploration: knowledge of the intruder, and beliefs of the receivers.
#[derive(Debug)]
struct SymbolicState {
    intruder: Intruder,
    weakness: Option<Weakness>,
    known: BTreeSet<Term>,
    /// Sessions whose invitation a run has believed, and secrets of the group that it has taken
    /// there.
    asked: BTreeSet<(usize, usize)>,
    taken: BTreeSet<(usize, usize, usize)>,
    running: BTreeSet<(usize, usize, usize)>,
    /// Contents that a run has believed: run, session, word, and the session that they are of.
    believed: BTreeSet<(usize, usize, &'static str, usize)>,
}

impl SymbolicState {
    fn has(&self, weakness: Weakness) -> bool {
        self.weakness == Some(weakness)
    }

    fn signed(&self, word: &'static str, session: usize, text: Vec<Term>) -> Term {
        let name = if self.has(Weakness::NamelessSignature) {
            Word("nameless")
        } else {
            name(session)
        };
        let text = [vec![Word(word), name], text].concat();
        Signed(Box::new(signer()), Box::new(Tuple(text)))
    }

    fn pair(&self, session: usize, run: usize) -> Term {
        let exchange = if self.has(Weakness::PairWithoutExchange) {
            Word("none")
        } else {
            exchanged(session, run)
        };
        Hash(vec![
            Word("pair"),
            cluster(),
            exchange,
            name(session),
            public(run),
        ])
    }

    fn join(session: usize, run: usize) -> Term {
        veiled(cluster(), Tuple(vec![name(session), public(run)]))
    }

    fn announcement(&self, session: usize) -> Term {
        let facts = vec![Drawn("random", session), public(session)];
        let signature = match self.has(Weakness::UnsignedView) {
            true => Word("unread"),
            false => self.signed("announce", session, facts.clone()),
        };
        veiled(cluster(), Tuple([facts, vec![signature]].concat()))
    }

    fn keys(&self, session: usize, run: usize, group: usize) -> Term {
        let secret = if self.has(Weakness::KeysForAll) {
            cluster()
        } else {
            self.pair(session, run)
        };
        veiled(secret, Drawn("group", group))
    }

    fn view(&self, session: usize, run: usize, group: usize) -> Term {
        let signature = match self.has(Weakness::UnsignedView) {
            true => nonce(run),
            false => self.signed("view", session, vec![nonce(run)]),
        };
        veiled(Drawn("group", group), signature)
    }

    /// A text of a session's content, in the frames of a group.
    fn content(&self, word: &'static str, session: usize, of: usize, group: usize) -> Term {
        let text = Drawn("content", of);
        let signed = match self.has(Weakness::UnsignedVerdict) {
            true => text,
            false => self.signed(word, session, vec![text]),
        };
        veiled(Drawn("group", group), signed)
    }

    fn can_make(&self, term: &Term) -> bool {
        self.known.contains(term)
            || match term {
                Word(_) => true,
                Drawn(_, number) => *number == OWN,
                Public(secret) => self.can_make(secret),
                Exchanged(one, other) => {
                    [(one, other), (other, one)]
                        .into_iter()
                        .any(|(own, theirs)| {
                            self.can_make(own) && self.can_make(&Public(theirs.clone()))
                        })
                }
                Hash(parts) | Tuple(parts) => parts.iter().all(|part| self.can_make(part)),
                Veiled(one, other) | Signed(one, other) => {
                    self.can_make(one) && self.can_make(other)
                }
            }
    }

    /// Adds a message, and all that can be read of those that were not readable before.
    fn hear(&mut self, message: Term) {
        if self.known.insert(message) {
            self.read();
        }
    }

    fn read(&mut self) {
        loop {
            let readable = |term: &Term| match term {
                Tuple(parts) => parts.clone(),
                Veiled(secret, text) if self.can_make(secret) => vec![(**text).clone()],
                Signed(_, text) => vec![(**text).clone()],
                _ => Vec::new(),
            };
            let found: Vec<Term> = self
                .known
                .iter()
                .flat_map(readable)
                .filter(|term| !self.known.contains(term))
                .collect();
            if found.is_empty() {
                return;
            }
            self.known.extend(found);
        }
    }

    /// Whether a message reaches a host: it has been sent, or the intruder makes it. A thief sends
    /// nothing in time.
    fn comes(&self, message: &Term) -> bool {
        self.known.contains(message) || self.intruder != Intruder::Thief && self.can_make(message)
    }

    fn size(&self) -> [usize; 5] {
        [
            self.known.len(),
            self.asked.len(),
            self.taken.len(),
            self.running.len(),
            self.believed.len(),
        ]
    }

    /// Everything that the root and the receivers do once what they wait for can come.
    fn turn(&mut self) {
        for session in SESSIONS {
            self.hear(self.announcement(session));
            for run in RUNS.into_iter().chain([OWN]) {
                if self.comes(&SymbolicState::join(session, run)) {
                    self.hear(self.keys(session, run, session));
                    self.hear(self.view(session, run, session));
                }
            }
            WORDS
                .into_iter()
                .for_each(|word| self.hear(self.content(word, session, session, session)));
        }
        let sessions = || SESSIONS.into_iter().chain([OWN]);
        for run in RUNS {
            for session in sessions() {
                if self.comes(&self.announcement(session)) {
                    self.asked.insert((run, session));
                    self.hear(SymbolicState::join(session, run));
                }
                for group in sessions()
                    .filter(|_| self.asked.contains(&(run, session)))
                    .collect::<Vec<_>>()
                {
                    if self.comes(&self.keys(session, run, group)) {
                        self.taken.insert((run, session, group));
                    }
                }
            }
            for (_, session, group) in self
                .taken
                .clone()
                .into_iter()
                .filter(|taken| taken.0 == run)
            {
                if self.comes(&self.view(session, run, group)) {
                    self.running.insert((run, session, group));
                }
            }
            for (_, session, group) in self
                .running
                .clone()
                .into_iter()
                .filter(|running| running.0 == run)
            {
                for (word, of) in WORDS
                    .into_iter()
                    .flat_map(|word| sessions().map(move |of| (word, of)))
                {
                    if self.comes(&self.content(word, session, of, group)) {
                        self.believed.insert((run, session, word, of));
                    }
                }
            }
        }
    }

    /// Returns the promises that are broken.
    fn broken(&self) -> BTreeSet<&'static str> {
        let mut broken = BTreeSet::new();
        let pairs = || {
            SESSIONS
                .into_iter()
                .flat_map(|session| RUNS.map(|run| self.pair(session, run)))
        };
        let mut holds = |promise, holds: bool| {
            if !holds {
                broken.insert(promise);
            }
        };
        let group = |session| Drawn("group", session);
        let may_read = self.intruder == Intruder::Insider;
        holds(
            "the group's secret",
            may_read
                || !SESSIONS
                    .into_iter()
                    .any(|session| self.can_make(&group(session))),
        );
        holds(
            "the pairs' secrets",
            !pairs().any(|pair| self.can_make(&pair)),
        );
        holds("the sender's right", !self.can_make(&signer()));
        holds(
            "the session",
            self.running
                .iter()
                .all(|&(_, session, group)| session != OWN && group == session),
        );
        holds(
            "the content",
            self.believed
                .iter()
                .all(|&(_, session, _, of)| session == of),
        );
        broken
    }
}

/// Explores all that can come to be, and returns the broken promises.
fn explored(intruder: Intruder, weakness: Option<Weakness>) -> BTreeSet<&'static str> {
    let mut world = SymbolicState {
        intruder,
        weakness,
        known: BTreeSet::new(),
        asked: BTreeSet::new(),
        taken: BTreeSet::new(),
        running: BTreeSet::new(),
        believed: BTreeSet::new(),
    };
    if intruder == Intruder::Insider {
        world.hear(cluster());
    }
    loop {
        let before = world.size();
        world.turn();
        if world.size() == before {
            break;
        }
    }
    let honest = RUNS
        .into_iter()
        .flat_map(|run| SESSIONS.map(|session| (run, session, session)));
    assert!(
        honest
            .into_iter()
            .all(|running| world.running.contains(&running)),
        "the protocol works: {world:?}"
    );
    assert!(RUNS.into_iter().all(|run| {
        WORDS
            .iter()
            .all(|&word| world.believed.contains(&(run, 1, word, 1)))
    }));
    if intruder == Intruder::Thief {
        world.hear(cluster());
    }
    world.broken()
}

#[test]
fn no_intruder_breaks_a_promise_whatever_it_hears_and_sends() {
    for intruder in [Intruder::Outsider, Intruder::Thief, Intruder::Insider] {
        assert_eq!(explored(intruder, None), BTreeSet::new(), "{intruder:?}");
    }
}

#[test]
fn each_part_of_the_handshake_is_needed() {
    for (weakness, intruder, promise) in [
        (Weakness::UnsignedView, Intruder::Insider, "the session"),
        (Weakness::UnsignedVerdict, Intruder::Insider, "the content"),
        (
            Weakness::NamelessSignature,
            Intruder::Insider,
            "the content",
        ),
        (
            Weakness::PairWithoutExchange,
            Intruder::Insider,
            "the pairs' secrets",
        ),
        (
            Weakness::PairWithoutExchange,
            Intruder::Thief,
            "the group's secret",
        ),
        (Weakness::KeysForAll, Intruder::Thief, "the group's secret"),
    ] {
        let broken = explored(intruder, Some(weakness));
        assert!(
            broken.contains(promise),
            "{weakness:?} {intruder:?}: {broken:?}"
        );
    }
}
