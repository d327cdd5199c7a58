//! The application at a root: moves bytes from a source into the stream.

use crate::session::ledger::{ChunkSet, Form};
use crate::session::{Root, RootEvent, Trailer};
use ethbcast_transport::Instant;
use std::ops::ControlFlow;

/// Where a root's bytes come from.
pub trait Source {
    /// How the stream that it shows carries its content.
    fn form(&self) -> Form {
        Form::Plain
    }

    /// Whether it can show only a part of its content ([`select`](Source::select)): any part of it can be had at any
    /// time.
    fn selects(&self) -> bool {
        false
    }

    /// Receivers have some of the content already: from the first byte on it shows only what somebody lacks, for frames
    /// of so many bytes.
    fn select(&mut self, _frame_bytes: usize) {}

    /// The stretch of which it has to know what somebody lacks before it can go on.
    fn wants_choice(&self) -> Option<u64> {
        None
    }

    /// These chunks of that stretch are sent to all.
    fn choose(&mut self, _stretch: u64, _chunks: ChunkSet) {}

    /// What comes next. Asked only while there is room for it. `consumed` says whether every application has consumed
    /// all that was pushed ([`Root::is_consumed`]), for sources that wait for that.
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_>;

    /// The root has taken so many of the bytes that [`next`](Source::next) showed.
    fn advance(&mut self, bytes: usize);

    /// The `bytes` bytes from `offset` on, which have been shown before, for a receiver that lacks them when nobody
    /// keeps them any more. Asked again and again for the same ones while they are [`Again::Pending`].
    fn read_again(&mut self, _now: Instant, _offset: u64, _bytes: usize) -> Again<'_> {
        Again::Impossible("the source cannot be read again".to_owned())
    }

    /// As [`read_again`](Source::read_again), of the ledgered form of the whole content, whatever of it was shown.
    fn read_whole(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        self.read_again(now, offset, bytes)
    }

    /// Something has happened at the root. A break gives up: all are told this sentence.
    fn on_event(&mut self, _now: Instant, _event: &RootEvent) -> ControlFlow<String> {
        ControlFlow::Continue(())
    }
}

/// What a [`Source`] has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// The next bytes, one at least.
    Bytes(&'a [u8]),
    /// What was shown before is a message, which ends here.
    Message {
        /// Whether [`Root::is_consumed`] has to say soon when every application has consumed it.
        reported: bool,
    },
    /// Nothing yet; it will be asked again in the next turn.
    Nothing,
    /// Nothing before this moment.
    Until(Instant),
    /// That was all, and this is what it adds up to.
    End(Trailer),
    /// There will be no more: all are told this sentence.
    Failed(String),
}

/// What a [`Source`] has of bytes that it has shown before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again<'a> {
    /// These, as many as were asked for.
    Bytes(&'a [u8]),
    /// They are being read; the next turn will have them.
    Pending,
    /// It will never have them, for this reason.
    Impossible(String),
}

/// A [`Source`] at work.
#[derive(Clone, Debug)]
pub struct Sending<S> {
    source: S,
    trailer: Option<Trailer>,
    failed: Option<String>,
    selected: bool,
}

impl<S: Source> Sending<S> {
    /// Will send what `source` has.
    pub fn new(source: S) -> Sending<S> {
        Sending { source, trailer: None, failed: None, selected: false }
    }

    /// The application's turn at its root: takes note of events and pushes what there is room for. Returns when it
    /// wants to be called again, if it does not depend on the root.
    pub fn turn(&mut self, root: &mut Root, now: Instant) -> Option<Instant> {
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
                    let ended = if reported { root.end_message() } else { root.end_message_quietly() };
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

    /// Tells the source that only what somebody lacks is sent, and what that is.
    fn select(&mut self, root: &mut Root, now: Instant) {
        if root.is_selective() && !std::mem::replace(&mut self.selected, true) {
            self.source.select(root.streams().map_or(1, |streams| streams.payload_bytes()));
        }
        while let Some(stretch) = self.source.wants_choice()
            && let Some(chunks) = root.chosen(now, stretch)
        {
            self.source.choose(stretch, chunks);
        }
    }

    /// Reads again what members lack, as far as it is there already.
    fn supply(&mut self, root: &mut Root, now: Instant) {
        while let Some(wanted) = root.wants_again() {
            let bytes = (wanted.end - wanted.start) as usize;
            let again = match root.wants_of_whole() {
                true => self.source.read_whole(now, wanted.start, bytes),
                false => self.source.read_again(now, wanted.start, bytes),
            };
            match again {
                Again::Bytes(bytes) => root.supply(bytes),
                Again::Pending => break,
                Again::Impossible(text) => root.deny(now, &text),
            }
        }
    }

    /// Takes note of one event, for whoever wants to see the root's events, too.
    pub fn handle_event(&mut self, root: &mut Root, now: Instant, event: &RootEvent) {
        if let ControlFlow::Break(text) = self.source.on_event(now, event) {
            self.fail(root, now, text);
        }
    }

    fn fail(&mut self, root: &mut Root, now: Instant, text: String) {
        root.abort(now, &text);
        self.failed.get_or_insert(text);
    }

    /// The source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The source.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The source, when all is over.
    pub fn into_source(self) -> S {
        self.source
    }

    /// What all were told when the source gave up, if it did.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// What the stream added up to, once the source has come to its end.
    pub fn trailer(&self) -> Option<Trailer> {
        self.trailer
    }

    /// The same of the content that the stream carries.
    pub fn content(&self) -> Option<Trailer> {
        let form = self.source.form();
        self.trailer.map(|trailer| Trailer { bytes: form.content_bytes(trailer.bytes), ..trailer })
    }
}
