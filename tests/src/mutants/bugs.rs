//! The planted bugs by name.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug {
    /// The name that `planted!` knows it by.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
}

const fn bug(name: &'static str, what: &'static str) -> Bug {
    Bug { name, what }
}

/// All of them.
pub const BUGS: &[Bug] = &[
    bug("no-backoff", ""),
    bug("timer-not-rearmed", ""),
    bug("answer-not-awaited", ""),
    bug("ack-ignored-for-ever", ""),
    bug("holes-off-by-one", ""),
    bug("hole-never-reported", ""),
    bug("echo-believed", ""),
    bug("cursor-believed", ""),
    bug("stamps-compared-the-wrong-way", ""),
    bug("part-sent-one-short", ""),
    bug("newest-message-first", ""),
    bug("credit-never-returned", ""),
    bug("checksum-not-compared", ""),
    bug("one-slot-too-many", ""),
    bug("forged-last-believed", ""),
    bug("length-of-slot-kept", ""),
    bug("late-below", ""),
    bug("credit-of-the-fastest", ""),
    bug("shared-repair-dropped", ""),
    bug("repair-children-not-counted", ""),
    bug("segment-too-early", ""),
    bug("reply-to-the-wrong-address", ""),
    bug("orphan-not-told", ""),
    bug("flags-lost-when-sent-again", ""),
    bug("freed-slot-sent-again", ""),
    bug("dead-childs-cursor-kept", ""),
    bug("bridge-keeps-nothing", ""),
    bug("ack-frees-for-grandchildren", ""),
    bug("rewind-one-short", ""),
    bug("credit-off-by-one", ""),
    bug("loss-never-reported", ""),
    bug("room-never-told", ""),
    bug("old-parent-kept", ""),
    bug("silence-never-noticed", ""),
    bug("block-from-the-wrong-side", ""),
    bug("quadratic-views", ""),
    bug("ready-of-an-old-view", ""),
    bug("digest-not-compared", ""),
    bug("over-after-one-report", ""),
    bug("side-begins-one-late", ""),
    bug("sent-to-the-dead", ""),
    bug("refill-skips-frames", ""),
    bug("visible-before-the-verdict", ""),
    bug("view-confirmed-once", ""),
    bug("report-said-once", ""),
    bug("block-never-ends", ""),
    bug("view-digest-not-compared", ""),
    bug("view-with-fewer-members", ""),
    bug("bridge-forgotten", ""),
];
