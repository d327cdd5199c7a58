//! Ranks that call each other: a group without a root, messages between any two, and collectives on top (EQA §1).
