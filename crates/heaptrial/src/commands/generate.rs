//! Completions and man pages, from the same definitions as the flags.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::Cli;
use crate::answer::Answer;
use crate::exit::Failure;

pub fn completions(shell: Shell) -> Answer {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "heaptrial", &mut script);
    Answer::verbatim(String::from_utf8_lossy(&script))
}

/// Writes a page per command into `folder`.
pub fn man_pages(folder: &Path) -> Result<Answer, Failure> {
    let fail = |error| Failure::failed(format!("cannot write man pages to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(fail)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(fail)?;
    Ok(Answer::verbatim(""))
}
