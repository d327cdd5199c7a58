//! What a stream has done, in frames.

summed! {
    /// Counters of one stream; all in frames.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct StreamStats {
        /// Data frames sent for the first time.
        pub data_sent: u64,
        /// Data frames sent again, and parity frames sent instead.
        pub data_resent: u64,
        /// Parity frames among them.
        pub parity_sent: u64,
        /// Acknowledgements sent.
        pub acks_sent: u64,
        /// Those of them that were sent because of a loss.
        pub nacks_sent: u64,
        /// Heartbeats sent.
        pub heartbeats_sent: u64,
        /// Data frames received and stored, or brought back by parity frames.
        pub data_received: u64,
        /// Those of them that came only when they were sent again, or by parity: what came first was lost on the way.
        pub data_repaired: u64,
        /// Those of them that parity frames have brought back.
        pub data_recovered: u64,
        /// Parity frames received and kept until they bring something back.
        pub parity_received: u64,
        /// Acknowledgements received and used.
        pub acks_received: u64,
        /// Heartbeats received.
        pub heartbeats_received: u64,
        /// Data frames that were already there, and parity frames of what was.
        pub duplicates: u64,
        /// Data frames beyond the credit.
        pub beyond_credit: u64,
        /// Data frames thrown away because they were out of order (strict go-back-n only).
        pub out_of_order_dropped: u64,
        /// Acknowledgements for frames or stamps that were never sent.
        pub forged_acks: u64,
        /// Frames of this stream from somebody who is neither parent nor child.
        pub strangers: u64,
        /// Frames whose body did not parse or did not fit.
        pub malformed: u64,
    }
}
