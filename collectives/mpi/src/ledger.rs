//! What a communicator knows of prices, and which length is to be tried next: the same on all its ranks, for it follows
//! from the calls that all of them have made on it.

use crate::prices::{Length, Prices};
use crate::settings::Operation;
use std::collections::BTreeMap;

/// Lengths up to this many bytes are tried when they are first called for.
const SOON_BYTES: u64 = 256 << 10;
/// Longer ones when they are called for this often: who casts a table once need not pay for seven more.
const TRIED_AT_CALL: u32 = 3;

/// See the module's description.
#[derive(Debug, Default)]
pub struct Ledger {
    prices: Prices,
    /// How often a long length was called for.
    calls: BTreeMap<(Operation, Length), u32>,
}

impl Ledger {
    /// The length that is to be tried now that a call of so many bytes is to be made, if any is.
    pub fn due(&mut self, operation: Operation, bytes: u64) -> Option<Length> {
        let length = Length::of(bytes);
        if self.prices.is_settled(operation, length) {
            return None;
        }
        let calls = self.calls.entry((operation, length)).or_default();
        *calls += 1;
        let soon = length.min(Length::of(SOON_BYTES));
        let is_due = |length| !self.prices.is_settled(operation, length);
        if is_due(soon) { Some(soon) } else { (*calls >= TRIED_AT_CALL).then_some(length) }
    }

    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// What is known now.
    pub fn set_prices(&mut self, prices: Prices) {
        self.prices = prices;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries what is due, and says what that was.
    fn called(ledger: &mut Ledger, bytes: u64) -> Option<usize> {
        let due = ledger.due(Operation::Broadcast, bytes)?;
        let mut prices = ledger.prices().clone();
        prices.note(Operation::Broadcast, due, [1, 1]);
        ledger.set_prices(prices);
        Some(due.bytes())
    }

    #[test]
    fn a_short_length_is_tried_once_when_it_is_first_called_for() {
        let mut ledger = Ledger::default();
        assert_eq!([1, 200, 256].map(|bytes| called(&mut ledger, bytes)), [Some(256), None, None]);
        assert_eq!([257, 100_000, 131_072].map(|bytes| called(&mut ledger, bytes)), [Some(512), Some(131_072), None]);
        assert!(ledger.due(Operation::Gather, 1).is_some(), "another call is another matter");
    }

    #[test]
    fn a_long_length_is_tried_at_its_third_call_and_a_shorter_one_before() {
        let mut ledger = Ledger::default();
        let mut tried = || called(&mut ledger, 3 << 20);
        assert_eq!([tried(), tried(), tried(), tried()], [Some(256 << 10), None, Some(4 << 20), None]);
        assert_eq!([(); 4].map(|()| called(&mut ledger, 1 << 20)), [None, None, Some(1 << 20), None]);
    }
}
