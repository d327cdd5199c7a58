//! Fields of all frames: name, form and meaning, in the order of the wire.
//!
//! `ethbcast dump` decodes by this table; the lists of the Wireshark dissector and the tables of
//! `docs/protocol` are made from it.

use self::FieldForm::*;
use crate::census::Busy;
use crate::session::{Outcome, Refusal};
use std::fmt;

/// Encoding of a field, and what is shown of it. Numbers are big-endian; the first argument is
/// their length in bytes.
#[derive(Clone, Copy, Debug)]
pub enum FieldForm {
    Number(u8),
    /// A number that is absent if all its bits are set.
    Known(u8),
    /// A number that is absent if it is 0.
    Nonzero(u8),
    /// A number that counts as at most the second argument.
    Most(u8, u64),
    /// A byte: whether it is not 0.
    Truth,
    /// A byte with a flag for each name, from the lowest bit.
    Flags(&'static [&'static str]),
    /// Bytes as hexadecimal digits.
    Hex(u8),
    /// All that follows, as words of eight bytes.
    HexWords,
    /// A byte that stands for a word.
    Word(&'static Words),
    /// A string behind its length, which is one byte.
    Text,
    /// All that follows, shown as its length.
    Rest,
    /// A number of two bytes: the length of each bitmap that follows.
    Length,
    /// A bitmap, as the number of its bits that are set.
    Ones,
    /// A bitmap, as the ranks whose bits are set.
    Ranks,
    /// A number of four bytes that is added to the cursor.
    Ahead,
    /// A number of four bytes that is subtracted from the cursor.
    Behind,
    /// A number of eight bytes: the cursor of the fields that follow.
    Cursor,
    /// An address.
    Host,
    /// An address that is absent if it is zeros, or if the body has ended.
    MaybeHost,
    Skip(u8),
    /// Bytes that the field before it has read, and that are perhaps shown under this name.
    Part(u8, ShownAs),
    /// A field at an offset in the body.
    At(usize, &'static FieldForm),
    /// A field that is there only if the byte at an offset is in a range.
    If(usize, u8, u8, &'static FieldForm),
    Include(&'static List),
    /// The body may end here: unless it has this number of bytes more.
    Optional(u8),
    /// The body ends here unless two numbers follow, the second at most the first.
    OptionalPair,
    /// The body ends here unless the frame has LAST and a trailer.
    Trailer,
    /// Block and number of a parity frame, from the header.
    Block,
    Content,
    Via(&'static Words),
    /// Members of a view.
    Members(&'static List, &'static Words),
    Rate,
    /// Signatures of collectives, the newest of which is shown.
    Calls,
    /// Number of a piece, and that of all; absent if it is not one of them.
    Piece,
    /// Number of hosts, then outcome and name of each; absent if there are none, or malformed.
    Hosts(&'static Words),
}

/// Value under which something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownAs {
    No,
    Number,
    Text,
}

/// Words for the values of a byte, from a first value on.
#[derive(Clone, Copy)]
pub struct Words {
    pub name: &'static str,
    pub first: u8,
    pub words: &'static [&'static str],
}

impl Words {
    pub(super) fn of(&self, value: u8) -> Option<&'static str> {
        self.words
            .get(usize::from(value.checked_sub(self.first)?))
            .copied()
    }
}

/// A field of a frame; one of name `_` is not documented.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub form: FieldForm,
    pub meaning: &'static str,
}

/// A sequence of fields.
#[derive(Clone, Copy)]
pub struct List {
    pub name: &'static str,
    pub fields: &'static [Field],
}

/// A kind of frame: its number, who sends it to whom, and where its rules are.
#[derive(Clone, Copy, Debug)]
pub struct FrameKind {
    pub number: u8,
    pub way: &'static str,
    pub part: &'static str,
    pub body: List,
}

macro_rules! debugged_by_name {
    ($($named:ident),*) => {
        $(impl fmt::Debug for $named {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.name)
            }
        })*
    };
}

debugged_by_name!(Words, List);

macro_rules! list {
    ($name:ident { $($field:tt: $form:expr, $meaning:literal;)* }) => {
        List {
            name: stringify!($name),
            fields: &[$(Field {
                name: stringify!($field),
                form: $form,
                meaning: $meaning,
            }),*],
        }
    };
}

macro_rules! messages {
    ($($number:literal $name:ident $way:literal $part:literal $fields:tt)*) => {
        &[$(FrameKind {
            number: $number,
            way: $way,
            part: $part,
            body: list!($name $fields),
        }),*]
    };
}

macro_rules! words {
    ($name:ident from $first:literal $words:expr) => {
        pub(super) const $name: Words = Words {
            name: stringify!($name),
            first: $first,
            words: &$words,
        };
    };
}

words!(STAGES from 0 ["gathering", "started", "late-welcome"]);
words!(SHRINK_STAGES from 1 ["proposed", "agreed", "done"]);
words!(CONTENTS from 0 ["stream", "file", "directory", "sparse file", "gzip", "xz", "zstd"]);
words!(REFUSALS from 0 Refusal::WORDS);
words!(STATES from 0 [
    "alive", "blocked", "starved", "verifying", "waits-for-child", "syncing", "settled", "done",
]);
words!(OUTCOMES from 0 Outcome::WORDS);
words!(VIAS from 1 [
    "chain", "cast", "binary", "kary", "flat", "binomial", "scatter-allgather",
    "recursive-doubling", "chain-unaware", "binary-unaware", "latency", "binary-best", "two-tree",
]);
words!(BUSY from 0 Busy::WORDS);
words!(STANDINGS from 0 [" (gone)", "", " (demoted)"]);
words!(TASKS from 0 ["invite", "ping", "train", "ask", "flow", "bulk"]);
words!(CODES from 0 ["room", "grant", "refuse", "withdraw"]);
words!(FAILURES from 1 ["mismatch", "gone", "left", "abandoned", "garbled", "cut", "deaf"]);
words!(LAST from 1 ["failed", "delivered"]);

/// Lists of words by which bytes are shown.
pub const WORDS: [Words; 13] = [
    STAGES,
    SHRINK_STAGES,
    CONTENTS,
    REFUSALS,
    STATES,
    OUTCOMES,
    VIAS,
    BUSY,
    STANDINGS,
    TASKS,
    CODES,
    FAILURES,
    LAST,
];

/// Flags of the header, from the lowest bit.
pub const FLAGS: [(&str, &str); 5] = [
    (
        "LAST",
        "last frame of the stream; the payload is the trailer",
    ),
    (
        "ACK_NOW",
        "the sender cannot continue without an acknowledgement",
    ),
    ("RESENT", "retransmission; informative"),
    ("FLUSH", "last frame of a message (§7.8)"),
    (
        "REPORT",
        "with FLUSH: the sender waits for consumption (§7.8)",
    ),
];

/// Headers of a frame, the Ethernet's first.
pub const HEADER: List = list! { HEADER {
    destination: Skip(6), "";
    source: Skip(6), "";
    ether_type: Skip(2), "";
    magic: Hex(2), "0x4542 (\"EB\")";
    version: Number(1), "6; with a key 7 (§3.1)";
    kind: Number(1), "§4; sealed";
    rank: Known(2), "the sender's; root 0; 65535 before a receiver has one";
    port_to: Number(1), "§16.1; 0 in sessions, to all";
    port_from: Number(1), "§16.1";
    stamp: Number(4), "DATA, PARITY, HEARTBEAT: §7.2; ACK: echo; kinds 26–28: test (§14); 32–36: §15; \
                       else 0";
    epoch: Number(1), "low 8 bits of the sender's view epoch, else 0; informative only";
    flags: Hex(1), "§4; LAST, FLUSH and REPORT are sealed";
    checksum: Hex(4), "below";
    session: Hex(4), "random, drawn by the root";
    stream: Number(2), "1; in blocks 1 to the number of members (§7.9); + 0x4000 on catch-up streams \
                        (§7.11); communicators: §16.2; control messages: 0, not checked";
    payload_bytes: Number(2), "";
    sequence: Number(6), "DATA: number in its stream, from 0; PARITY: §7.14; ACK: cursor; HEARTBEAT: one \
                          past the highest number sent; kinds 26–28: §14; 32–36: §15; else 0";
} };

/// Description of a session's content.
pub const CONTENT: List = list! { CONTENT {
    content: Content, "bits 0–3: 0 stream; 1 file; 2 directory and 3 file with holes, both in the form of \
                       files.md; 4, 5, 6 file to unpack: gzip, xz, zstd. bits 4–7: log2 of the chunk size \
                       (§7.12) minus 16, in two's complement, −2 to 1 (2¹⁴ to 2¹⁷ bytes)";
    chunk_bytes: Part(0, ShownAs::Number), "";
    mode: Part(2, ShownAs::Text), "file: permissions, set-user-id, set-group-id, sticky; else 0";
    modified: Part(8, ShownAs::Text), "file: seconds since 1970, two's complement; else 0";
    nanoseconds: Part(4, ShownAs::No), "file: within that second; else 0";
} };

const MEMBER: List = list! { MEMBER {
    mac: Part(6, ShownAs::No), "address";
    nonce: Part(8, ShownAs::No), "of its JOIN; root: 0";
    parent: Part(2, ShownAs::No), "rank it receives from, in a cast acknowledges to; root: 65535";
    order: Part(2, ShownAs::No), "place among its parent's children";
    standing: Part(1, ShownAs::No), "0 gone: its outcome is known; 1 in place; 2 demoted (§8.5)";
    host: Text, "";
} };

/// An encoded view.
pub const VIEWED: List = list! { VIEWED {
    epoch: Skip(4), "1 for the first view, + 1 with every change";
    via: Via(&VIAS), "below";
    children: Skip(1), "via 4: the most children of a member, 2 to 64; else 0";
    segment: Number(4), "frames in a segment (§7.8), at least 1, and 1 if selective; in blocks: frames in a \
                         block (§7.9)";
    strict: Skip(1), "0 HolesAllowed; 1 InOrderOnly; n ≥ 2: InOrderOnly, the first n − 1 frames of each \
                      message are pushed (§7.6)";
    payload: Number(2), "longest payload of DATA, 64 to the root's MTU − 32";
    size: Known(8), "as in ANNOUNCE";
    content: Include(&CONTENT), "as in ANNOUNCE";
    selective: Number(1), "1: only what somebody lacks is sent (§7.13), and size, which must be known, is that \
                           of the verified stream of the whole content; else 0";
    members: Number(2), "root included; then for each, by rank:";
    tree: Members(&MEMBER, &STANDINGS), "";
    _: Optional(8), "";
    rate: Rate, "optional, below";
    yields: Part(0, ShownAs::Number), "";
} };

const ACKNOWLEDGED: List = list! { ACKNOWLEDGED {
    limit: Ahead, "limit − cursor; limit (credit): one past the highest sequence there is room for, here and at \
                   all repair children";
    below: Behind, "cursor − below; below: what the parent must keep from (§7.7)";
    consumed: Behind, "cursor − consumed; consumed: §7.8";
    held_us: Number(4), "µs since the echoed stamp arrived";
    bitmap_bytes: Length, "at most 1024";
    reserved: Skip(2), "0, ignored";
    arrived_beyond: Ones, "bit i: frame cursor + 1 + i has arrived, or is not needed because of parity (§7.14)";
} };

const NOTIFIED: List = list! { NOTIFIED {
    repeats: Number(1), "BYE: how many follow; else 0";
    reserved: Skip(1), "0";
    waits_for: Known(2), "rank it waits for in the present call; 65535 if none or unknown";
    moved: Number(2), "changes with each call and each new frame, sent or received";
    reserved: Skip(2), "0";
    call: Calls, "signatures of the last collectives, newest first; zeros if absent";
    failure: If(104, 1, 255, &Word(&FAILURES)), "0 none; else below";
    blame: If(104, 1, 255, &Skip(1)), "abandoned: 0 none, 1 other has not entered the call, 2 other takes nothing \
                                       from third, 3 nothing passes between other and third; else 0";
    about: If(104, 1, 255, &Number(2)), "the rank it is about";
    other: If(104, 1, 255, &Skip(2)), "mismatch, cut, blame: the other rank; else 0";
    third: If(104, 1, 255, &Skip(2)), "blame; else 0";
    from: If(104, 1, 255, &Number(8)), "first collective that cannot be done";
    signature: Part(24, ShownAs::No), "mismatch: rank's call; abandoned: the one it gave up; else zeros";
    signature: Part(24, ShownAs::No), "mismatch: other's call; else zeros";
} };

const TASK: List = list! { TASK {
    task: Word(&TASKS), "";
    reserved: Skip(1), "0, ignored";
    payload: Number(2), "ping: longest of the message's frames; flow, bulk: of their frames; else 0";
    number: Number(4), "ping: bytes of the message; train: first frame of the second count; flow: frames; bulk: \
                        the receiver's rank; else 0";
    sender: If(0, 3, 3, &MaybeHost), "ask: whose train, if not zeros";
    receiver: If(0, 4, 4, &Host), "flow: to whom";
    sender: If(0, 4, 4, &Host), "flow: the responder itself";
} };

/// Lists that messages include.
pub const INCLUDED: [List; 6] = [CONTENT, MEMBER, VIEWED, ACKNOWLEDGED, NOTIFIED, TASK];

/// Returns the kind of frame with this number.
pub fn message(number: u8) -> Option<&'static FrameKind> {
    MESSAGES.iter().find(|message| message.number == number)
}

pub const MESSAGES: &[FrameKind] = messages! {
    1 DATA "parent→child; cast: root→group" "the stream's bytes" {
        _: Trailer, "";
        bytes: Number(8), "in the stream before it; in a selective session in the verified stream of the whole \
                           content";
        digest: Hex(32), "of those bytes; of a file, of its content (§7.12)";
    }
    2 ACK "child→parent" "§7.3" { _: Include(&ACKNOWLEDGED), ""; }
    3 HEARTBEAT "as DATA" "empty, or the rank of the acker (§7.6)" {
        _: Optional(2), "";
        designated: Number(2), "";
    }
    4 PARITY "cast: root→group" "§7.14" {
        from: Block, "";
        to: Part(0, ShownAs::Number), "";
        parity: Part(0, ShownAs::Number), "";
    }
    5 LANE "on each of two interfaces" "§3.2" {
        first: Host, "address of the first interface, by which others know the host";
        working: Number(1), "bit 0: the first works, bit 1: the second";
        lasts_ms: Number(2), "without another one for so long, the interface is taken for lost";
    }
    16 ANNOUNCE "root→group, all" "" {
        size: Known(8), "bytes of the stream (with hash lists, §7.12) before the trailer; 2⁶⁴ − 1: unknown";
        mtu: Number(2), "of the session's frames";
        stage: Word(&STAGES), "0 gathering; 1 started; 2 started, late receivers may join";
        age_ms: Number(4), "since the first ANNOUNCE; 2³² − 1 if longer or once started";
        content: Include(&CONTENT), "15 bytes, below";
        group: Text, "";
        host: Text, "the root's name";
        source: Text, "the file's name";
    }
    17 JOIN "receiver→root" "" {
        nonce: Hex(8), "random, new in each run of a receiver";
        free_bytes: Number(8), "room, in bytes of the stream";
        mtu: Number(2), "the receiver's";
        features: Number(4), "bit 0: it may have part of the content (§7.13); bit 31: a root asks (§8.1); others \
                              are ignored";
        group: Text, "";
        host: Text, "";
    }
    18 REFUSE "root→receiver" "" {
        nonce: Hex(8), "of the JOIN";
        refusal: Word(&REFUSALS), "§10";
        text: Text, "for the user";
    }
    19 VIEW "root→group" "" {
        epoch: Number(4), "of the view";
        digest: Hex(32), "of the whole encoded view";
        part: Number(2), "from 0";
        parts: Number(2), "their number";
        bytes: Rest, "of the part";
    }
    20 READY "member→root" "" {
        epoch: Number(4), "of the view that the member has";
        digest: Hex(32), "of that view";
        arrived: Number(8), "frames it has in order";
    }
    21 STATUS "member→root; root→group" "" {
        state: Word(&STATES), "§10";
        waits_for: Known(2), "rank of the child that blocks it; 65535: none";
        arrived: Number(8), "frames, in order";
        consumed: Number(8), "frames, by its application";
        _: Optional(1), "";
        mute: If(19, 1, 255, &Truth), "1: no ACK of that child was ever received";
        _: If(19, 0, 0, &Skip(1)), "";
        _: Optional(13), "";
        link_sent: Truth, "direction: 0 received, else sent";
        own_kbit: Number(4), "kbit/s of its own frames";
        others_kbit: Number(4), "of all others";
        ip_kbit: Number(4), "of the host's IP packets";
    }
    22 DONE "member→root" "" {
        outcome: Word(&OUTCOMES), "§10";
        bytes: Number(8), "received";
        digest: Hex(32), "of them";
        text: Text, "for a failure, else empty";
        _: OptionalPair, "";
        frames: Number(8), "DATA frames accepted";
        repaired: Number(8), "of them with RESENT";
        behind: Part(2, ShownAs::Number), "hosts that a relay has served in the other network";
        hosts: Hosts(&OUTCOMES), "u8 outcome and text name of as many as fit";
    }
    23 VERDICT "root→group" "" {
        over: Truth, "not 0: the session is over";
        known: Skip(1), "not 0: the next two fields are valid, because all of SOURCE has been read";
        bytes: If(1, 1, 255, &Number(8)), "as in the trailer (§7.1)";
        digest: If(1, 1, 255, &Hex(32)), "as in the trailer";
        _: If(1, 0, 0, &Skip(40)), "";
        bitmap_bytes: Length, "of each bitmap";
        heard: Ranks, "bit r: the root has the last DONE of rank r";
        accepted: Ranks, "bit r: what rank r has verified is what was sent";
    }
    24 ABORT "root→group" "" { text: Text, "for the user: the root gives up or has ended"; }
    25 ORPHAN "relay→root" "" {
        of_stream: Number(2), "";
        child: Number(2), "its rank in the view";
        from: Number(8), "frames that the child lacks and the sender has freed (§8.4)";
        to: Number(8), "";
    }
    26 PROBE "prober→responder, group" "§14" {
        _: Include(&TASK), "";
        group: If(0, 0, 0, &Text), "";
    }
    27 ECHO "responder→prober" "§14" {
        _: Include(&TASK), "";
        host: If(0, 0, 0, &Text), "";
    }
    28 REPORT "responder→prober" "§14" {
        arrived: Number(8), "frames received";
        arrived_late: Number(8), "frames of the second count";
        first_ns: Number(8), "arrival of the first frame, by the responder's clock";
        late_ns: Number(8), "of the second count's first";
        last_ns: Number(8), "of the highest";
        worked_ns: Number(8), "processor time of its process, 0 if unknown";
        _: Optional(8), "";
        computer: Number(8), "optional identity of its computer";
    }
    29 LEAVE "receiver→root" "" {
        nonce: Hex(8), "of the JOINs of a run that has ended";
        text: Text, "reason";
    }
    30 FETCH "member→root; root→member" "§8.6" {
        for_rank: Number(2), "who lacks them";
        blamed: Known(2), "who sent them to it; 65535 if several, unknown, or the root asks";
        attempt: Number(1), "1; 2 and 3 after damaged repairs; selective session: 0 for what was not sent";
        reserved: Skip(3), "0, ignored";
        from: Number(8), "first byte of the stream; selective session: of that of the whole content (§7.13)";
        to: Number(8), "one past the last, at most from + 2¹⁷";
    }
    31 PIECE "root→member; member→root" "§8.6" {
        from: Number(8), "";
        to: Number(8), "end of the portion answered at a time (§8.6)";
        bytes: Rest, "at most payload − 16, none beyond that end";
    }
    32 PUSH "" "§15" {
        message: Number(8), "";
        offset: Number(4), "";
        pushed_bytes: Number(4), "";
        message_bytes: Number(8), "";
        tag: Number(4), "";
        reserved: Skip(4), "0";
    }
    33 PULL "" "§15" {
        message: Number(8), "";
        offset: Number(8), "";
    }
    34 NOTE "" "§15" {
        word: Word(&CODES), "";
        reserved: Skip(3), "0";
        echo: Skip(4), "of the acknowledgement";
        message: Skip(8), "grant, refuse: the addressee's; withdraw: the sender's; room: 0";
        pushed_bytes: Skip(8), "withdraw: as in its PUSHes; else 0";
        message: If(0, 1, 3, &At(8, &Number(8))), "";
        pushed_bytes: If(0, 3, 3, &At(16, &Number(8))), "";
        room_messages: Number(8), "one past the last message the addressee may begin";
        room_bytes: Number(8), "bytes it may push in all messages together, from the beginning";
        cursor: Cursor, "of the acknowledgement";
        echo: At(4, &Number(4)), "";
        _: Include(&ACKNOWLEDGED), "";
    }
    35 RECEIPT "" "§15" {
        _: Include(&ACKNOWLEDGED), "";
    }
    36 ASK "" "§15" {}
    40 CALL "process→group" "§16.1" {
        nonce: Hex(8), "random, new in each run of a process";
        ranks: Number(2), "the group's size";
        mtu: Number(2), "of its interface";
        preset: Number(1), "0 Default, 1 Paper, 2 PushPull: the numbers of §13 and §15";
        joined: Truth, "1: it has joined; else 0";
        digest: Hex(32), "the roster's; zeros while it has none";
        group: Text, "";
        host: Text, "its name";
        flags: Flags(&["told", "unfit"]), "1: configured with network knowledge (below); + 2: not about this group";
        told: Part(0, ShownAs::Number), "";
        unfit: Part(0, ShownAs::Number), "";
        list: Hex(8), "first eight bytes of the list's digest, 1 instead of 0; 0 while incomplete";
        network: Hex(8), "number of its network description; 0 if none";
        part: Piece, "piece of the description that follows";
        parts: Part(2, ShownAs::Number), "of how many; 0: none";
    }
    41 ALIVE "member→group" "§16.3" { _: Include(&NOTIFIED), ""; }
    42 BYE "member→group" "§16.3" { _: Include(&NOTIFIED), ""; }
    43 SHRINK "member→group" "§16.4" {
        stage: Word(&SHRINK_STAGES), "";
        reserved: Skip(3), "0";
        lost: Ranks, "a bit for each rank, least significant first; no bits beyond";
    }
    48 NEEDS "member→root" "" {
        stretch: Number(8), "its number";
        set_bytes: Rest, "the set of its chunks that the member lacks (§7.13)";
    }
    49 WHO "asker→all receivers" "§17" {
        nonce: Hex(8), "random";
        spread_ms: Most(2, 2000), "over which to spread answers, at most 2000";
        reserved: Skip(2), "0";
        group: Text, "empty for all";
    }
    50 HERE "receiver→asker" "§17" {
        nonce: Hex(8), "of WHO";
        busy: Word(&BUSY), "0 waiting, 1 has asked a root, 2 in a session; else malformed";
        last: Skip(1), "session: 0 none, 1 failed, 2 verified; else malformed";
        mtu: Number(2), "";
        megabits: Nonzero(4), "Mbit/s of the link, 0 if unknown";
        seconds_ago: Skip(4), "since the last session ended";
        free_bytes: Known(8), "2⁶⁴ − 1 if not told";
        came_bytes: Number(8), "of the present session";
        size: Known(8), "of that session, 2⁶⁴ − 1 if unknown";
        group: Text, "";
        host: Text, "";
        build: Text, "program and version, at most 32 bytes";
        last: If(9, 1, 255, &At(9, &Word(&LAST))), "";
        seconds_ago: If(9, 1, 255, &At(16, &Number(4))), "";
        source: If(9, 1, 255, &Text), "last content, at most 100 bytes";
    }
    51 CHALLENGE "member→root" "" {
        word: Hex(8), "challenge, unpredictable and new each time";
        unanswered: Number(1), "how often it was before, 255 at most (§8.2)";
    }
    52 RESPONSE "root→member, group" "" { words: HexWords, "challenges, one or more"; }
    53 KEYS "root→receiver" "keys.md" {}
};
