//! Client of Hydra, MPICH's launcher: lines of text over an inherited descriptor (PMI-1).

use super::key;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest wait for a reply from Hydra's process on this host; any load delays it less.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Descriptor that the MPI uses, too, in `MPI_Init` and later; nothing is left in it between two
/// requests.
pub struct Hydra {
    descriptor: RawFd,
    rank: String,
}

impl Hydra {
    pub fn find() -> Option<Result<Hydra, String>> {
        // Other launchers set PMI_FD and PMI_RANK, too, but use another protocol there.
        env::var_os("MPI_LOCALNRANKS")?;
        let (descriptor, rank) = (env::var("PMI_FD").ok()?, env::var("PMI_RANK").ok()?);
        let descriptor = descriptor
            .parse()
            .map_err(|_| format!("PMI_FD={descriptor} is no descriptor"));
        Some(descriptor.map(|descriptor| Hydra { descriptor, rank }))
    }

    pub fn announce(&self) -> Result<(), String> {
        let mut talk = Talk::on(self.descriptor)?;
        talk.request(
            "cmd=init pmi_version=1 pmi_subversion=1",
            "response_to_init",
        )?;
        let store = talk.store()?;
        talk.request(
            &format!(
                "cmd=put kvsname={store} key={}-{} value=1",
                key(),
                self.rank
            ),
            "put_result",
        )
        .map(drop)
    }

    pub fn lacking(&self, ranks: u32) -> Result<Option<u32>, String> {
        let mut talk = Talk::on(self.descriptor)?;
        let store = talk.store()?;
        for rank in 0..ranks {
            let answer = talk.request(
                &format!("cmd=get kvsname={store} key={}-{rank}", key()),
                "get_result",
            )?;
            if value(&answer, "rc") != Some("0") {
                return Ok(Some(rank));
            }
        }
        Ok(None)
    }
}

struct Talk(ManuallyDrop<BufReader<UnixStream>>);

impl Talk {
    fn on(descriptor: RawFd) -> Result<Talk, String> {
        // SAFETY: `fcntl` takes any number, and reports whether it is a descriptor.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            return Err(format!("PMI_FD={descriptor} is not open"));
        }
        // SAFETY: it is open, and the MPI's: it is never closed here.
        let stream = unsafe { UnixStream::from_raw_fd(descriptor) };
        let talk = Talk(ManuallyDrop::new(BufReader::new(stream)));
        talk.wait_at_most(Some(ANSWERS_WITHIN)).map(|()| talk)
    }

    fn wait_at_most(&self, limit: Option<Duration>) -> Result<(), String> {
        self.0
            .get_ref()
            .set_read_timeout(limit)
            .map_err(|error| format!("PMI_FD: {error}"))
    }

    fn store(&mut self) -> Result<String, String> {
        let answer = self.request("cmd=get_my_kvsname", "my_kvsname")?;
        value(&answer, "kvsname")
            .map(str::to_owned)
            .ok_or_else(|| format!("Hydra names no place: {answer}"))
    }

    fn request(&mut self, question: &str, command: &str) -> Result<String, String> {
        let mut answer = String::new();
        let asked = self
            .0
            .get_ref()
            .write_all(format!("{question}\n").as_bytes());
        let answered = asked.and_then(|()| self.0.read_line(&mut answer));
        answered.map_err(|error| format!("Hydra does not answer: {error}"))?;
        let answer = answer.trim_end().to_owned();
        if value(&answer, "cmd") == Some(command) {
            Ok(answer)
        } else {
            Err(format!("Hydra answers {answer:?}"))
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // The MPI expects no timeout. If resetting fails, none was set.
        drop(self.wait_at_most(None));
    }
}

fn value<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer
        .split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn a_word_is_found_where_every_rank_has_left_one() {
    use std::os::fd::AsRawFd;
    let (own, hydras) = UnixStream::pair().expect("two sockets");
    let answers = |words: &'static [&'static str]| {
        let mut hydra = BufReader::new(hydras.try_clone().expect("a copy"));
        std::thread::spawn(move || {
            words
                .iter()
                .map(|answer| {
                    let mut question = String::new();
                    hydra.read_line(&mut question).expect("a question");
                    hydra
                        .get_ref()
                        .write_all(format!("{answer}\n").as_bytes())
                        .expect("it is open");
                    question
                })
                .collect::<String>()
        })
    };
    let hydra = Hydra {
        descriptor: own.as_raw_fd(),
        rank: "1".into(),
    };
    let (name, found) = (
        "cmd=my_kvsname kvsname=kvs_7_0",
        "cmd=get_result rc=0 msg=success value=1",
    );
    let one = answers(Box::leak(Box::new([
        "cmd=response_to_init pmi_version=1 rc=0",
        name,
        "cmd=put_result rc=0",
    ])));
    assert_eq!(hydra.announce(), Ok(()));
    assert!(one.join().expect("done").ends_with("-1 value=1\n"));
    let two = answers(Box::leak(Box::new([
        name,
        found,
        found,
        "cmd=get_result rc=-1 msg=key_not_found value=unknown",
    ])));
    assert_eq!(hydra.lacking(3), Ok(Some(2)));
    assert!(two.join().expect("done").ends_with("-2\n"));
    let three = answers(Box::leak(Box::new([name, found])));
    assert_eq!(hydra.lacking(1), Ok(None));
    three.join().expect("done");
    let four = answers(&["cmd=finalize_ack rc=0"]);
    assert!(
        hydra
            .lacking(1)
            .expect_err("it is another answer")
            .contains("Hydra answers")
    );
    four.join().expect("done");
}
