//! Counters of a stream, in frames.

summed! {
    /// Counters of one stream; all in frames.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct StreamStats {
        /// Data frames sent for the first time.
        pub data_sent: u64,
        /// Data frames sent again, and parity frames sent instead.
        pub data_resent: u64,
        /// Parity frames among `data_resent`.
        pub parity_sent: u64,
        /// Acknowledgements sent.
        pub acks_sent: u64,
        /// Acknowledgements among `acks_sent` that reported a loss.
        pub nacks_sent: u64,
        /// Heartbeats sent.
        pub heartbeats_sent: u64,
        /// Data frames received and stored, or brought back by parity frames.
        pub data_received: u64,
        /// Frames among `data_received` that came by a repeat or by parity: the first copy was
        /// lost.
        pub data_repaired: u64,
        /// Frames among `data_received` that parity recovered.
        pub data_recovered: u64,
        /// Parity frames received and kept.
        pub parity_received: u64,
        /// Acknowledgements received and used.
        pub acks_received: u64,
        /// Heartbeats received.
        pub heartbeats_received: u64,
        /// Data frames that had already arrived, and parity frames of complete blocks.
        pub duplicates: u64,
        /// Data frames beyond the credit.
        pub beyond_credit: u64,
        /// Data frames dropped because they were out of order (strict go-back-n only).
        pub out_of_order_dropped: u64,
        /// Acknowledgements for frames or stamps that were never sent.
        pub forged_acks: u64,
        /// Frames of this stream from a host that is neither parent nor child.
        pub strangers: u64,
        /// Frames whose body did not parse or did not fit.
        pub malformed: u64,
    }
}
