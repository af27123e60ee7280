//! Tests that look for rare faults: each run tries a part of their cases, so that a dozen runs try all.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::OnceLock;

/// `all`, or any hexadecimal number, such as a commit's hash, that decides which cases run.
const DRAW: &str = "HEAPTRIAL_DRAW";
/// Names the file to which tests that are not drawn are added, one a line.
const NOT_DRAWN: &str = "HEAPTRIAL_NOT_DRAWN";

/// Which of the cases of a test this run tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    All,
    /// Those that the number chooses.
    Part(u32),
}

impl Draw {
    /// As the environment says; without it the part of number 0.
    ///
    /// # Panics
    ///
    /// If it says something else.
    pub fn of_this_run() -> Self {
        static DRAWN: OnceLock<Draw> = OnceLock::new();
        *DRAWN.get_or_init(|| match std::env::var(DRAW).as_deref() {
            Err(_) => Self::Part(0),
            Ok("all") => Self::All,
            Ok(text) => {
                let digits = text.get(..7).unwrap_or(text);
                Self::Part(
                    u32::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("{DRAW}={text}: {error}")),
                )
            }
        })
    }

    /// Whether `case` is tried, of which every run tries one in `of`.
    pub fn has(self, case: usize, of: usize) -> bool {
        match self {
            Self::All => true,
            Self::Part(number) => case % of == number as usize % of,
        }
    }
}

/// Something if the running test, number `case` among tests of which every run has one in `of`, is drawn; says so if not.
pub fn drawn(case: usize, of: usize) -> Option<()> {
    let drawn = Draw::of_this_run().has(case, of);
    if !drawn {
        let line = format!("{}\n", std::thread::current().name().unwrap_or("a test"));
        if let Some(path) = std::env::var_os(NOT_DRAWN) {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.and_then(|mut file| file.write_all(line.as_bytes()))
                .unwrap_or_else(|error| panic!("{NOT_DRAWN}: {error}"));
        }
    }
    drawn.then_some(())
}
