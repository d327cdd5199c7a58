//! What a mailbox has done, in frames, and what memory it takes, in bytes.

summed! {
    /// Counters of a mailbox; all in frames.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct MailboxStats {
        /// Pushed parts sent for the first time.
        pub pushes_sent: u64,
        /// Pulled parts sent for the first time.
        pub pulls_sent: u64,
        /// Notes sent for the first time.
        pub notes_sent: u64,
        /// Any of these sent again.
        pub resent: u64,
        /// Receipts sent.
        pub receipts_sent: u64,
        /// Questions sent.
        pub asks_sent: u64,
        /// Parts and notes received and used.
        pub received: u64,
        /// Parts and notes that were already there.
        pub duplicates: u64,
        /// Parts and notes out of order, too far ahead, or beyond the room there was.
        pub beyond_credit: u64,
        /// Acknowledgements, grants and refusals of what was never sent.
        pub forged_acks: u64,
        /// Frames of another session, or from somebody who is no peer or has been given up.
        pub strangers: u64,
        /// Frames whose body did not parse or contradicts an earlier one.
        pub malformed: u64,
    }
}

summed! {
    /// Memory of a mailbox or of its part for one peer.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct MailboxMemory {
        /// The send queue: messages on their way. A buffer that was given to several sends is counted for each.
        pub send_message_bytes: usize,
        /// The send queue beside them.
        pub send_queue_bytes: usize,
        /// The receive queue.
        pub receive_queue_bytes: usize,
        /// The pushed buffer: messages that wait for a receive.
        pub pushed_bytes: usize,
        /// How many messages these are.
        pub pushed_messages: usize,
        /// Destinations of receives being filled.
        pub destination_bytes: usize,
        /// Frames sent and not acknowledged (their payloads are in the send queue), and records of messages arriving.
        pub bookkeeping_bytes: usize,
        /// The fixed part for each peer.
        pub peer_bytes: usize,
    }
}
