//! Admission control of a receiver: its user may decide when it sends a join request.

/// State of admission where the user must permit each join request, as on a host that serves
/// several groups but takes part in a limited number of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// No root announces a session, or none has been asked.
    None,
    /// A root announces a session; the join request waits for permission.
    Wanted,
    /// A join request has been sent, or this host is in the session.
    Given,
}
