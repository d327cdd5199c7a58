//! Key phrases: a secret of 128 bits as nine pronounceable words, to be typed by hand. The words
//! are proquints (Wilkerson 2009): consonant, vowel, consonant, vowel, consonant are 16 bits.

use super::file::Keys;
use super::schedule::Secret;
use super::signer::Signer;
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
const VOWELS: &[u8; 4] = b"aiou";
const WORDS: usize = 9;
const LETTERS: usize = 5;
const SECRET_BYTES: usize = 16;

/// A key phrase. It is zeroized when dropped.
#[derive(Clone)]
pub struct Phrase([u8; SECRET_BYTES]);

/// Mistake in a phrase.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PhraseError {
    #[error("a key phrase has nine words of five letters, and this has {words}")]
    Words { words: usize },
    #[error("word {word} is in no key phrase: five letters, as in babad or zomut")]
    Word {
        /// Place of the word, from 1.
        word: usize,
    },
    /// The words do not belong together, and another letter in one of these makes them fit.
    #[error("there is a mistake in word {}", listed(words))]
    Letter {
        /// Places of the words, from 1.
        words: Vec<usize>,
    },
    #[error("there are mistakes in more than one word: nine words of five letters")]
    Letters,
}

fn listed(words: &[usize]) -> String {
    words
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join(" or ")
}

impl Phrase {
    /// Makes a phrase of bytes drawn at random.
    pub const fn new(drawn: [u8; SECRET_BYTES]) -> Phrase {
        Phrase(drawn)
    }

    /// Reads a phrase as it was typed: words separated by spaces or hyphens, in upper or lower
    /// case.
    ///
    /// # Errors
    /// The word with a mistake in it.
    pub fn parse(text: &str) -> Result<Phrase, PhraseError> {
        let parts = text.split(|letter: char| letter == '-' || letter.is_whitespace());
        let words: Vec<&str> = parts.filter(|word| !word.is_empty()).collect();
        if words.len() != WORDS {
            return Err(PhraseError::Words { words: words.len() });
        }
        let mut typed = Zeroizing::new([0; WORDS]);
        for (at, word) in words.iter().enumerate() {
            typed[at] = value(word).ok_or(PhraseError::Word { word: at + 1 })?;
        }
        Phrase::checked(&typed).ok_or_else(|| mistaken(&typed))
    }

    fn checked(words: &[u16; WORDS]) -> Option<Phrase> {
        let [secret @ .., check] = words;
        let mut phrase = Phrase([0; SECRET_BYTES]);
        for (bytes, word) in phrase.0.as_chunks_mut::<2>().0.iter_mut().zip(secret) {
            *bytes = word.to_be_bytes();
        }
        (phrase.check() == *check).then_some(phrase)
    }

    fn check(&self) -> u16 {
        let [first, second, ..] = *Secret::derive("ethbcast 7 phrase check", &[&self.0]).expose();
        u16::from_be_bytes([first, second])
    }

    /// Returns the nine words.
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(WORDS * (LETTERS + 1)));
        let secret = self
            .0
            .as_chunks::<2>()
            .0
            .iter()
            .map(|&bytes| u16::from_be_bytes(bytes));
        for (at, word) in secret.chain([self.check()]).enumerate() {
            if at > 0 {
                text.push('-');
            }
            text.extend(letters(word));
        }
        text
    }

    /// Returns the keys: anyone who knows the phrase may send.
    pub fn keys(&self) -> Keys {
        let cluster = Secret::derive("ethbcast 7 phrase", &[&self.0]);
        let signer = Signer::new(&Secret::derive("ethbcast 7 phrase sign", &[&self.0]));
        Keys::new(cluster, signer, "phrase").expect("the name is a word")
    }
}

impl Drop for Phrase {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Phrase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Phrase(…)")
    }
}

/// Bits of the word before each letter, first to last.
const SHIFTS: [u32; LETTERS] = [12, 10, 6, 4, 0];

fn alphabet(at: usize) -> &'static [u8] {
    if at.is_multiple_of(2) {
        CONSONANTS
    } else {
        VOWELS
    }
}

fn letters(word: u16) -> impl Iterator<Item = char> {
    SHIFTS.into_iter().enumerate().map(move |(at, shift)| {
        let alphabet = alphabet(at);
        char::from(alphabet[usize::from(word >> shift) % alphabet.len()])
    })
}

fn value(word: &str) -> Option<u16> {
    let letters: &[u8; LETTERS] = word.as_bytes().try_into().ok()?;
    let mut value = 0;
    for (at, letter) in letters.iter().enumerate() {
        let place = alphabet(at)
            .iter()
            .position(|known| *known == letter.to_ascii_lowercase())?;
        value |= (place as u16) << SHIFTS[at];
    }
    Some(value)
}

/// Finds the words that one other letter would make right.
fn mistaken(typed: &[u16; WORDS]) -> PhraseError {
    let may_be = |at: &usize| {
        let others = (0..LETTERS).flat_map(|letter| {
            let count = alphabet(letter).len() as u16;
            (1..count).map(move |other| other << SHIFTS[letter])
        });
        others.into_iter().any(|other| {
            let mut words = Zeroizing::new(*typed);
            words[*at] ^= other;
            Phrase::checked(&words).is_some()
        })
    };
    let words: Vec<usize> = (0..WORDS).filter(may_be).map(|at| at + 1).collect();
    if words.is_empty() {
        PhraseError::Letters
    } else {
        PhraseError::Letter { words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "babad-bamag-bibaj-bimal-boban-bomar-bubat-bumaz-domut";

    fn drawn() -> [u8; SECRET_BYTES] {
        std::array::from_fn(|at| at as u8)
    }

    fn error(text: &str) -> Option<PhraseError> {
        Phrase::parse(text).err()
    }

    #[test]
    fn what_is_shown_is_read_however_it_was_typed() {
        assert_eq!(Phrase::new(drawn()).text().as_str(), TEXT);
        for typed in [
            TEXT.to_owned(),
            TEXT.to_uppercase(),
            format!("  {}\n", TEXT.replace('-', " ")),
        ] {
            assert_eq!(
                Phrase::parse(&typed).expect("it is right").text().as_str(),
                TEXT
            );
        }
        let other = Phrase::new([0xA5; SECRET_BYTES]);
        assert_eq!(
            Phrase::parse(&other.text()).expect("it is right").text(),
            other.text()
        );
    }

    #[test]
    fn of_any_wrong_letter_the_word_is_named() {
        for (at, letter) in TEXT.char_indices().filter(|(_, letter)| *letter != '-') {
            let alphabet = if "aiou".contains(letter) {
                "aioue"
            } else {
                "bdfghjklmnprstvzc"
            };
            for other in alphabet.chars().filter(|other| *other != letter) {
                let mut typed = TEXT.to_owned();
                typed.replace_range(at..=at, other.encode_utf8(&mut [0; 4]));
                let word = at / (LETTERS + 1) + 1;
                match error(&typed).expect("it is wrong") {
                    PhraseError::Word { word: named } => assert_eq!(named, word, "{typed}"),
                    PhraseError::Letter { words } => {
                        assert!(words.contains(&word) && words.len() <= 3, "{typed}")
                    }
                    other => panic!("{typed}: {other}"),
                }
            }
        }
    }

    #[test]
    fn more_than_a_letter_is_wrong() {
        assert_eq!(error(""), Some(PhraseError::Words { words: 0 }));
        assert_eq!(
            error(&TEXT[..TEXT.len() - 6]),
            Some(PhraseError::Words { words: 8 })
        );
        assert_eq!(
            error(&TEXT.replace("bibaj", "bib")),
            Some(PhraseError::Word { word: 3 })
        );
        assert_eq!(
            error(&TEXT.replace("bibaj", "b\u{e9}baj")),
            Some(PhraseError::Word { word: 3 })
        );
        let wrong = TEXT.replace("bibaj", "zozoz").replace("boban", "lulul");
        let told = error(&wrong).expect("it is wrong").to_string();
        assert!(
            told.starts_with("there are mistakes in more than one word"),
            "{told}"
        );
    }

    #[test]
    fn whoever_knows_the_phrase_may_send() {
        let keys = Phrase::new(drawn()).keys();
        assert_eq!(
            (keys.name().to_string().as_str(), keys.may_send()),
            ("34e4-5e6d", true)
        );
        assert_eq!(format!("{:?}", Phrase::new(drawn())), "Phrase(…)");
    }
}
