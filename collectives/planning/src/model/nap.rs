//! Duration for which a host sleeps between batches while frames arrive densely (receive
//! coalescing), for models and simulations.

/// Shortest nap, and longest nap during bulk arrivals, in nanoseconds.
const NAP_NS: (f64, f64) = (250e3, 1e6);
/// Fewest frames per nap; otherwise there is none.
const MIN_FRAMES: f64 = 2.0;
/// Interval below which frames count as bulk, and bulk frames per nap.
const BULK_FRAME_NS: f64 = 50e3;
const BULK_FRAMES: f64 = 64.0;

/// Returns the length of a nap, in nanoseconds, of a host that receives a frame every `frame_ns`; 0
/// if it waits for each.
pub fn nap_ns(frame_ns: f64) -> f64 {
    let (shortest, longest) = NAP_NS;
    if frame_ns * MIN_FRAMES > shortest {
        0.0
    } else if frame_ns <= BULK_FRAME_NS {
        (frame_ns * BULK_FRAMES).clamp(shortest, longest)
    } else {
        shortest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_denser_the_arrivals_the_shorter_the_naps_down_to_a_bound() {
        assert_eq!([130e3, 120e3, 50e3, 12e3, 1e3].map(nap_ns), [0.0, 250e3, 1e6, 768e3, 250e3]);
    }
}
