//! Where memory is, against programs that know it and against malloc_info(3) of the same process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use heaptrial_allocator::{Explanation, Split, explain, identify};
use heaptrial_host::{HostRoot, Process};

struct Running {
    child: Child,
    kept: u64,
    info: String,
}

impl Running {
    /// `threads size count pattern`, as heaps.c has them.
    fn start(program: &Path, arguments: &str) -> Self {
        Self::with(program, arguments, ("MALLOC_ARENA_MAX", "64"))
    }

    fn with(program: &Path, arguments: &str, variable: (&str, &str)) -> Self {
        let mut command = Command::new(program);
        command.args(arguments.split(' ')).env(variable.0, variable.1);
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines: Vec<String> = lines.map(Result::unwrap).take_while(|line| line != "ready").collect();
        let kept = lines[0].strip_prefix("kept ").unwrap().parse().unwrap();
        Self { child, kept, info: lines.join("\n") }
    }

    fn explained(&self) -> Explanation {
        let process = Process::new(&HostRoot::default(), self.child.id() as i32);
        explain(&process, &identify(&process).unwrap()).unwrap()
    }

    /// A total of malloc_info: of all arenas, so that it stands last.
    fn total(&self, start: &str) -> u64 {
        let line = self.info.lines().rev().find(|line| line.starts_with(start)).unwrap();
        line.split("size=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn compile(folder: &Path, further: &[&str]) -> std::path::PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/heaps.c");
    let program = folder.join("heaps");
    let status = Command::new("cc")
        .args(["-O1", "-fno-builtin", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .args(further)
        .status()
        .unwrap();
    assert!(status.success());
    program
}

/// Within 2%.
#[track_caller]
fn near(what: &str, found: u64, truth: u64, further: u64) {
    let off = (found as f64 - truth as f64).abs();
    assert!(off <= 0.02 * truth as f64 + further as f64, "{what}: {found} for {truth}");
}

#[test]
fn what_is_in_use_and_what_is_kept_is_what_the_program_did() {
    let folder = tempfile::tempdir().unwrap();
    for further in [&[][..], &["-static"]] {
        let program = compile(folder.path(), further);
        for (arenas, case) in [
            ("64", "1 1000 60000 all"),
            ("64", "8 1000 20000 half"),
            ("1", "8 1000 20000 half"),
            ("64", "8 200 60000 page"),
            ("64", "4 1000000 40 half"),
            ("1", "1 130000 6000 mixed"),
        ] {
            let running = Running::with(&program, case, ("MALLOC_ARENA_MAX", arenas));
            let explained = running.explained();
            let split: &Split = explained.split.as_ref().unwrap_or_else(|| panic!("{case}: {explained:#?}"));
            let free = running.total("<total type=\"fast\"") + running.total("<total type=\"rest\"");
            let in_use =
                running.total("<system type=\"current\"") - free + running.total("<total type=\"mmap\"");
            let small = 64 << 10;
            near(
                &format!("{case}: in use by malloc_info"),
                split.in_use_bytes + split.cached_bytes,
                in_use,
                small,
            );
            near(&format!("{case}: kept by the program"), split.in_use_bytes, running.kept, small);
            // The end of an arena that was never touched is free to malloc and no memory.
            let untouched = u64::from(split.arenas) * (132 << 10);
            let found_free = split.kept_free_bytes + split.free_in_pages_bytes - split.cached_bytes;
            near(&format!("{case}: free by malloc_info"), found_free, free, untouched);
            // Blocks of 130,000 bytes are below the usual mmap_threshold.
            let is_large = split.kept_in_large_bytes * 2 > split.kept_free_bytes;
            assert_eq!(is_large, case.contains("1000000"), "{case}: {split:?}");
        }
    }
}

/// Buffers of worker threads, as relays have them: glibc keeps one for each thread, and the advised setting ends that.
#[test]
fn what_threads_keep_is_found_and_the_advice_helps() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), &[]);
    let case = "8 16000000 3 buffers";
    let running = Running::start(&program, case);
    let kept = running.explained();
    let split = kept.split.as_ref().unwrap();
    assert!(split.kept_at_ends_bytes > 100 << 20 && split.in_use_bytes < 1 << 20, "{kept:#?}");
    let rules: Vec<&str> = kept.advice.iter().map(|advice| advice.rule.as_str()).collect();
    assert_eq!(rules, ["kept_at_ends", "arenas"], "{kept:#?}");
    assert_eq!(kept.advice[0].specs[0].to_string(), "glibc?trim_threshold=131072");
    let helped = Running::with(&program, case, ("MALLOC_TRIM_THRESHOLD_", "131072")).explained();
    assert!(helped.anon_bytes < kept.anon_bytes / 20, "{helped:#?}");
    assert!(helped.advice.is_empty(), "{helped:#?}");
}

#[test]
fn what_is_in_use_and_what_is_no_heap_is_said_to_be_beyond_help() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), &[]);
    let live = Running::start(&program, "4 5000 10000 all").explained();
    assert_eq!(live.advice[0].rule, "in_use", "{live:#?}");
    assert!(live.advice[0].specs.is_empty());
    let source = "#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
        int main(void) { memset(mmap(0, 64 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 64 << 20); \
        puts(\"kept 0\"); puts(\"ready\"); fflush(stdout); pause(); }\n";
    std::fs::write(folder.path().join("own.c"), source).unwrap();
    let own = folder.path().join("own");
    assert!(
        Command::new("cc").arg("-o").arg(&own).arg(folder.path().join("own.c")).status().unwrap().success()
    );
    let own = Running::start(&own, "").explained();
    assert_eq!(own.advice[0].rule, "elsewhere", "{own:#?}");
}

/// Such as Arrow's, which carries mimalloc under names of its own.
#[test]
fn an_allocator_inside_a_library_is_named_with_its_library() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    file(
        "other.c",
        "int mi_version(void) { return 30302; }\nvoid *mi_malloc(unsigned long n) { (void)n; return 0; }\n\
        void JNI_CreateJavaVM(void) {}\n",
    );
    file(
        "own.c",
        "#include <stdio.h>\n#include <unistd.h>\nint mi_version(void);\n\
        int main(void) { printf(\"kept %d\\nready\\n\", mi_version()); fflush(stdout); pause(); }\n",
    );
    let cc = |words: &[&str]| {
        assert!(Command::new("cc").current_dir(folder.path()).args(words).status().unwrap().success())
    };
    cc(&["-shared", "-fPIC", "-o", "libother.so", "other.c"]);
    cc(&["-o", "own", "own.c", "./libother.so"]);
    let mut command = Command::new(folder.path().join("own"));
    command.current_dir(folder.path());
    let running = Running::of(command);
    let found = running.explained();
    assert_eq!(found.family, "glibc", "{found:#?}");
    let names: Vec<&str> = found.other_allocators.iter().map(|other| other.name.as_str()).collect();
    assert_eq!(names, ["mimalloc", "Java's heap"]);
    assert!(found.other_allocators.iter().all(|other| other.object.ends_with("/libother.so")), "{found:#?}");
}

/// As large as a thread's cache, and full of pointers to blocks as that is.
#[test]
fn objects_that_look_like_a_cache_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
        int main(void) { for (int i = 0; i < 500; i++) for (int large = 0; large < 2; large++) {\n\
        size_t size = large ? 760 : 640; char **object = malloc(size); memset(object, 0, size);\n\
        for (int at = 20; at < 80; at++) memset(object[at] = malloc(1000), 7, 1000); }\n\
        printf(\"kept %d\\nready\\n\", 500 * (656 + 768 + 120 * 1008)); fflush(stdout); pause(); }\n";
    std::fs::write(folder.path().join("objects.c"), source).unwrap();
    let program = folder.path().join("objects");
    let built =
        Command::new("cc").args(["-O0", "-o"]).arg(&program).arg(folder.path().join("objects.c")).status();
    assert!(built.unwrap().success());
    let running = Running::of(Command::new(&program));
    let found = running.explained();
    near("in use", found.split.as_ref().unwrap().in_use_bytes, running.kept, 64 << 10);
}
