//! `heaptrial explain`: the C libraries of other systems, what it prints, and what it refuses.

use std::process::{Command, Output};

use serde_json::Value;

use crate::allocators::{Running, json, kept_cache, run, under};
use crate::support::heaps;

fn explained(pid: u32) -> Value {
    json(&kept_cache(), &["explain", &pid.to_string()])["processes"][0].clone()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs the package archive"]
fn heaps_of_other_c_libraries_are_read() {
    let cache = kept_cache();
    let folder = tempfile::tempdir().unwrap();
    let program = heaps(folder.path());
    for spec in ["glibc", "glibc@2.41", "glibc@2.43"] {
        let verified = json(&cache, &["allocators", "verify", spec]);
        let start = |case: &str| {
            let mut command = under(&verified, &program);
            command.args(case.split(' ')).env("MALLOC_ARENA_MAX", "64");
            Running::start_at(command, "ready")
        };
        let bytes = |process: &Value, name: &str| {
            process[name].as_u64().unwrap_or_else(|| panic!("{spec}: {process:#}"))
        };
        // 4 threads with 20,000 blocks of 1,000 bytes and 8 of header each.
        let half = explained(start("4 1000 20000 half").0.id());
        let truth = 4 * 10_000 * 1008_u64;
        for name in ["in_use_bytes", "free_in_pages_bytes"] {
            let off = (bytes(&half, name) as f64 / truth as f64 - 1.0).abs();
            assert!(off < 0.02, "{spec}: {name} of {half:#}");
        }
        assert_eq!((bytes(&half, "arenas"), bytes(&half, "threads")), (5, 5), "{spec}: {half:#}");
        let kept = explained(start("4 16000000 3 buffers").0.id());
        assert!(bytes(&kept, "kept_free_bytes") > 60_000_000, "{spec}: {kept:#}");
        assert!(kept["parsed_share"].as_f64().unwrap() > 0.99, "{spec}: {kept:#}");
        assert_eq!(kept["advice"][0]["try"][0], "glibc?trim_threshold=131072", "{spec}: {kept:#}");
    }
}

#[test]
fn a_process_is_shown_by_where_its_memory_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(heaps(folder.path()));
    command.args(["4", "16000000", "3", "buffers"]);
    let running = Running::start_at(command, "ready");
    let output = run(&kept_cache(), &["explain", &running.0.id().to_string()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("5 threads, 5 arenas") && text.contains("kept free"), "{text}");
    assert!(text.contains("Try `glibc?trim_threshold=131072`."), "{text}");
}

/// The one sentence that a process is refused with.
#[track_caller]
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    assert_eq!(said(output).lines().count(), 1, "{}", said(output));
    said(output)
}

#[test]
fn what_cannot_be_read_is_said_in_one_sentence() {
    let cache = kept_cache();
    refusal(&run(&cache, &["explain", "4194303"]));
    let none = run(&cache, &["explain", "/usr/bin/tor"]);
    assert_eq!(none.status.code(), Some(2), "{}", said(&none));
    // One that has ended, and whose parent has not asked for it.
    let mut ended = Command::new("true").spawn().unwrap();
    let pid = ended.id().to_string();
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let text = refusal(&run(&cache, &["explain", &pid]));
    ended.wait().unwrap();
    assert!(text.contains("does not exist"), "{text}");
}

#[test]
fn a_process_of_another_user_is_refused_with_what_is_missing_and_the_command() {
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        return heaptrial_testbed::skip("not root, which alone can be another user");
    }
    // Another user reads the program from a place that everybody can enter.
    let folder = tempfile::Builder::new().permissions(open_to_all()).tempdir_in("/tmp").unwrap();
    let program = folder.path().join("heaptrial");
    let built = env!("CARGO_BIN_EXE_heaptrial");
    std::fs::hard_link(built, &program).or_else(|_| std::fs::copy(built, &program).map(drop)).unwrap();
    let own = std::process::id().to_string();
    let output = Command::new(&program).args(["explain", &own]).uid(65534).gid(65534).output().unwrap();
    let text = refusal(&output);
    assert!(text.contains("Permission denied"), "{text}");
    assert!(text.contains(&format!("`sudo heaptrial explain {own}`")), "{text}");
}

fn open_to_all() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

/// As in a container: the files that the process maps are not where this program sees them.
#[test]
#[ignore = "needs root"]
fn a_process_in_another_mount_namespace_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let program = heaps(folder.path());
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let script =
        "mount -t tmpfs none \"$0\" && cp \"$1\" \"$0/service\" && exec \"$0/service\" 4 1000 20000 half";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(&inside).arg(&program);
    let running = Running::start_at(command, "ready");
    assert!(!inside.join("service").exists());
    let found = explained(running.0.id());
    assert!(found["in_use_bytes"].as_u64().unwrap() > 40_000_000, "{found:#}");
}

#[test]
fn an_allocator_whose_heap_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n\
        static char heap[1 << 24]; static size_t used;\n\
        void *malloc(size_t n) { void *p = heap + used; used += (n + 31) & ~(size_t)15; return p; }\n\
        void free(void *p) { (void)p; }\n\
        void *calloc(size_t n, size_t m) { return memset(malloc(n * m), 0, n * m); }\n\
        void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) memcpy(q, p, n); return q; }\n\
        #ifdef MARK\nvoid *h_malloc(size_t n) { return malloc(n); }\n#endif\n\
        int main(void) { puts(malloc(9) ? \"ready\" : \"\"); fflush(stdout); pause(); }\n";
    std::fs::write(folder.path().join("own.c"), source).unwrap();
    for (mark, why) in [("-DMARK", "hardened_malloc cannot be read"), ("-DNONE", "is not known")] {
        let program = folder.path().join("own");
        let cc = ["-O1", "-fno-builtin", "-w", mark, "-o"];
        let built = Command::new("cc").args(cc).arg(&program).arg(folder.path().join("own.c")).status();
        assert!(built.unwrap().success());
        let running = Running::start_at(Command::new(&program), "ready");
        let found = explained(running.0.id());
        assert!(found["why_no_split"].as_str().unwrap().contains(why), "{found:#}");
        assert!(found["in_use_bytes"].is_null() && found["rss_bytes"].as_u64().unwrap() > 0, "{found:#}");
    }
}

/// However large the process is.
#[test]
fn it_needs_little_memory_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(heaps(folder.path()));
    command.args(["2", "640", "200000", "half"]);
    let running = Running::start_at(command, "ready");
    let limit = Command::new("prlimit")
        .args(["--data=67108864", env!("CARGO_BIN_EXE_heaptrial"), "explain", &running.0.id().to_string()])
        .output()
        .unwrap();
    assert!(limit.status.success(), "{}", said(&limit));
}
