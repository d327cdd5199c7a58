//! What a stream has done, in frames.

use std::ops::Add;

/// Counters of one stream; all in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Data frames sent for the first time.
    pub data_sent: u64,
    /// Data frames sent again.
    pub data_resent: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Those of them that were sent because of a loss.
    pub nacks_sent: u64,
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Data frames received and stored.
    pub data_received: u64,
    /// Acknowledgements received and used.
    pub acks_received: u64,
    /// Heartbeats received.
    pub heartbeats_received: u64,
    /// Data frames that were already there.
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

impl Add for StreamStats {
    type Output = StreamStats;

    fn add(self, other: StreamStats) -> StreamStats {
        StreamStats {
            data_sent: self.data_sent + other.data_sent,
            data_resent: self.data_resent + other.data_resent,
            acks_sent: self.acks_sent + other.acks_sent,
            nacks_sent: self.nacks_sent + other.nacks_sent,
            heartbeats_sent: self.heartbeats_sent + other.heartbeats_sent,
            data_received: self.data_received + other.data_received,
            acks_received: self.acks_received + other.acks_received,
            heartbeats_received: self.heartbeats_received + other.heartbeats_received,
            duplicates: self.duplicates + other.duplicates,
            beyond_credit: self.beyond_credit + other.beyond_credit,
            out_of_order_dropped: self.out_of_order_dropped + other.out_of_order_dropped,
            forged_acks: self.forged_acks + other.forged_acks,
            strangers: self.strangers + other.strangers,
            malformed: self.malformed + other.malformed,
        }
    }
}
