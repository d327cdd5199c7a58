//! Conversion of bytes to and from hexadecimal digits.

use zeroize::Zeroizing;

/// Appends the digits of `bytes`. `text` must have room for them, so that no copy of a secret is left behind.
pub(super) fn write(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).expect("a digit is below 16"));
        }
    }
}

pub(super) fn read<const N: usize>(digits: &str) -> Option<Zeroizing<[u8; N]>> {
    let mut bytes = Zeroizing::new([0; N]);
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().as_chunks::<2>().0) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = (high? << 4 | low?) as u8;
    }
    Some(bytes)
}
