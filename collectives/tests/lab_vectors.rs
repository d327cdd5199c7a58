//! Test of key derivation against a Python program, written independently from the papers and RFCs.

use std::io;
use std::process::Command;

#[test]
fn a_second_implementation_has_the_same_vectors() {
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/src/keys");
    let arguments = ["-B", &format!("{keys}/vectors.py"), &format!("{keys}/vectors.txt")];
    match Command::new("python3").args(arguments).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("NOT TESTED WITH PYTHON: the second implementation of keys, for which python3 is missing");
        }
        Err(error) => panic!("python3: {error}"),
    }
}
