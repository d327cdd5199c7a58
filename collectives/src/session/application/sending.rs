//! Application of a sender: passes bytes from its source to the stream.

use crate::keys::ContentCipher;
use crate::session::message::{Digest, Done, Outcome, Trailer};
use crate::session::root::{Root, RootEvent};
use crate::session::verified::{ChunkSet, Form};
use ethbcast_transport::Instant;
use std::ops::ControlFlow;

/// Source of a root's bytes.
pub trait Source {
    /// Returns the form of the stream that it supplies.
    fn form(&self) -> Form {
        Form::Plain
    }

    /// Returns the next data. Called only while there is room. `consumed` says whether every
    /// application has consumed all that was pushed ([`Root::is_consumed`]); some sources wait for
    /// that.
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_>;

    /// Advances by `bytes` bytes that the root has taken of those returned by
    /// [`next`](Source::next).
    fn advance(&mut self, bytes: usize);

    /// Returns the `bytes` bytes from `offset` on again, for a receiver that lacks them when no
    /// member keeps them. Called repeatedly while they are [`Again::Pending`].
    fn read_again(&mut self, _now: Instant, _offset: u64, _bytes: usize) -> Again<'_> {
        Again::Impossible("the source cannot be read again".to_owned())
    }

    /// Handles an event of the root. `Break(text)` aborts the session with that text.
    fn on_event(&mut self, _now: Instant, _event: &RootEvent) -> ControlFlow<String> {
        ControlFlow::Continue(())
    }

    /// Returns the controls of a stream with hash lists.
    fn verified(&mut self) -> Option<&mut dyn VerifiedStream> {
        None
    }
}

/// Controls of a [`Source`] whose stream has hash lists: it can be encrypted, and selective where
/// receivers already hold part of the content.
pub trait VerifiedStream {
    /// Sets the cipher of the content, before the first data is asked for.
    fn protect(&mut self, cipher: ContentCipher);

    /// Whether any part of the content can be read at any time, so that the session can be
    /// [selective](VerifiedStream::select).
    fn selects(&self) -> bool;

    /// Makes the stream selective from the first byte on. Frames have `frame_bytes` bytes of
    /// payload.
    fn select(&mut self, frame_bytes: usize);

    /// Returns the stretch whose chunks must be [chosen](VerifiedStream::choose) before it can
    /// continue.
    fn wants_choice(&self) -> Option<u64>;

    /// Sets the chunks of a stretch that go to all.
    fn choose(&mut self, stretch: u64, chunks: ChunkSet);

    /// Returns bytes of the verified stream of the whole content, like
    /// [`read_again`](Source::read_again), no matter which part of it was sent.
    fn read_whole(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_>;

    /// Returns the bytes of the content that the first `stream` bytes of a
    /// [selective](VerifiedStream::select) stream complete; `None` if the stream is the content.
    fn covered(&self, stream: u64) -> Option<u64>;
}

/// Next data of a [`Source`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// The next bytes, at least one.
    Bytes(&'a [u8]),
    /// The end of a message.
    Message {
        /// Whether [`Root::is_consumed`] must soon report that every application has consumed the
        /// message.
        reported: bool,
    },
    /// Data is not available yet; the next turn tries again.
    Nothing,
    /// Data is not available before this time.
    Until(Instant),
    /// The end of the stream, with its length and digest.
    End(Trailer),
    /// A failure, whose text is sent to all members.
    Failed(String),
}

/// Re-read bytes of a [`Source`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again<'a> {
    /// The bytes, as many as requested.
    Bytes(&'a [u8]),
    /// The bytes are being read; try again in the next turn.
    Pending,
    /// The bytes are unavailable for good, for this reason.
    Impossible(String),
}

/// Driver of a [`Source`].
#[derive(Clone, Debug)]
pub struct Sending<S> {
    source: S,
    trailer: Option<Trailer>,
    failed: Option<String>,
    selected: bool,
    is_protected: bool,
}

impl<S: Source> Sending<S> {
    /// Creates a driver that sends the content of `source`.
    pub fn new(source: S) -> Sending<S> {
        Sending {
            source,
            trailer: None,
            failed: None,
            selected: false,
            is_protected: false,
        }
    }

    /// Runs the root's application for one turn: handles events and pushes data while there is
    /// room. Returns the time of the next turn, if that does not depend on the root.
    pub fn turn(&mut self, root: &mut Root, now: Instant) -> Option<Instant> {
        if !std::mem::replace(&mut self.is_protected, true)
            && let Some(verified) = self.source.verified()
        {
            verified.protect(root.content_cipher());
        }
        while let Some(event) = root.poll_event() {
            self.handle_event(root, now, &event);
        }
        self.supply(root, now);
        while root.wants_data() {
            self.select(root, now);
            match self.source.next(now, root.is_consumed()) {
                Next::Bytes(bytes) => {
                    let taken = root.push(bytes);
                    self.source.advance(taken);
                }
                Next::Message { reported } => {
                    let ended = if reported {
                        root.end_message()
                    } else {
                        root.end_message_quietly()
                    };
                    debug_assert!(ended, "a root that wants data ends a message");
                }
                Next::End(trailer) => {
                    self.trailer = Some(trailer);
                    root.finish(trailer);
                }
                Next::Failed(text) => self.fail(root, now, text),
                Next::Until(moment) => return Some(moment),
                Next::Nothing => break,
            }
        }
        None
    }

    fn select(&mut self, root: &mut Root, now: Instant) {
        let Some(verified) = self.source.verified() else {
            return;
        };
        if root.is_selective() && !std::mem::replace(&mut self.selected, true) {
            verified.select(root.streams().map_or(1, |streams| streams.payload_bytes()));
        }
        while let Some(stretch) = verified.wants_choice()
            && let Some(chunks) = root.chosen(now, stretch)
        {
            verified.choose(stretch, chunks);
        }
    }

    fn supply(&mut self, root: &mut Root, now: Instant) {
        while let Some(wanted) = root.wants_again() {
            let bytes = (wanted.end - wanted.start) as usize;
            let of_whole = root.wants_of_whole();
            let again = match self.source.verified().filter(|_| of_whole) {
                Some(verified) => verified.read_whole(now, wanted.start, bytes),
                None => self.source.read_again(now, wanted.start, bytes),
            };
            match again {
                Again::Bytes(bytes) => root.supply(bytes),
                Again::Pending => break,
                Again::Impossible(text) => root.deny(now, &text),
            }
        }
    }

    /// Handles one event, for callers that also inspect the root's events.
    pub fn handle_event(&mut self, root: &mut Root, now: Instant, event: &RootEvent) {
        if let ControlFlow::Break(text) = self.source.on_event(now, event) {
            self.fail(root, now, text);
        }
    }

    fn fail(&mut self, root: &mut Root, now: Instant, text: String) {
        root.abort(now, &text);
        self.failed.get_or_insert(text);
    }

    /// Returns the source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Returns the source, mutably.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Returns the text with which the source failed, if it did.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Returns length and digest of the stream, once the source has ended.
    pub fn trailer(&self) -> Option<Trailer> {
        self.trailer
    }

    /// Returns length and digest of the content.
    pub fn content(&self) -> Option<Trailer> {
        let form = self.source.form();
        self.trailer.map(|trailer| Trailer {
            bytes: form.content_bytes(trailer.bytes),
            ..trailer
        })
    }
}

/// Error of a stream whose received bytes differ from those sent, in content or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {received} bytes received do not match the sender's {sent} bytes: send again")]
pub struct Mismatch {
    received: u64,
    sent: u64,
}

/// Counts and digests (BLAKE3) the bytes of a stream, at either end.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    bytes: u64,
    hasher: blake3::Hasher,
}

impl Tally {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the BLAKE3 digest of all bytes.
    pub fn digest(&self) -> Digest {
        *self.hasher.finalize().as_bytes()
    }

    /// Returns the trailer of a stream of these bytes.
    pub fn trailer(&self) -> Trailer {
        Trailer {
            bytes: self.bytes,
            digest: self.digest(),
        }
    }

    /// Checks that the counted bytes are those that the sender announced.
    ///
    /// # Errors
    /// If length or digest differ.
    pub fn verify(&self, trailer: Trailer) -> Result<(), Mismatch> {
        if trailer == self.trailer() {
            return Ok(());
        }
        Err(Mismatch {
            received: self.bytes,
            sent: trailer.bytes,
        })
    }

    /// Creates a verdict on these bytes.
    pub fn verdict(&self, outcome: Outcome, text: impl Into<String>) -> Done {
        Done {
            outcome,
            bytes: self.bytes,
            digest: self.digest(),
            text: text.into(),
        }
    }
}
