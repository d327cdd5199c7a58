//! A receiver's user may decide when it asks a root.

/// How it stands with the user's leave to ask a root, where one is needed: a host that serves several groups takes part
/// in so many sessions at once and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// No root invites, or none has been asked.
    None,
    /// A root invites: it is asked when leave is given.
    Wanted,
    /// A root is asked, or this host is in its session.
    Given,
}
