//! Cost table of a communicator, and which length has to be tried next. It follows from the calls
//! that all ranks have made, so it is identical on all of them.

use crate::cost_table::{CostTable, Length};
use crate::settings::Operation;
use std::collections::BTreeMap;

/// Limit of lengths that are tried at their first call, in bytes.
const SOON_BYTES: u64 = 256 << 10;
/// Calls of a longer length before it is tried: a program that broadcasts a table once need not pay
/// for seven more.
const TRIED_AT_CALL: u32 = 3;

#[derive(Debug, Default)]
pub struct TuningTable {
    prices: CostTable,
    calls: BTreeMap<(Operation, Length), u32>,
}

impl TuningTable {
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

    pub fn prices(&self) -> &CostTable {
        &self.prices
    }

    pub fn set_prices(&mut self, prices: CostTable) {
        self.prices = prices;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(ledger: &mut TuningTable, bytes: u64) -> Option<usize> {
        let due = ledger.due(Operation::Broadcast, bytes)?;
        let mut prices = ledger.prices().clone();
        prices.note(Operation::Broadcast, due, [1, 1]);
        ledger.set_prices(prices);
        Some(due.bytes())
    }

    #[test]
    fn a_short_length_is_tried_once_when_it_is_first_called_for() {
        let mut ledger = TuningTable::default();
        assert_eq!([1, 200, 256].map(|bytes| called(&mut ledger, bytes)), [Some(256), None, None]);
        assert_eq!([257, 100_000, 131_072].map(|bytes| called(&mut ledger, bytes)), [Some(512), Some(131_072), None]);
        assert!(ledger.due(Operation::Gather, 1).is_some(), "another call is another matter");
    }

    #[test]
    fn a_long_length_is_tried_at_its_third_call_and_a_shorter_one_before() {
        let mut ledger = TuningTable::default();
        let mut tried = || called(&mut ledger, 3 << 20);
        assert_eq!([tried(), tried(), tried(), tried()], [Some(256 << 10), None, Some(4 << 20), None]);
        assert_eq!([(); 4].map(|()| called(&mut ledger, 1 << 20)), [None, None, Some(1 << 20), None]);
    }
}
