//! Counters of a port.

/// Totals since the port was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Frames handed to the machine.
    pub frames_received: u64,
    /// Bytes of the frames handed to the machine, Ethernet headers included.
    pub bytes_received: u64,
    /// Frames the kernel took for sending.
    pub frames_sent: u64,
    /// Bytes of the frames the kernel took for sending, Ethernet headers included.
    pub bytes_sent: u64,
    /// Frames that passed the filter in the kernel, the dropped ones included.
    pub kernel_accepted: u64,
    /// Frames that passed the filter and were lost because the receive ring was full.
    pub kernel_dropped: u64,
    /// Frames dropped because they were longer than a slot of the ring.
    pub truncated: u64,
    /// Frames dropped because they carried a VLAN tag.
    pub vlan_tagged: u64,
    /// Times the socket's send buffer was full (EAGAIN).
    pub send_would_block: u64,
    /// Times the interface's transmit queue was full (ENOBUFS).
    pub send_no_buffers: u64,
    /// Frames given up because the transmit queue refused them for too long.
    pub frames_given_up: u64,
    /// Outages of the interface.
    pub outages: u64,
    /// `sendmmsg` calls that took at least one frame.
    pub send_batches: u64,
    /// Frames received from other processes of the same node, through shared memory.
    pub node_received: u64,
    /// Frames that another process of the node did not get because its queue was full.
    pub node_lost: u64,
    /// Times the driver returned from waiting, for any reason.
    pub poll_wakeups: u64,
}
