//! Tests of a receiver's storing thread, with a storage that is slow or full, or that writes some
//! bytes twice.

use super::*;
use crate::keys::ContentCipher;
use crate::session::application::{Sink, VerifiedSink};
use crate::session::live::content::{Output, StorageError};
use crate::session::message::{Done, Trailer};
use crate::session::receiver::{Arrival, ReceiverEvent};
use crate::session::verified::{CHUNK_BYTES, EARLY_AFTER, encoded};
use ethbcast_planning::plan::Via;
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::wire::Rank;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const LIMIT: Duration = Duration::from_secs(60);
const WHOLE_BYTES: usize = ChunkSize::DEFAULT.whole_bytes();

fn take(sink: &mut WriteBehind, stream: &[u8], truth: &[u8], trailer: Trailer) -> Done {
    let cipher = ContentCipher::default();
    sink.on_event(
        Instant::START,
        &ReceiverEvent::Started {
            rank: Rank(1),
            receivers: 1,
            via: Via::Chain,
            size: None,
            selective: false,
            cipher,
        },
    );
    stream.chunks(1468).for_each(|frame| {
        make_room(sink, truth);
        sink.take(Instant::START, Arrival::Bytes(frame));
    });
    sink.take(Instant::START, Arrival::End(trailer));
    match verdict(sink, truth) {
        settled if settled.outcome == Outcome::Verified => {
            assert!(!sink.publish(Instant::START), "its thread publishes");
            verdict(sink, truth)
        }
        failed => failed,
    }
}

#[track_caller]
fn awaited<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = std::time::Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        thread::yield_now();
    }
}

fn mend(sink: &mut WriteBehind, truth: &[u8]) {
    match sink.missing(Instant::START).wanted {
        Some(wanted) => {
            sink.fetched(
                Instant::START,
                Ok((
                    wanted.start,
                    &truth[wanted.start as usize..wanted.end as usize],
                )),
            );
        }
        None => thread::yield_now(),
    }
}

fn make_room(sink: &mut WriteBehind, truth: &[u8]) {
    awaited("room", || {
        let has_room = sink.has_room();
        if !has_room {
            mend(sink, truth);
        }
        has_room.then_some(())
    });
}

fn verdict(sink: &mut WriteBehind, truth: &[u8]) -> Done {
    awaited("a verdict", || {
        let verdict = sink.turn(Instant::START).verdict;
        if verdict.is_none() {
            mend(sink, truth);
        }
        verdict
    })
}

fn stored<S: Storage + Send>(
    storage: S,
    stream: &[u8],
    truth: &[u8],
    trailer: Trailer,
) -> (Done, Option<io::Error>, u64) {
    let waker = Arc::new(Waker::new().expect("a descriptor"));
    thread::scope(|scope| {
        let (writer, mut sink) = write_behind(storage, &waker);
        scope.spawn(move || writer.run());
        let verdict = take(&mut sink, stream, truth, trailer);
        assert!(sink.close(Duration::from_secs(10)), "the writer is stuck");
        (verdict, sink.take_cause(), sink.damages())
    })
}

struct Full;

impl Storage for Full {
    fn write(&mut self, _bytes: &[u8]) -> Result<(), StorageError> {
        Err(StorageError::system(
            "write",
            ErrorKind::StorageFull.into(),
            "; make room",
        ))
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        panic!("nothing was written")
    }
}

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
        awaited("that it may settle", || {
            self.go.load(Ordering::SeqCst).then_some(())
        });
        self.settled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        self.published.fetch_add(1, Ordering::SeqCst);
        Err(StorageError::system(
            "rename",
            ErrorKind::PermissionDenied.into(),
            "",
        ))
    }
}

#[test]
fn settled_data_is_published_on_request_and_only_then() {
    for accepted in [true, false] {
        let storage = Phases::default();
        let (go, settled, published) = (
            Arc::clone(&storage.go),
            Arc::clone(&storage.settled),
            Arc::clone(&storage.published),
        );
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        thread::scope(|scope| {
            let (writer, mut sink) = write_behind(storage, &waker);
            scope.spawn(move || writer.run());
            sink.take(Instant::START, Arrival::End(encoded(b"").1));
            awaited("a sync", || {
                sink.turn(Instant::START).is_syncing.then_some(())
            });
            go.store(true, Ordering::SeqCst);
            assert_eq!(verdict(&mut sink, &[]).outcome, Outcome::Verified);
            assert!(!sink.turn(Instant::START).is_syncing);
            assert_eq!(
                (
                    settled.load(Ordering::SeqCst),
                    published.load(Ordering::SeqCst)
                ),
                (1, 0)
            );
            if accepted {
                // A repeated order is carried out once.
                (0..2).for_each(|_| assert!(!sink.publish(Instant::START) && sink.is_publishing()));
                let failed = verdict(&mut sink, &[]);
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
    let (stream, trailer) = encoded(&bytes);
    let mut written = Vec::new();
    let (verdict, ..) = stored(Output(&mut written), &stream, &stream, trailer);
    assert_eq!(
        (verdict.outcome, verdict.bytes, verdict.digest),
        (Outcome::Delivered, trailer.bytes, trailer.digest)
    );
    assert!(written == bytes);
    let short = &stream[..stream.len() - 200_000];
    let (verdict, ..) = stored(Output(io::sink()), short, &stream, trailer);
    assert_eq!(verdict.outcome, Outcome::Damaged);
    assert!(verdict.text.contains("send again"), "{}", verdict.text);
}

#[test]
fn damaged_chunks_are_requested_again_and_not_written() {
    let bytes: Vec<u8> = (0..20_000_000_u32).map(|at| (at >> 9) as u8).collect();
    let (stream, trailer) = encoded(&bytes);
    let mut damaged = stream.clone();
    // Two chunks of one span, a hash list, the last byte of all.
    for at in [
        2_000_000,
        2_000_000 + CHUNK_BYTES,
        5 * WHOLE_BYTES + 100,
        stream.len() - 1,
    ] {
        damaged[at] ^= 0x10;
    }
    let mut written = Vec::new();
    let (verdict, _, damages) = stored(Output(&mut written), &damaged, &stream, trailer);
    assert_eq!(
        (verdict.outcome, verdict.digest, damages),
        (Outcome::Delivered, trailer.digest, 4)
    );
    assert!(written == bytes);
    let (verdict, _, damages) = stored(Output(io::sink()), &damaged, &damaged, trailer);
    assert_eq!(
        (verdict.outcome, damages),
        (Outcome::Damaged, 4),
        "what is sent again is damaged, too"
    );
    assert!(
        verdict.text.contains("came damaged 4 times"),
        "{}",
        verdict.text
    );
}

#[test]
fn a_chunk_in_flight_again_is_not_requested_once_more() {
    let bytes: Vec<u8> = (0..7_000_000_u32).map(|at| (at >> 9) as u8).collect();
    let (truth, trailer) = encoded(&bytes);
    let mut stream = truth.clone();
    stream[WHOLE_BYTES - 5] ^= 1;
    let waker = Arc::new(Waker::new().expect("a descriptor"));
    thread::scope(|scope| {
        let (writer, mut sink) = write_behind(Output(io::sink()), &waker);
        scope.spawn(move || writer.run());
        sink.take(Instant::START, Arrival::Bytes(&stream[..WHOLE_BYTES]));
        let wanted = awaited("something wanted", || sink.missing(Instant::START).wanted);
        // The writer finds these before the bytes it wants, and wants them all the while.
        sink.take(Instant::START, Arrival::Bytes(&stream[WHOLE_BYTES..]));
        sink.fetched(
            Instant::START,
            Ok((
                wanted.start,
                &truth[wanted.start as usize..wanted.end as usize],
            )),
        );
        sink.take(Instant::START, Arrival::End(trailer));
        let settled = awaited("a verdict", || {
            assert_eq!(
                sink.missing(Instant::START).wanted,
                None,
                "it has been given"
            );
            sink.turn(Instant::START).verdict
        });
        assert_eq!((settled.outcome, sink.damages()), (Outcome::Verified, 1));
        assert!(sink.close(Duration::from_secs(10)), "the writer is stuck");
    });
}

#[test]
fn whole_chunks_are_written_when_no_more_come_and_only_once() {
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|at| (at >> 7) as u8).collect();
    let (truth, trailer) = encoded(&bytes);
    let mut stream = truth.clone();
    // The third chunk of the third span.
    stream[2 * WHOLE_BYTES + 1000 + 2 * CHUNK_BYTES] ^= 1;
    let (shown, waker) = (
        Shown::default(),
        Arc::new(Waker::new().expect("a descriptor")),
    );
    thread::scope(|scope| {
        let (writer, mut sink) = write_behind(shown.clone(), &waker);
        scope.spawn(move || writer.run());
        let mut now = Instant::START;
        let mut early = 0;
        for frame in stream.chunks(1468) {
            make_room(&mut sink, &truth);
            sink.take(now, Arrival::Bytes(frame));
            now += Duration::from_micros(500);
            sink.missing(now);
            let (written, whole) = (shown.0.lock().len(), sink.state().content_bytes() as usize);
            early = early.max(written.saturating_sub(whole));
        }
        // Time passes, and all but the last part of a chunk is there.
        sink.take(now, Arrival::End(trailer));
        assert_eq!(verdict(&mut sink, &truth).outcome, Outcome::Verified);
        assert!(
            early >= CHUNK_BYTES,
            "{early} bytes were there before their span was"
        );
        assert_eq!(sink.damages(), 1);
        assert!(sink.close(Duration::from_secs(10)), "the writer is stuck");
    });
    assert!(*shown.0.lock() == bytes);
}

#[test]
fn a_stream_that_is_cut_off_loses_only_its_incomplete_chunk() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at >> 7) as u8).collect();
    let (stream, _) = encoded(&bytes);
    let (shown, waker) = (
        Shown::default(),
        Arc::new(Waker::new().expect("a descriptor")),
    );
    thread::scope(|scope| {
        let (writer, mut sink) = write_behind(shown.clone(), &waker);
        scope.spawn(move || writer.run());
        let came = WHOLE_BYTES + 5 * CHUNK_BYTES + 20_000;
        sink.take(Instant::START, Arrival::Bytes(&stream[..came]));
        sink.missing(Instant::START + EARLY_AFTER);
        assert!(sink.close(Duration::from_secs(10)), "the writer is stuck");
    });
    assert!(*shown.0.lock() == bytes[..(1 << 20) + 5 * CHUNK_BYTES]);
}

#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>);

impl Storage for Shown {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.0.lock().extend_from_slice(bytes);
        Ok(())
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        Ok(())
    }
}

struct Keeping(File);

impl Storage for Keeping {
    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        Some(Box::new(self.0.try_clone().expect("a handle")))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.0
            .write_all(bytes)
            .map_err(|error| StorageError::system("write", error, ""))
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        Ok(())
    }
}

#[test]
fn kept_chunks_can_be_fetched_by_others_and_damaged_ones_cannot() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at >> 3) as u8).collect();
    let (truth, trailer) = encoded(&bytes);
    let mut stream = truth.clone();
    stream[2 * WHOLE_BYTES] ^= 1;
    let waker = Arc::new(Waker::new().expect("a descriptor"));
    thread::scope(|scope| {
        let (writer, mut sink) =
            write_behind(Keeping(tempfile::tempfile().expect("a file")), &waker);
        scope.spawn(move || writer.run());
        let (size, cipher) = (Some(3_000_000), ContentCipher::default());
        let (rank, receivers, via) = (Rank(1), 1, Via::Chain);
        let started = ReceiverEvent::Started {
            rank,
            receivers,
            via,
            size,
            selective: false,
            cipher,
        };
        sink.on_event(Instant::START, &started);
        stream
            .chunks(9000)
            .for_each(|frame| sink.take(Instant::START, Arrival::Bytes(frame)));
        sink.take(Instant::START, Arrival::End(trailer));
        awaited("something wanted", || sink.missing(Instant::START).wanted);
        let (at, count) = (WHOLE_BYTES - 1000, 100_000);
        assert_eq!(
            again(&mut sink, at, count),
            Ok(truth[at..at + count].to_vec())
        );
        let why = again(&mut sink, 2 * WHOLE_BYTES - 10, 20).expect_err("it is damaged");
        assert!(why.contains("damaged"), "{why}");
        let behind = 2 * WHOLE_BYTES + 100_000;
        let pending = matches!(
            sink.read_again(Instant::START, behind as u64, 1000),
            Again::Pending
        );
        assert!(
            pending,
            "what has come and waits behind the damage is had when that is mended"
        );
        mend(&mut sink, &truth);
        assert_eq!(verdict(&mut sink, &truth).outcome, Outcome::Verified);
        assert_eq!(
            again(&mut sink, behind, 1000),
            Ok(truth[behind..behind + 1000].to_vec())
        );
        assert_eq!(
            again(&mut sink, truth.len() - 10, 10),
            Ok(truth[truth.len() - 10..].to_vec())
        );
        assert!(sink.close(Duration::from_secs(10)), "the writer is stuck");
        assert!(
            again(&mut sink, truth.len() - 10, 11).is_err(),
            "there is no more"
        );
    });
}

fn again(sink: &mut WriteBehind, at: usize, count: usize) -> Result<Vec<u8>, String> {
    awaited("what is read again", || {
        match sink.read_again(Instant::START, at as u64, count) {
            Again::Bytes(bytes) => Some(Ok(bytes.to_vec())),
            Again::Pending => None,
            Again::Impossible(why) => Some(Err(why)),
        }
    })
}

#[test]
fn the_storages_result_is_the_verdict_and_its_cause_is_kept() {
    let bytes = vec![7; 30_000_000];
    let (stream, trailer) = encoded(&bytes);
    let (verdict, cause, _) = stored(Full, &stream, &stream, trailer);
    assert_eq!(verdict.outcome, Outcome::NoSpace);
    assert!(verdict.text.ends_with("; make room"), "{}", verdict.text);
    assert_eq!(
        cause.map(|cause| cause.kind()),
        Some(ErrorKind::StorageFull)
    );
}
