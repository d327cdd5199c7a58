//! Reading and writing of control messages: big-endian numbers, reserved bytes, length-prefixed
//! strings.

/// Longest name of a host or of a content, in bytes: its length is one byte.
pub const MAX_NAME_BYTES: usize = 255;

/// Whether a name may contain this character where people read it. Control characters, on which a
/// terminal acts, and characters that break the line or turn its direction are refused.
pub fn is_shown(letter: char) -> bool {
    !letter.is_control() && !matches!(letter, '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[derive(Debug, Default)]
pub(crate) struct BodyWriter(Vec<u8>);

impl BodyWriter {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// Appends a whole name; one of more than [`MAX_NAME_BYTES`] has been refused earlier.
    pub(crate) fn name(&mut self, text: &str) -> &mut Self {
        self.text(text)
    }

    /// Appends a sentence, truncated at a character boundary if it is longer than 255 bytes.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        let text = within_name_bytes(text);
        self.u8(text.len() as u8).bytes(text.as_bytes())
    }
}

fn within_name_bytes(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_NAME_BYTES))
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    &text[..end]
}

/// Reader of a message body's fields; every read returns `None` beyond the end.
#[derive(Debug)]
pub(crate) struct BodyReader<'a>(&'a [u8]);

impl<'a> BodyReader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> BodyReader<'a> {
        BodyReader(body)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// Reads a string. Characters that may not be shown, and invalid UTF-8, become U+FFFD.
    pub(crate) fn text(&mut self) -> Option<String> {
        let length = usize::from(self.u8()?);
        let text = String::from_utf8_lossy(self.bytes(length)?);
        // Replacement characters may be longer than the bytes they replace.
        Some(within_name_bytes(&text.replace(|letter| !is_shown(letter), "\u{FFFD}")).to_owned())
    }
}

macro_rules! numbers {
    ($($number:ident),*) => {
        impl BodyWriter {
            $(pub(crate) fn $number(&mut self, value: $number) -> &mut Self {
                self.bytes(&value.to_be_bytes())
            })*
        }

        impl BodyReader<'_> {
            $(pub(crate) fn $number(&mut self) -> Option<$number> {
                Some($number::from_be_bytes(self.array()?))
            })*
        }
    };
}

numbers!(u8, u16, u32, u64);

/// Spells the ranks whose bits are set, least significant bit first, as `1-3,5`.
pub(crate) fn ranks(bitmap: &[u8]) -> String {
    let set = |rank: usize| {
        bitmap
            .get(rank / 8)
            .is_some_and(|byte| byte >> (rank % 8) & 1 == 1)
    };
    let mut runs = Vec::new();
    let mut rank = 0;
    while rank < bitmap.len() * 8 {
        let end = (rank..).find(|&rank| !set(rank)).unwrap_or(rank);
        match end - rank {
            0 => {}
            1 => runs.push(rank.to_string()),
            _ => runs.push(format!("{rank}-{}", end - 1)),
        }
        rank = end + 1;
    }
    runs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_bitmap_are_printed_as_ranges() {
        assert_eq!(ranks(&[0b0010_1110, 0b1000_0001]), "1-3,5,8,15");
        assert_eq!(
            (ranks(&[]), ranks(&[0]), ranks(&[255, 1])),
            (String::new(), String::new(), "0-8".to_owned())
        );
    }

    #[test]
    fn a_text_off_the_wire_has_no_control_characters() {
        let mut writer = BodyWriter::default();
        writer.text("n1\x1b]0;owned\x07\r\n\u{9b}2J\u{202e} é");
        let wire = writer.into_bytes();
        let shown = "n1\u{fffd}]0;owned\u{fffd}\u{fffd}\u{fffd}\u{fffd}2J\u{fffd} é";
        assert_eq!(BodyReader::new(&wire).text().as_deref(), Some(shown));
        assert_eq!(
            BodyReader::new(&[2, b'a', 0xff]).text().as_deref(),
            Some("a\u{fffd}")
        );
        assert_eq!(BodyReader::new(&wire[..9]).text(), None, "cut short");
    }
}
