//! Slow or stopped readers of `recv -` do not delay the other receivers.

use super::{CULPRIT, impatient, relays};
use crate::harness::{LIMIT, MEBIBYTE, Reader, Site, Transfer, content};

#[test]
fn a_reader_that_stops_for_good_is_given_up_and_named() {
    for via in ["chain", "cast"] {
        let site = Site::beside("reader", relays());
        let outcome = impatient(&site, via).reader(CULPRIT, Reader::Stopped).start().end(LIMIT);
        outcome.assert_all_but(CULPRIT, &["reader", "disk", "taken", "application", "stall"]);
    }
}

#[test]
fn a_reader_that_is_slower_than_the_cable_gets_all_and_does_not_hold_the_others() {
    let site = Site::beside("slowreader", relays());
    // 2.8 s on the cable and 21 s for this reader; its host buffers less than half of the content.
    let bytes = content(12, 32 * MEBIBYTE);
    for via in ["chain", "cast"] {
        let transfer = Transfer::new(&site, bytes.clone()).via(via).send_option("--slow-after").send_option("1");
        let reader = Reader::Slow { bytes_per_second: 1_600_000 };
        let outcome = transfer.reader(CULPRIT, reader).start().end(LIMIT);
        outcome.root.assert_code(0);
        assert!(outcome.receiver(CULPRIT).stdout == bytes, "what the reader has read");
        for host in ["n1", "n2", "n4", "n5"] {
            outcome.assert_delivered(host);
            let (seconds, slow) = (outcome.seconds_of(host), outcome.seconds_of(CULPRIT));
            // If it delayed the others, they would wait for more than half of its time.
            assert!(seconds < slow / 2.0, "{host} had to wait for the slow reader: {seconds} of {slow} s, {via}");
        }
        assert!(outcome.seconds_of(CULPRIT) > 10.0);
        outcome.assert_named(CULPRIT, &["slow", "disk", "reader"]);
    }
}
