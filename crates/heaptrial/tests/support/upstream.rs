//! A repository of an allocator, made for a test, of which it is known what its commits do.

use std::path::Path;
use std::process::Command;

use super::{stderr, stdout};

const SOURCE: &str = include_str!("../programs/padded_malloc.c");

/// What the commits of a history do.
pub struct Commits {
    pub count: usize,
    /// From here on a third more memory is asked for.
    pub bad: usize,
    /// This one does not build.
    pub broken: usize,
    /// This one crashes.
    pub crashes: usize,
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=Test", "-c", "user.email=test@heaptrial.invalid"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output).trim().to_owned()
}

/// Commits all that a repository has; gives the id.
pub fn commit(repository: &Path) -> String {
    git(repository, &["add", "--all"]);
    git(repository, &["commit", "--quiet", "--message", "Change more"]);
    git(repository, &["rev-parse", "HEAD"])
}

/// Makes `upstream` in `folder`; gives the ids of its commits, oldest first.
pub fn repository(folder: &Path, commits: &Commits) -> Vec<String> {
    let upstream = folder.join("upstream");
    std::fs::create_dir_all(upstream.join("src")).unwrap();
    std::fs::create_dir_all(upstream.join("include")).unwrap();
    git(&upstream, &["init", "--quiet"]);
    std::fs::write(upstream.join("src/static.c"), SOURCE).unwrap();
    let ids = (0..commits.count).map(|number| {
        let padding = if number >= commits.bad { 34 } else { 0 };
        let mut text = format!("#define REVISION {number}\n#define PADDING {padding}\n");
        if number == commits.broken {
            text.push_str("#error does not build\n");
        }
        if number == commits.crashes {
            text.push_str("#define CRASHES\n");
        }
        std::fs::write(upstream.join("include/revision.h"), text).unwrap();
        if number % 7 == 3 {
            // Changes nothing that is compiled.
            std::fs::write(upstream.join("readme.md"), number.to_string()).unwrap();
            git(&upstream, &["add", "readme.md"]);
            git(&upstream, &["commit", "--quiet", "--message", "Tell more"]);
        }
        git(&upstream, &["add", "--all"]);
        git(&upstream, &["commit", "--quiet", "--message", &format!("Change {number}")]);
        git(&upstream, &["rev-parse", "HEAD"])
    });
    ids.collect()
}
