//! Format of key files: text, one item per line, comments after `#`.
//!
//! ```text
//! ethbcast-key 1
//! cluster 64 digits, then 8 check digits    secret of all hosts; up to four, the first is used to send
//! sender 64 digits, then a name             who may send; up to 16
//! sign 64 digits                            in the files of senders alone
//! ```

use super::hex;
use super::log::KeyLog;
use super::schedule::Secret;
use super::signer::{PublicKey, Signer};
use ethbcast_transport::wire::PayloadHash;
use std::fmt;
use zeroize::Zeroizing;

/// Longest key file, in bytes.
pub const MAX_KEY_FILE_BYTES: usize = 16 << 10;

/// Key file of a machine.
pub const KEY_PATH: &str = "/etc/ethbcast/key";
/// Environment variable with a key phrase.
pub const PHRASE_VARIABLE: &str = "ETHBCAST_KEY";
/// Environment variable with the path of a key file.
pub const FILE_VARIABLE: &str = "ETHBCAST_KEY_FILE";
/// Environment variable that is 1 where a machine's key decides nothing.
pub const NO_KEY_VARIABLE: &str = "ETHBCAST_NO_KEY";

const FIRST: &str = "ethbcast-key";
const VERSION: &str = "1";
const MAX_CLUSTERS: usize = 4;
const MAX_SENDERS: usize = 16;
const MAX_SENDER_NAME_BYTES: usize = 64;
const CHECK_BYTES: usize = 4;

/// Keys of a host.
#[derive(Clone)]
pub struct Keys {
    clusters: Vec<Secret>,
    senders: Vec<SenderKey>,
    signer: Option<Signer>,
    log: Option<KeyLog>,
}

/// The public key of a sender, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderKey {
    /// Public key.
    pub key: PublicKey,
    /// Name, for people.
    pub name: String,
}

/// Name of a cluster's secret: it identifies the secret and reveals nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(pub [u8; 8]);

impl KeyName {
    /// Returns the name of a cluster's secret.
    pub fn of(cluster: &Secret) -> KeyName {
        let [a, b, c, d, e, f, g, h, ..] =
            *Secret::derive("ethbcast 7 name", &[cluster.expose()]).expose();
        KeyName([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(formatter, "{a:02x}{b:02x}-{c:02x}{d:02x}")
    }
}

/// Mistake in a key file. Messages contain nothing of its secrets.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    #[error("line {line}: this is no key file: its first item is `{FIRST} {VERSION}`")]
    First { line: usize },
    #[error(
        "line {line}: this key file is of another version than {VERSION}: install the same build on all hosts"
    )]
    Version { line: usize },
    #[error("line {line}: unknown item; known are `cluster`, `sender` and `sign`")]
    Unknown { line: usize },
    #[error("line {line}: {form}")]
    Form { line: usize, form: &'static str },
    #[error("line {line}: a digit of `cluster` is wrong: copy the file again")]
    Check { line: usize },
    #[error("line {line}: the same `{item}` stands above: remove one of them")]
    Twice { line: usize, item: &'static str },
    #[error("line {line}: more than {most} `{item}` lines: remove those that are no longer used")]
    Many {
        line: usize,
        item: &'static str,
        most: usize,
    },
    #[error("the file has no `{item}` line")]
    Lacking { item: &'static str },
    #[error("the key in `sign` is in no `sender` line: its receivers would refuse it")]
    UnknownSigner,
    #[error("the last line has no end: the file was cut short; copy it again")]
    Cut,
    #[error("the file is longer than {MAX_KEY_FILE_BYTES} bytes: it is no key file")]
    Long,
}

impl Keys {
    /// Makes keys of a new cluster with one sender.
    ///
    /// # Errors
    /// A name that cannot stand in a key file.
    pub fn new(cluster: Secret, signer: Signer, sender: &str) -> Result<Keys, KeyFileError> {
        let name = named(sender)
            .ok_or(KeyFileError::Form {
                line: 0,
                form: SENDER_FORM,
            })?
            .to_owned();
        let senders = vec![SenderKey {
            key: signer.public(),
            name,
        }];
        Ok(Keys {
            clusters: vec![cluster],
            senders,
            signer: Some(signer),
            log: None,
        })
    }

    /// Reads the text of a key file.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Keys, KeyFileError> {
        if text.len() > MAX_KEY_FILE_BYTES {
            return Err(KeyFileError::Long);
        }
        let mut keys = Keys {
            clusters: Vec::new(),
            senders: Vec::new(),
            signer: None,
            log: None,
        };
        let mut has_begun = false;
        for (at, line) in text.lines().enumerate() {
            let (items, line) = (line.split('#').next().unwrap_or_default(), at + 1);
            let words: Vec<&str> = items.split_whitespace().collect();
            match words[..] {
                [] => {}
                [FIRST, VERSION] if !has_begun => has_begun = true,
                [FIRST, _] if !has_begun => return Err(KeyFileError::Version { line }),
                _ if !has_begun => return Err(KeyFileError::First { line }),
                ["cluster", ..] => keys.read_cluster(line, &words)?,
                ["sender", ..] => keys.read_sender(line, &words)?,
                ["sign", ..] => keys.read_sign(line, &words)?,
                _ => return Err(KeyFileError::Unknown { line }),
            }
        }
        if !has_begun {
            return Err(KeyFileError::First { line: 1 });
        }
        if !text.ends_with('\n') {
            return Err(KeyFileError::Cut);
        }
        keys.judged()
    }

    fn read_cluster(&mut self, line: usize, words: &[&str]) -> Result<(), KeyFileError> {
        let wrong = KeyFileError::Form {
            line,
            form: "`cluster` has 64 digits of a secret, then 8 check digits",
        };
        let [_, digits, check] = *words else {
            return Err(wrong);
        };
        let (Some(bytes), Some(check)) = (hex::read::<32>(digits), hex::read::<CHECK_BYTES>(check))
        else {
            return Err(wrong);
        };
        let cluster = Secret::new(*bytes);
        if check_of(&cluster) != *check {
            return Err(KeyFileError::Check { line });
        }
        if self.clusters.contains(&cluster) {
            return Err(KeyFileError::Twice {
                line,
                item: "cluster",
            });
        }
        self.clusters.push(cluster);
        at_most(MAX_CLUSTERS, self.clusters.len(), line, "cluster")
    }

    fn read_sender(&mut self, line: usize, words: &[&str]) -> Result<(), KeyFileError> {
        let wrong = KeyFileError::Form {
            line,
            form: SENDER_FORM,
        };
        let [_, digits, name] = *words else {
            return Err(wrong);
        };
        let (Some(bytes), Some(name)) = (hex::read::<32>(digits), named(name)) else {
            return Err(wrong);
        };
        let key = PublicKey::new(&bytes).ok_or(KeyFileError::Form {
            line,
            form: "this is no key of a sender",
        })?;
        if self.senders.iter().any(|sender| sender.key == key) {
            return Err(KeyFileError::Twice {
                line,
                item: "sender",
            });
        }
        self.senders.push(SenderKey {
            key,
            name: name.to_owned(),
        });
        at_most(MAX_SENDERS, self.senders.len(), line, "sender")
    }

    fn read_sign(&mut self, line: usize, words: &[&str]) -> Result<(), KeyFileError> {
        let wrong = KeyFileError::Form {
            line,
            form: "`sign` has 64 digits",
        };
        let [_, digits] = *words else {
            return Err(wrong);
        };
        let seed = Secret::new(*hex::read(digits).ok_or(wrong)?);
        if self.signer.replace(Signer::new(&seed)).is_some() {
            return Err(KeyFileError::Twice { line, item: "sign" });
        }
        Ok(())
    }

    fn judged(self) -> Result<Keys, KeyFileError> {
        if self.clusters.is_empty() {
            return Err(KeyFileError::Lacking { item: "cluster" });
        }
        if self.senders.is_empty() {
            return Err(KeyFileError::Lacking { item: "sender" });
        }
        let is_known = |signer: &Signer| self.sender(signer.public().bytes()).is_some();
        if self.signer.as_ref().is_some_and(|signer| !is_known(signer)) {
            return Err(KeyFileError::UnknownSigner);
        }
        Ok(self)
    }

    /// Returns the text of a file with these keys.
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_FILE_BYTES));
        text.extend([FIRST, " ", VERSION, "\n"]);
        for cluster in &self.clusters {
            text.push_str("cluster ");
            hex::write(&mut text, cluster.expose());
            text.push(' ');
            hex::write(&mut text, &check_of(cluster));
            text.push('\n');
        }
        for SenderKey { key, name } in &self.senders {
            text.push_str("sender ");
            hex::write(&mut text, key.bytes());
            text.push(' ');
            text.push_str(name);
            text.push('\n');
        }
        if let Some(signer) = &self.signer {
            text.push_str("sign ");
            hex::write(&mut text, signer.seed().expose());
            text.push('\n');
        }
        text
    }

    /// Logs the secrets of all sessions from now on.
    pub fn logged(self, log: KeyLog) -> Keys {
        Keys {
            log: Some(log),
            ..self
        }
    }

    pub(crate) fn note(&self, session: u32, hash: PayloadHash, secret: &Secret) {
        self.log
            .iter()
            .for_each(|log| log.note(session, hash, secret));
    }

    /// Returns the same keys without the right to send.
    pub fn of_receivers(&self) -> Keys {
        Keys {
            signer: None,
            ..self.clone()
        }
    }

    /// Puts another cluster's secret before the present ones; it is used to send from now on.
    ///
    /// # Errors
    /// If there are four already, or it is one of them.
    pub fn add(&mut self, cluster: Secret) -> Result<(), KeyFileError> {
        if self.clusters.contains(&cluster) {
            return Err(KeyFileError::Twice {
                line: 0,
                item: "cluster",
            });
        }
        at_most(MAX_CLUSTERS, self.clusters.len() + 1, 0, "cluster")?;
        self.clusters.insert(0, cluster);
        Ok(())
    }

    /// Returns the cluster's secrets; the first is used to send, all are accepted.
    pub fn clusters(&self) -> &[Secret] {
        &self.clusters
    }

    /// Returns the names of the cluster's secrets, beginning with the one used to send.
    pub fn names(&self) -> impl Iterator<Item = KeyName> + '_ {
        self.clusters.iter().map(KeyName::of)
    }

    /// Returns the name of the secret used to send.
    pub fn name(&self) -> KeyName {
        KeyName::of(&self.clusters[0])
    }

    /// Returns the name of a sender by its public key; `None` for one that may not send.
    pub fn sender(&self, public: &[u8; 32]) -> Option<&str> {
        let sender = self
            .senders
            .iter()
            .find(|sender| sender.key.bytes() == public)?;
        Some(&sender.name)
    }

    /// Returns all senders.
    pub fn senders(&self) -> &[SenderKey] {
        &self.senders
    }

    /// Returns the key that signs, at a host that may send.
    pub fn signer(&self) -> Option<&Signer> {
        self.signer.as_ref()
    }

    /// Whether a host with these keys may send.
    pub fn may_send(&self) -> bool {
        self.signer.is_some()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Keys({})", self.name())
    }
}

const SENDER_FORM: &str = "`sender` has 64 digits and a name of letters, digits, dots and hyphens";

fn named(name: &str) -> Option<&str> {
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    ((1..=MAX_SENDER_NAME_BYTES).contains(&name.len()) && name.chars().all(is_plain))
        .then_some(name)
}

fn check_of(cluster: &Secret) -> [u8; CHECK_BYTES] {
    let [a, b, c, d, ..] = *Secret::derive("ethbcast 7 check", &[cluster.expose()]).expose();
    [a, b, c, d]
}

fn at_most(most: usize, count: usize, line: usize, item: &'static str) -> Result<(), KeyFileError> {
    if count > most {
        Err(KeyFileError::Many { line, item, most })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        let [cluster, seed] = [[1; 32], [2; 32]].map(Secret::new);
        Keys::new(cluster, Signer::new(&seed), "n0").expect("a name")
    }

    fn error(text: &str) -> String {
        Keys::parse(text).expect_err("it is wrong").to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        let mut keys = keys();
        keys.add(Secret::new([3; 32])).expect("there is room");
        let read = Keys::parse(&keys.text()).expect("it was written");
        assert_eq!(
            (read.text(), read.clusters(), read.may_send()),
            (keys.text(), keys.clusters(), true)
        );
        assert_eq!(
            (read.name(), read.clusters().len()),
            (KeyName::of(&Secret::new([3; 32])), 2),
            "the new one"
        );
        let text = keys.text().replace('\n', "   # a comment\r\n\n#\n");
        assert_eq!(
            Keys::parse(&text).expect("comments are nothing").text(),
            keys.text()
        );
    }

    #[test]
    fn receivers_get_all_but_the_right_to_send() {
        let receivers = Keys::parse(&keys().of_receivers().text()).expect("it was written");
        assert!(!receivers.may_send() && !receivers.text().contains("sign "));
        let public = keys().signer().map(Signer::public).expect("it may send");
        assert_eq!(
            (receivers.sender(public.bytes()), receivers.sender(&[7; 32])),
            (Some("n0"), None)
        );
        assert_eq!(receivers.name(), keys().name());
    }

    #[test]
    fn each_mistake_is_told_with_its_line_and_without_a_secret() {
        let text = keys().text();
        let lines: Vec<&str> = text.lines().collect();
        let [first, cluster, sender, sign] = lines[..] else {
            panic!("{lines:?}")
        };
        let file = |lines: &[&str]| {
            lines
                .iter()
                .flat_map(|line| [line, "\n"])
                .collect::<String>()
        };
        let wrong_digit = cluster.replacen("0101", "0111", 1);
        let other = Keys::new(
            Secret::new([9; 32]),
            Signer::new(&Secret::new([9; 32])),
            "n9",
        )
        .expect("a name");
        let many: String = (10..15).map(|byte| cluster_line(byte) + "\n").collect();
        for (text, told) in [
            (String::new(), "line 1: this is no key file"),
            (file(&[cluster]), "line 1: this is no key file"),
            (
                file(&["", "ethbcast-key 2", cluster]),
                "line 2: this key file is of another version",
            ),
            (
                file(&[first, cluster, sender, "host n1 00"]),
                "line 4: unknown item",
            ),
            (file(&[first, first, cluster]), "line 2: unknown item"),
            (
                file(&[first, &wrong_digit, sender]),
                "line 2: a digit of `cluster` is wrong",
            ),
            (
                file(&[first, &cluster[..40], sender]),
                "line 2: `cluster` has 64 digits",
            ),
            (
                file(&[first, cluster, cluster, sender]),
                "line 3: the same `cluster` stands above",
            ),
            (
                file(&[first, cluster, sender, sender]),
                "line 4: the same `sender` stands above",
            ),
            (
                file(&[first, cluster, sender, sign, sign]),
                "line 5: the same `sign` stands above",
            ),
            (
                file(&[first, cluster, &sender[..60]]),
                "line 3: `sender` has 64 digits",
            ),
            (
                file(&[first, cluster, &format!("sender {} n0", "00".repeat(32))]),
                "line 3: this is no key of a sender",
            ),
            (
                file(&[first, cluster, sender, &sign[..30]]),
                "line 4: `sign` has 64 digits",
            ),
            (
                format!("{first}\n{many}{sender}\n"),
                "line 6: more than 4 `cluster` lines",
            ),
            (file(&[first, sender]), "the file has no `cluster` line"),
            (file(&[first, cluster]), "the file has no `sender` line"),
            (
                file(&[
                    first,
                    cluster,
                    other.text().lines().nth(2).expect("a sender"),
                    sign,
                ]),
                "the key in `sign` is in no",
            ),
            (text.trim_end().to_owned(), "the last line has no end"),
            (
                "#".repeat(MAX_KEY_FILE_BYTES + 1),
                "the file is longer than",
            ),
        ] {
            let error = error(&text);
            assert!(error.starts_with(told), "{error}: {told}");
            assert!(
                !error.contains("0101") && !error.contains("0202"),
                "{error}"
            );
        }
    }

    fn cluster_line(at: u8) -> String {
        let keys = Keys::new(
            Secret::new([at; 32]),
            Signer::new(&Secret::new([9; 32])),
            "n9",
        )
        .expect("a name");
        keys.text().lines().nth(1).expect("a cluster").to_owned()
    }

    #[test]
    fn a_fifth_secret_finds_no_room_and_a_known_one_no_second_place() {
        let mut keys = keys();
        assert_eq!(
            keys.add(Secret::new([1; 32]))
                .map_err(|error| error.to_string().contains("stands above")),
            Err(true)
        );
        (3..6).for_each(|byte| keys.add(Secret::new([byte; 32])).expect("there is room"));
        assert!(keys.add(Secret::new([6; 32])).is_err());
        assert_eq!(format!("{keys:?}"), format!("Keys({})", keys.name()));
    }

    #[test]
    fn a_name_of_a_sender_is_one_plain_word() {
        let long = "n".repeat(MAX_SENDER_NAME_BYTES + 1);
        for name in ["", "a b", "a#", "\u{e9}", "a\nsign", &long] {
            assert!(
                Keys::new(
                    Secret::new([1; 32]),
                    Signer::new(&Secret::new([2; 32])),
                    name
                )
                .is_err(),
                "{name}"
            );
        }
    }
}
