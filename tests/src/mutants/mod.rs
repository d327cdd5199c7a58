//! Search, by random simulation, for the deliberate bugs of `transport/src/planted.rs`.

mod schedules;
mod session;

use nix::time::{ClockId, clock_gettime};
pub use schedules::play;
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub schedules: u64,
    /// Violation that the last schedule found.
    pub what: String,
}

/// Plays up to `most` schedules from `first` on until one finds a violation. Panics count as
/// violations, and so does a schedule that uses more processor time of this process than
/// `patience`: other load on the machine does not count.
pub fn hunt(first: u64, most: u64, patience: Duration) -> Option<Found> {
    let (say, heard) = mpsc::channel();
    thread::spawn(move || (first..first + most).try_for_each(|seed| say.send(judge(seed)).ok()));
    for schedules in 1..=most {
        let begun = busy_for();
        let what = loop {
            match heard.recv_timeout(LOOK_EVERY) {
                Ok(what) => break what,
                Err(_) if busy_for() - begun < patience => {}
                Err(_) => break Some(format!("no end within {patience:?} of a processor")),
            }
        };
        if let Some(what) = what {
            return Some(Found { schedules, what });
        }
    }
    None
}

fn busy_for() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .expect("every process has this clock")
        .into()
}

fn judge(seed: u64) -> Option<String> {
    match catch_unwind(|| play(seed)) {
        Ok(played) => played.err(),
        Err(panic) => Some(format!("panic: {}", words(panic.as_ref()))),
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without words").to_owned()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug {
    pub name: &'static str,
    pub what: &'static str,
}

macro_rules! bugs {
    ($($name:literal: $what:literal,)*) => {
        &[$(Bug { name: $name, what: $what }),*]
    };
}

pub const BUGS: &[Bug] = bugs! {
    "timer-not-rearmed": "a question that was asked once is not asked again",
    "answer-not-awaited": "after an acknowledgement the next answer is not waited for",
    "no-backoff": "whoever does not answer is asked as often as ever",
    "holes-off-by-one": "an acknowledgement names frames one beyond those that have arrived",
    "hole-never-reported": "an acknowledgement says that all beyond the cursor has arrived",
    "ack-ignored-for-ever": "an acknowledgement behind what is known is never believed",
    "cursor-believed": "an acknowledgement of frames that were never sent is believed",
    "echo-believed": "an echo of a stamp that was never drawn is believed",
    "stamps-compared-the-wrong-way": "a frame is lost when one sent before it has arrived",
    "newest-message-first": "of the messages of one tag not the oldest is received",
    "credit-never-returned": "room in the buffer of pushed messages is not given back",
    "part-sent-one-short": "a part of a message moves the sender on by a byte too few",
    "checksum-not-compared": "a frame that was damaged is taken",
    "one-slot-too-many": "a feed grants one frame more than it has room for",
    "forged-last-believed": "a last frame in the middle of a stream of known length is believed",
    "length-of-slot-kept": "a slot of the feed keeps the length of the frame before",
    "late-below": "an older word on what all behind a receiver have takes a newer one back",
    "credit-of-the-fastest": "a cast is bounded by the largest credit, not by the smallest",
    "repair-dropped": "a repair for one receiver of a cast is never sent",
    "repair-children-not-counted":
        "a receiver answers for itself alone, not for those that acknowledge to it",
    "segment-too-early": "a segment is sent on before it is there",
    "reply-to-the-wrong-address": "acknowledgements go to the one that writes them",
    "orphan-not-told": "that a child lacks what is gone is not noted",
    "flags-lost-when-sent-again": "a frame that is sent again does not say that it is the last",
    "dead-childs-cursor-kept": "the reader of a child that was taken away stays in the feed",
    "bridge-keeps-nothing": "for a grandchild that is taken over nothing is kept",
    "freed-slot-sent-again": "what has been acknowledged stays queued to be sent again",
    "rewind-one-short": "strict go-back-n goes back to the frame after the lost one",
    "credit-off-by-one": "one frame more than the credit is sent",
    "ack-frees-for-grandchildren":
        "a child's acknowledgement frees what its own children still need",
    "old-parent-kept": "a new view changes nobody's parent",
    "silence-never-noticed": "nobody who is silent is put aside",
    "block-from-the-wrong-side": "in a ring the blocks are counted from the other side",
    "quadratic-views": "a view goes to every member alone, as often as it is told",
    "ready-of-an-old-view": "the confirmation of any view counts for the present one",
    "over-after-one-report": "the session is over with the first report",
    "side-begins-one-late": "who is served alone is served from the frame after the one it needs",
    "digest-not-compared": "the root takes any digest for that of its bytes",
    "refill-skips-frames": "of what is read again every second frame is sent",
    "visible-before-the-verdict":
        "a receiver makes its bytes visible before the root has confirmed them",
    "view-confirmed-once": "a view is confirmed once, whether the root hears it or not",
    "report-said-once": "a report is sent once, whether the root hears it or not",
    "block-never-ends": "a reader takes all frames from the first stream of blocks",
    "view-digest-not-compared": "a view is taken whatever its digest is",
    "view-with-fewer-members": "a view in which members are lacking is followed",
    "supply-waits-behind-spans": "what was sent again waits behind the spans that wait for it",
    "asked-for-once": "what comes damaged twice is not asked for again",
    "part-shown-twice":
        "a part of a selected content is sent once more where nothing is ready behind it",
    "bridge-forgotten": "nobody serves the children of a relay that has gone",
    "ledger-signature-not-compared":
        "a hash list of a member that relays is taken for the sender's",
    "half-of-a-payload-in-its-tag": "with a key the second half of a payload may be altered",
    "addresses-not-in-the-tag": "with a key a frame is taken from any address, and sent to any",
    "window-does-not-move": "of numbered frames none is remembered, and all are taken again",
    "last-words-heard-twice": "the last number of a host is taken again",
    "one-key-for-all-chunks": "equal chunks at two places are encrypted by one key",
    "hash-list-without-its-place": "a hash list that the sender has signed is taken at any place",
    "signatures-without-the-session": "what a sender has signed is taken in each of its sessions",
    "signatures-not-compared": "any signature is the sender's",
    "pair-secret-of-the-cluster-alone": "who has the cluster's secret has that of each pair",
    "sent-to-the-dead": "a child that has gone is served on",
};
