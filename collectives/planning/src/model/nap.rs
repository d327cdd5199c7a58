//! How long a host sleeps through dense arrivals: what the driver of `ethbcast-transport` does, as models and
//! simulations have it.

/// In nanoseconds: it sleeps so long at least, and through bulk up to so long.
const NAP_NS: (f64, f64) = (250e3, 1e6);
/// A nap takes in two frames at least, or it is none.
const LEAST_FRAMES: f64 = 2.0;
/// Frames that come faster are bulk, of which a nap takes in so many.
const BULK_FRAME_NS: f64 = 50e3;
const BULK_FRAMES: f64 = 64.0;

/// How long, in nanoseconds, a host sleeps that gets a frame every `frame_ns`; 0 if it waits for each.
pub fn nap_ns(frame_ns: f64) -> f64 {
    let (shortest, longest) = NAP_NS;
    if frame_ns * LEAST_FRAMES > shortest {
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
