//! What is to be reached by the schedules of a normal run, a thousand times each.

/// Every outcome, refusal, state, end and failure that can come that often; what cannot is in [`RARE`].
pub const ALL: &[&str] = &[
    "end: Aborted",
    "end: Confirmed",
    "end: Dropped",
    "end: NobodyThere",
    "end: Refused",
    "end: RootSilent",
    "end: Unconfirmed",
    "outcome: Damaged",
    "outcome: Delivered",
    "outcome: Died",
    "outcome: Interrupted",
    "outcome: Lost",
    "outcome: NoSpace",
    "outcome: Silent",
    "outcome: Stalled",
    "outcome: WriteFailed",
    "refused: Late",
    "refused: NoSpace",
    "refused: NotInTopology",
    "refused: NotWanted",
    "refused: Path",
    "refused: SmallMtu",
    "refused: Twin",
    "root failed: GroupTaken",
    "root failed: NoPlan",
    "root failed: TooFew",
    "state: Alive",
    "state: Blocked",
    "state: Done",
    "state: Settled",
    "state: Starved",
    "state: Syncing",
    "state: Verifying",
    "state: WaitsForChild",
    "program: done",
    "program: Gone",
    "program: Missing",
    "program: Mismatch",
];

/// What cannot be reached a thousand times, and why.
pub const RARE: &[(&str, &str)] = &[
    ("outcome: Verified", "a report is never final with it: the root says NoSpace to Died, or Delivered"),
    (
        "program: Abandoned, Cut, Deaf, Garbled",
        "their times are seconds of a program's life; tests/communicators has each",
    ),
    (
        "program: Left, Outlawed, Unconfirmed",
        "a race of microseconds between a call and a leave; tests/communicators has each",
    ),
    ("program: Name, Size, Mtu", "refused before anything runs: arguments, not faults"),
    (
        "program: SizesDiffer, PresetsDiffer, Namesakes, TwoProcesses, TooMany, OtherBuild",
        "settings of a group, not faults; tests/communicators/joining has each",
    ),
];
