//! Text and numbers as shown in the page. Names may come from the network or an untrusted file: the
//! renderer escapes them, and invisible or direction-changing characters are replaced here.

use crate::units;
use ethbcast_collectives::membership::is_shown;

/// Length at which a text is cut; no regular name or sentence is as long.
const MAX_CHARACTERS: usize = 400;

/// Returns the text without misleading characters.
pub fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(MAX_CHARACTERS).map(|letter| if is_seen(letter) { letter } else { '\u{FFFD}' }).collect();
    if text.chars().nth(MAX_CHARACTERS).is_some() {
        shown.push('…');
    }
    shown
}

/// Whether a character is harmless in a page: shown anywhere, not invisible, and not forbidden by XML.
fn is_seen(letter: char) -> bool {
    let is_invisible = matches!(letter, '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}');
    is_shown(letter) && !is_invisible && !matches!(letter, '\u{FFFE}' | '\u{FFFF}')
}

pub fn time(seconds: f64) -> String {
    if !(-1.0..1e9).contains(&seconds) {
        return "?".to_owned();
    }
    if seconds >= 600.0 {
        let whole = seconds.round() as u64;
        return format!("{} min {:02} s", whole / 60, whole % 60);
    }
    if seconds >= 1.0 || seconds <= 0.0 { format!("{seconds:.2} s") } else { format!("{:.1} ms", seconds * 1000.0) }
}

pub fn rate(bytes: u64, seconds: f64) -> String {
    if seconds > 0.0 { units::rate(bytes as f64 * 8.0 / seconds) } else { "-".to_owned() }
}

pub fn command_line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_replaced() {
        assert_eq!(shown("n1\u{202E}\u{7}\n<b>"), "n1\u{FFFD}\u{FFFD}\u{FFFD}<b>");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), MAX_CHARACTERS + 1);
    }

    #[test]
    fn a_command_line_is_quoted_for_a_shell() {
        let words = ["ethbcast", "send", "--hosts", "n[1-3]", "it's", ""].map(str::to_owned);
        assert_eq!(command_line(&words), r"ethbcast send --hosts 'n[1-3]' 'it'\''s' ''");
    }

    #[test]
    fn times_are_as_exact_as_they_matter() {
        assert_eq!([0.0, 0.0125, 3.2041, 754.4].map(time), ["0.00 s", "12.5 ms", "3.20 s", "12 min 34 s"]);
    }
}
