//! Reliable messages between two hosts: one part is pushed, the rest pulled (EQA §2).
//!
//! A sender pushes the beginning of a message at once. At the receiver it goes straight to the
//! destination if a receive for (source, tag) is posted, else into a bounded pushed buffer. The
//! receiver then sends a *grant*, which pulls the rest into the destination. So short messages cost
//! no handshake, and long ones are never buffered on the way.
//!
//! Below that, every part and every note is a numbered frame between two hosts, acknowledged with
//! holes and repeated on evidence only, as in a stream. But no frame waits for order, because each
//! part carries its offset, and no payload is copied for repeats, because a lost part is cut from
//! the message again.
//!
//! The modules, from the outside in: [`Mailbox`] (the application's calls), `operations` (open
//! calls), `channel` (frames of one peer), `outbox` (send queue), `inbox` (pushed buffer), `credit`
//! (room in it), `flight` and `arrivals` (numbered frames), `body` (their bytes).
//!
//! Received bytes never cause a panic, nor more memory than a receive's `max_bytes` or the pushed
//! buffer's share.

mod body;
mod channel;
mod credit;
mod flight;
mod inbox;
mod mailbox;
mod operations;
mod outbox;
mod settings;

#[doc(hidden)]
pub use body::is_well_formed;
pub use credit::{INITIAL_BYTES, INITIAL_MESSAGES};
pub use mailbox::Mailbox;
pub use settings::{
    Completion, MailboxMemory, MailboxStats, MessageCipher, RecvError, RecvId, RecvOutcome,
    SPAN_FRAMES, SendError, SendId, SendOutcome, Settings,
};
