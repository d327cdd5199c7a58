//! Random simulation: the format of the transferred content, plain or with hashes for verification.

use super::application::{Disk, Origin};
use super::effects::Holding;
use ethbcast_collectives::session::application::{
    Again, Next, Sink, SinkState, Source, VerifiedSink, VerifiedStream,
};
use ethbcast_collectives::session::verified::{Checked, ChunkSize, Cut, Form, VerifiedSource};
use ethbcast_collectives::session::{Arrival, RootEvent};
use ethbcast_transport::Instant;
use std::ops::ControlFlow;
use std::sync::Arc;

#[derive(Debug)]
pub enum Given {
    Plain(Origin),
    Verified(Box<VerifiedSource<Origin>>),
}

#[derive(Debug)]
pub enum Taken {
    Plain(Box<Disk>),
    Checked(Box<Checked<Disk>>),
}

impl Given {
    pub fn new(form: Form, origin: Origin) -> Given {
        match form {
            Form::Plain => Given::Plain(origin),
            Form::Verified(chunk) => {
                Given::Verified(Box::new(VerifiedSource::of(origin).chunked(chunk)))
            }
        }
    }

    pub fn selecting(chunk: ChunkSize, origin: Origin) -> Given {
        let bytes = origin.content_bytes();
        Given::Verified(Box::new(
            VerifiedSource::of(origin.whole())
                .chunked(chunk)
                .selecting(bytes, Cut::None),
        ))
    }

    pub fn origin(&self) -> &Origin {
        match self {
            Given::Plain(origin) => origin,
            Given::Verified(verified) => verified.content(),
        }
    }

    fn source(&self) -> &dyn Source {
        match self {
            Given::Plain(origin) => origin,
            Given::Verified(verified) => verified.as_ref(),
        }
    }

    fn source_mut(&mut self) -> &mut dyn Source {
        match self {
            Given::Plain(origin) => origin,
            Given::Verified(verified) => verified.as_mut(),
        }
    }
}

impl Source for Given {
    fn form(&self) -> Form {
        self.source().form()
    }

    fn verified(&mut self) -> Option<&mut dyn VerifiedStream> {
        self.source_mut().verified()
    }

    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        self.source_mut().next(now, consumed)
    }

    fn advance(&mut self, bytes: usize) {
        self.source_mut().advance(bytes);
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        self.source_mut().read_again(now, offset, bytes)
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        self.source_mut().on_event(now, event)
    }
}

impl Taken {
    pub fn new(form: Form, disk: Disk) -> Taken {
        match form {
            Form::Plain => Taken::Plain(Box::new(disk)),
            Form::Verified(_) => Taken::Checked(Box::new(Checked::checking(disk))),
        }
    }

    pub fn holding(disk: Disk, holding: Holding) -> Taken {
        Taken::Checked(Box::new(Checked::checking(disk).holding(Arc::new(holding))))
    }

    pub fn own_bytes(&self) -> u64 {
        match self {
            Taken::Plain(_) => 0,
            Taken::Checked(checked) => checked.own_bytes(),
        }
    }

    pub fn disk(&self) -> &Disk {
        match self {
            Taken::Plain(disk) => disk,
            Taken::Checked(checked) => checked.content(),
        }
    }

    pub fn disk_mut(&mut self) -> &mut Disk {
        match self {
            Taken::Plain(disk) => disk,
            Taken::Checked(checked) => checked.content_mut(),
        }
    }

    pub fn damages(&self) -> usize {
        match self {
            Taken::Plain(_) => 0,
            Taken::Checked(checked) => checked.all_damages().len(),
        }
    }

    fn sink(&self) -> &dyn Sink {
        match self {
            Taken::Plain(disk) => disk.as_ref(),
            Taken::Checked(checked) => checked.as_ref(),
        }
    }

    fn sink_mut(&mut self) -> &mut dyn Sink {
        match self {
            Taken::Plain(disk) => disk.as_mut(),
            Taken::Checked(checked) => checked.as_mut(),
        }
    }
}

impl Sink for Taken {
    fn has_room(&self) -> bool {
        self.sink().has_room()
    }

    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        self.sink_mut().take(now, arrival);
    }

    fn publish(&mut self, now: Instant) -> bool {
        self.sink_mut().publish(now)
    }

    fn turn(&mut self, now: Instant) -> SinkState {
        self.sink_mut().turn(now)
    }

    /// Returns nothing without hash lists: then no byte is verified before the end.
    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        match self {
            Taken::Plain(_) => Again::Impossible("nothing is verified".to_owned()),
            Taken::Checked(checked) => checked.read_again(now, offset, bytes),
        }
    }

    fn verified(&mut self) -> Option<&mut dyn VerifiedSink> {
        self.sink_mut().verified()
    }
}
