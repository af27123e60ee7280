//! Sources that need no network: repositories, source folders and libraries on this machine. The
//! allocator is a stand-in that answers like mimalloc. Needs a C compiler and git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use heaptrial_allocator::{Cache, Catalog, ObtainError, ObtainOptions, Obtained, Obtainer, SourceKind};

const SOURCE: &str = r#"
    #ifndef SECURE
    #define SECURE 0
    #endif
    #include <stddef.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <pthread.h>
    static char heap[1 << 28]; static size_t used; static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    void *malloc(size_t n) {
        pthread_mutex_lock(&lock);
        size_t *p = (size_t *)(heap + used); used += (n + 47) & ~(size_t)15;
        pthread_mutex_unlock(&lock);
        p[0] = n; return p + 2;
    }
    void free(void *p) { (void)p; }
    void *calloc(size_t n, size_t m) { return malloc(n * m); }
    void *realloc(void *p, size_t n) {
        void *q = malloc(n);
        if (p) { size_t old = ((size_t *)p)[-2]; memcpy(q, p, old < n ? old : n); }
        return q;
    }
    void *memalign(size_t a, size_t n) { char *p = malloc(n + a); return (void *)(((size_t)p + a - 1) & ~(a - 1)); }
    void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
    int posix_memalign(void **r, size_t a, size_t n) { *r = memalign(a, n); return 0; }
    int mi_version(void) { return VERSION; }
    __attribute__((constructor)) static void say(void) {
        const char *delay = getenv("STANDIN_PURGE_DELAY");
        if (getenv("MIMALLOC_VERBOSE")) fprintf(stderr, "secure level: %d\noption 'purge_delay': %s\n", SECURE, delay ? delay : "10");
    }
"#;

/// The program with the probe: an example of this crate, which cargo builds with its tests.
fn probe() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let probe = tests.parent().unwrap().parent().unwrap().join("examples/probe");
    assert!(probe.exists(), "{} is missing: cargo build --example probe", probe.display());
    probe
}

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// A folder `upstream` with a repository that holds `standin`, tagged as version 1.2.3.
    fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let repository = bench.repository();
        fs::create_dir_all(&repository).unwrap();
        fs::write(repository.join("standin.c"), format!("#define VERSION 123\n{SOURCE}")).unwrap();
        bench.git(&["init", "--quiet"]);
        bench.commit();
        bench.git(&["tag", "v1.2.3"]);
        bench
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("upstream/standin")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .current_dir(self.repository())
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "tag.gpgSign=false"])
            .args(arguments)
            .output()
            .expect("git is needed for these tests");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self) -> String {
        self.git(&["add", "standin.c"]);
        self.git(&["commit", "--quiet", "-m", "state"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn catalog(&self, commit: &str) -> Catalog {
        Catalog::parse(&format!(
            r#"
            [[family]]
            name = "standin"
            summary = "a stand-in"
            version_call = "mi_version"
            git = "https://upstream.invalid/standin.git"
            environment = {{ prefix = "STANDIN_" }}
            [family.build]
            method = "compile"
            output = "libstandin.so"
            compiler = "cc"
            flags = ["-O1", "-fPIC", "-shared", "-fno-builtin", "-w"]
            include = []
            sources = ["standin.c"]
            libraries = ["-lpthread"]
            [[family.variant]]
            name = "secure"
            about = "says that it is secure"
            flags = ["-DSECURE=4"]
            says = "secure level: 4"
            [[family.variant]]
            name = "liar"
            about = "does not say what it should"
            flags = []
            says = "hardened level: 1"
            [[family.setting]]
            name = "purge_delay"
            kind = "integer"
            about = "delay"
            in_versions = [{{ from = "1.2.3", to = "1.2.4", default = "10" }}]
            [[family.setting]]
            name = "forgotten"
            kind = "integer"
            about = "in no version at hand"
            in_versions = [{{ from = "9.0" }}]
            [[family.version]]
            version = "1.2.3"
            commit = {{ tag = "v1.2.3", id = "{commit}" }}
            "#
        ))
        .unwrap()
    }

    fn obtain(&self, catalog: &Catalog, spec: &str, from: Option<&Path>) -> Result<Obtained, ObtainError> {
        let spec = spec.parse().unwrap();
        let resolved = if from.is_some() { catalog.resolve_local(&spec)? } else { catalog.resolve(&spec)? };
        let mut options = ObtainOptions::new(probe());
        options.mirror = Some(self.folder.path().join("upstream").display().to_string());
        options.sources = vec![SourceKind::Git];
        options.from = from.map(Path::to_owned);
        Obtainer::new(Cache::at(self.folder.path().join("cache")), options).obtain(&resolved)
    }
}

#[test]
fn a_pinned_commit_is_built_and_asked() {
    let bench = Bench::new();
    let catalog = bench.catalog(&bench.git(&["rev-parse", "HEAD"]));
    let obtained = bench.obtain(&catalog, "standin@1.2.3+secure?purge_delay=0", None).unwrap();
    assert_eq!(obtained.version.as_ref().unwrap().as_str(), "1.2.3");
    assert_eq!(obtained.verification.options["purge_delay"], "0");
    assert!(obtained.provenance.to_string().contains("upstream/standin at "), "{}", obtained.provenance);
    let again = bench.obtain(&catalog, "standin@1.2.3+secure", None).unwrap();
    assert_eq!((obtained.library, obtained.sha256), (again.library, again.sha256));
}

#[test]
fn a_tag_that_was_moved_is_refused() {
    let bench = Bench::new();
    let catalog = bench.catalog(&bench.git(&["rev-parse", "HEAD"]));
    fs::write(bench.repository().join("standin.c"), "int moved;\n").unwrap();
    bench.commit();
    bench.git(&["tag", "--force", "v1.2.3"]);
    let message = bench.obtain(&catalog, "standin@1.2.3+secure", None).unwrap_err().to_string();
    assert!(message.contains("is commit") && message.contains("it is not used"), "{message}");
    assert!(message.contains("next: "), "{message}");
}

#[test]
fn source_of_another_version_is_refused() {
    let bench = Bench::new();
    fs::write(bench.repository().join("standin.c"), format!("#define VERSION 124\n{SOURCE}")).unwrap();
    let commit = bench.commit();
    bench.git(&["tag", "--force", "v1.2.3"]);
    let message =
        bench.obtain(&bench.catalog(&commit), "standin@1.2.3+secure", None).unwrap_err().to_string();
    assert!(message.contains("it is standin 1.2.4 and not 1.2.3, by its own answer"), "{message}");
    let taken = bench.obtain(&bench.catalog(&commit), "standin+secure", Some(&bench.repository())).unwrap();
    assert_eq!(taken.version.unwrap().as_str(), "1.2.4");
}

#[test]
fn a_build_that_does_not_say_what_it_should_is_refused() {
    let bench = Bench::new();
    let catalog = bench.catalog(&bench.git(&["rev-parse", "HEAD"]));
    let message = bench.obtain(&catalog, "standin@1.2.3+liar", None).unwrap_err().to_string();
    assert!(message.contains("it is not the `liar` build"), "{message}");
}

#[test]
fn source_that_does_not_compile_shows_the_compilers_message() {
    let bench = Bench::new();
    fs::write(bench.repository().join("standin.c"), "this is not C\n").unwrap();
    let catalog = bench.catalog(&bench.git(&["rev-parse", "HEAD"]));
    let message =
        bench.obtain(&catalog, "standin+secure", Some(&bench.repository())).unwrap_err().to_string();
    assert!(message.contains("error: ") && message.contains("standin.c:1"), "{message}");
}

#[test]
fn a_setting_that_the_version_at_hand_does_not_have_is_refused() {
    let bench = Bench::new();
    let catalog = bench.catalog(&bench.git(&["rev-parse", "HEAD"]));
    let message = bench
        .obtain(&catalog, "standin+secure?forgotten=1", Some(&bench.repository()))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("standin 1.2.3 has no setting `forgotten`") && message.contains("9.0 and later"),
        "{message}"
    );
}
