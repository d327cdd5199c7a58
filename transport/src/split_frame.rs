//! A frame to be sent whose payload stays in the machine's memory.
//!
//! A payload that is in a buffer already need not be copied behind its headers, if the link accepts
//! two pieces of memory for one frame.

/// Reference to a payload kept by the machine that wrote the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Number of its stream.
    pub stream: u16,
    /// Number of its frame in the stream.
    pub sequence: u64,
    /// Length of the payload.
    pub bytes: usize,
}

/// Written part of a frame, and a reference to the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitFrame {
    /// Bytes written, Ethernet header first.
    pub written_bytes: usize,
    /// Payload behind them, if that is not written.
    pub kept: Option<Kept>,
}

impl SplitFrame {
    /// Creates a frame that is written completely.
    pub fn whole(frame_bytes: usize) -> SplitFrame {
        SplitFrame { written_bytes: frame_bytes, kept: None }
    }

    /// Returns the length of the frame.
    pub fn bytes(&self) -> usize {
        self.written_bytes + self.kept.map_or(0, |kept| kept.bytes)
    }

    /// Writes the missing payload of the frame in `buffer`, from `payload`; returns the frame's
    /// length.
    ///
    /// # Panics
    /// If `buffer` is shorter than the frame, or `payload` returns another number of bytes.
    pub fn join<'a>(self, buffer: &mut [u8], payload: impl FnOnce(Kept) -> &'a [u8]) -> usize {
        if let Some(kept) = self.kept {
            buffer[self.written_bytes..self.bytes()].copy_from_slice(payload(kept));
        }
        self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_written_behind_what_has_been() {
        let mut buffer = *b"headers-......";
        let kept = Kept { stream: 1, sequence: 7, bytes: 4 };
        let split = SplitFrame { written_bytes: 8, kept: Some(kept) };
        assert_eq!((split.bytes(), SplitFrame::whole(8).bytes()), (12, 8));
        let lend = |asked| if asked == kept { &b"rest"[..] } else { &[] };
        assert_eq!(split.join(&mut buffer, lend), 12);
        assert_eq!(&buffer, b"headers-rest..");
        assert_eq!(SplitFrame::whole(8).join(&mut buffer, |_| unreachable!("nothing is lacking")), 8);
    }
}
