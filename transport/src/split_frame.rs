//! A frame on its way out whose payload stays where the machine keeps it.
//!
//! A payload that lies in a buffer already need not be copied to lie behind its headers: who can hand a link two pieces
//! of memory for one frame takes it from where it is.

/// The payload of a frame, where the machine that has written the headers keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The number of the stream that it is of.
    pub stream: u16,
    /// Its number there.
    pub sequence: u64,
    /// Its length.
    pub bytes: usize,
}

/// What has been written of a frame, and where the rest of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitFrame {
    /// How many bytes have been written, Ethernet header first.
    pub written_bytes: usize,
    /// What follows them, if that has not been written.
    pub kept: Option<Kept>,
}

impl SplitFrame {
    /// A frame of which everything has been written.
    pub fn whole(frame_bytes: usize) -> SplitFrame {
        SplitFrame { written_bytes: frame_bytes, kept: None }
    }

    /// The length of the frame.
    pub fn bytes(&self) -> usize {
        self.written_bytes + self.kept.map_or(0, |kept| kept.bytes)
    }

    /// Writes what is lacking of the frame in `buffer`, as `payload` lends it; the frame's length.
    ///
    /// # Panics
    /// If `buffer` is shorter than the frame, or `payload` lends another number of bytes.
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
