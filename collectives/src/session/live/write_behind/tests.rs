//! A storage that is slow, full, or told twice.

use super::*;
use crate::session::live::Output;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::Rank;
use std::io::ErrorKind;
use std::thread;

/// Gives `sink` so many bytes and their end, as its `trailer` says; its verdict.
fn take(sink: &mut WriteBehind, bytes: &[u8], trailer: Trailer) -> Done {
    sink.on_event(Instant::START, &ReceiverEvent::Started { rank: Rank(1), receivers: 1, via: Via::Chain, size: None });
    bytes.chunks(1468).for_each(|frame| {
        while !sink.has_room() {
            thread::yield_now();
        }
        sink.write(Instant::START, frame, false);
    });
    sink.finish(Instant::START, trailer);
    match verdict(sink) {
        settled if settled.outcome == Outcome::Verified => {
            assert!(!sink.publish(Instant::START), "its thread publishes");
            verdict(sink)
        }
        failed => failed,
    }
}

fn verdict(sink: &mut WriteBehind) -> Done {
    loop {
        match sink.verdict(Instant::START) {
            Some(verdict) => return verdict,
            None => thread::yield_now(),
        }
    }
}

fn stored<S: Storage + Send>(storage: S, bytes: &[u8], trailer: Trailer) -> (Done, Option<io::Error>) {
    let waker = Arc::new(Waker::new().expect("a descriptor"));
    thread::scope(|scope| {
        let (writer, mut sink) = write_behind(storage, &waker);
        scope.spawn(move || writer.run());
        let verdict = take(&mut sink, bytes, trailer);
        assert!(sink.close(Duration::from_secs(10)), "the writer is stuck");
        (verdict, sink.take_cause())
    })
}

fn trailer(bytes: &[u8]) -> Trailer {
    let mut tally = Tally::default();
    tally.add(bytes);
    tally.trailer()
}

struct Full;

impl Storage for Full {
    fn write(&mut self, _bytes: &[u8]) -> Result<(), StorageError> {
        Err(StorageError::system("write", ErrorKind::StorageFull.into(), "; make room"))
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        panic!("nothing was written")
    }
}

/// Counts what is asked of it after the last byte; settling takes until it is let go.
#[derive(Default)]
struct Phases {
    go: Arc<AtomicBool>,
    settled: Arc<AtomicUsize>,
    published: Arc<AtomicUsize>,
}

impl Storage for Phases {
    fn write(&mut self, _bytes: &[u8]) -> Result<(), StorageError> {
        Ok(())
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        while !self.go.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        self.settled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        self.published.fetch_add(1, Ordering::SeqCst);
        Err(StorageError::system("rename", ErrorKind::PermissionDenied.into(), ""))
    }
}

#[test]
fn what_is_settled_is_published_when_it_is_told_to_and_only_then() {
    for accepted in [true, false] {
        let storage = Phases::default();
        let (go, settled, published) =
            (Arc::clone(&storage.go), Arc::clone(&storage.settled), Arc::clone(&storage.published));
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        thread::scope(|scope| {
            let (writer, mut sink) = write_behind(storage, &waker);
            scope.spawn(move || writer.run());
            sink.finish(Instant::START, trailer(b""));
            while !sink.is_syncing() {
                thread::yield_now();
            }
            go.store(true, Ordering::SeqCst);
            assert_eq!(verdict(&mut sink).outcome, Outcome::Verified);
            assert!(!sink.is_syncing());
            assert_eq!((settled.load(Ordering::SeqCst), published.load(Ordering::SeqCst)), (1, 0));
            if accepted {
                // Told twice it does it once.
                (0..2).for_each(|_| assert!(!sink.publish(Instant::START) && sink.is_publishing()));
                let failed = verdict(&mut sink);
                assert_eq!(failed.outcome, Outcome::WriteFailed, "{}", failed.text);
                assert!(!sink.is_publishing());
            }
            assert!(sink.close(Duration::from_secs(10)), "the writer is stuck");
        });
        assert_eq!(published.load(Ordering::SeqCst), usize::from(accepted));
    }
}

#[test]
fn all_bytes_are_written_in_order_and_judged_by_their_digest() {
    let bytes: Vec<u8> = (0..40_000_000_u32).map(|at| (at >> 11) as u8).collect();
    let mut written = Vec::new();
    let (verdict, _) = stored(Output(&mut written), &bytes, trailer(&bytes));
    assert_eq!((verdict.outcome, verdict.bytes), (Outcome::Delivered, 40_000_000));
    assert!(written == bytes);
    let (verdict, _) = stored(Output(io::sink()), &bytes[1..], trailer(&bytes));
    assert_eq!((verdict.outcome, verdict.bytes), (Outcome::Damaged, 39_999_999));
    assert!(verdict.text.contains("do not match"), "{}", verdict.text);
}

#[test]
fn what_the_storage_says_is_the_verdict_and_its_cause_is_kept() {
    let bytes = vec![7; 30_000_000];
    let (verdict, cause) = stored(Full, &bytes, trailer(&bytes));
    assert_eq!(verdict.outcome, Outcome::NoSpace);
    assert!(verdict.text.ends_with("; make room"), "{}", verdict.text);
    assert_eq!(cause.map(|cause| cause.kind()), Some(ErrorKind::StorageFull));
}
