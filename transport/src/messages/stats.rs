//! Counters of frames sent and received as messages, and the memory they use.

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
        /// Frames of these kinds sent again.
        pub resent: u64,
        /// Receipts sent.
        pub receipts_sent: u64,
        /// Requests for a receipt sent.
        pub asks_sent: u64,
        /// Parts and notes received and used.
        pub received: u64,
        /// Parts and notes that had already arrived.
        pub duplicates: u64,
        /// Parts and notes out of order, too far ahead, or beyond the room.
        pub beyond_credit: u64,
        /// Acknowledgements, grants and refusals of messages never sent.
        pub forged_acks: u64,
        /// Frames of another session, or from a host that is no peer or has been given up.
        pub strangers: u64,
        /// Frames whose body did not parse or contradicts an earlier one.
        pub malformed: u64,
    }
}

summed! {
    /// Memory of a mailbox or of its part for one peer.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    #[doc(hidden)]
    pub struct MailboxMemory {
        /// Messages in the send queue. A buffer shared by several sends counts once for each.
        pub send_message_bytes: usize,
        /// Send queue without the messages.
        pub send_queue_bytes: usize,
        pub receive_queue_bytes: usize,
        /// Pushed buffer: messages that wait for a receive.
        pub pushed_bytes: usize,
        /// Number of these messages.
        pub pushed_messages: usize,
        /// Destinations of receives being filled.
        pub destination_bytes: usize,
        /// Records of unacknowledged frames (their payloads are in the send queue) and of arriving
        /// messages.
        pub bookkeeping_bytes: usize,
        /// Fixed part for each peer.
        pub peer_bytes: usize,
    }
}
