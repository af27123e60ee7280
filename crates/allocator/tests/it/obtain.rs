//! Sources that need no network: repositories, source folders and libraries on this machine. The
//! allocator is a stand-in that answers like mimalloc. Needs a C compiler and git.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
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
        Catalog::parse(&self.catalog_text(commit)).unwrap()
    }

    fn catalog_text(&self, commit: &str) -> String {
        format!(
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
            [[family.variant]]
            name = "quiet"
            about = "does not say what it is"
            flags = ["-DQUIET=1"]
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
        )
    }

    fn obtain(&self, catalog: &Catalog, spec: &str, from: Option<&Path>) -> Result<Obtained, ObtainError> {
        self.obtain_of(SourceKind::Git, catalog, spec, from)
    }

    fn obtain_of(
        &self,
        kind: SourceKind,
        catalog: &Catalog,
        spec: &str,
        from: Option<&Path>,
    ) -> Result<Obtained, ObtainError> {
        let spec = spec.parse().unwrap();
        let resolved = if from.is_some() { catalog.resolve_local(&spec)? } else { catalog.resolve(&spec)? };
        let mut options = ObtainOptions::new(probe());
        options.mirror = Some(self.folder.path().join("upstream").display().to_string());
        options.sources = vec![kind];
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

/// A stand-in for a compiler that tells the version in a file beside it.
fn compiler(folder: &Path, version: &str) -> PathBuf {
    let (path, told) = (folder.join("compiler"), folder.join("compiler-version"));
    fs::write(&told, version).unwrap();
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exec cat \"$0-version\"\nexec cc \"$@\"\n";
    if !path.exists() {
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    path
}

#[test]
fn a_build_is_kept_for_its_source_recipe_and_compiler_alone() {
    let bench = Bench::new();
    let commit = bench.git(&["rev-parse", "HEAD"]);
    let own = compiler(bench.folder.path(), "one 1.0");
    let text = bench.catalog_text(&commit).replace("\"cc\"", &format!("\"{}\"", own.display()));
    let catalog = Catalog::parse(&text).unwrap();
    let spec = "standin@1.2.3+secure";
    let first = bench.obtain(&catalog, spec, None).unwrap();
    let built = |obtained: &Obtained| obtained.provenance.build.clone().unwrap();
    assert_eq!(built(&first).compiler, "one 1.0");

    // Another source is not served from what this one gave.
    let message = bench.obtain_of(SourceKind::Crate, &catalog, spec, None).unwrap_err().to_string();
    assert!(message.contains("every source of it is excluded"), "{message}");

    // The same build without anything at hand: it comes from the cache.
    let upstream = bench.folder.path().join("upstream");
    let aside = bench.folder.path().join("aside");
    fs::rename(&upstream, &aside).unwrap();
    assert_eq!(bench.obtain(&catalog, spec, None).unwrap().sha256, first.sha256);
    // That of another compiler or recipe does not.
    compiler(bench.folder.path(), "two 2.0");
    assert!(bench.obtain(&catalog, spec, None).is_err());
    fs::rename(&aside, &upstream).unwrap();
    assert_eq!(built(&bench.obtain(&catalog, spec, None).unwrap()).compiler, "two 2.0");
    let other = Catalog::parse(&text.replace("\"-O1\"", "\"-O1\", \"-DVARIED\"")).unwrap();
    let other = bench.obtain(&other, spec, None).unwrap();
    assert!(built(&other).commands[0].contains(&"-DVARIED".to_owned()), "{:?}", built(&other));
}

#[test]
fn a_damaged_entry_is_made_again() {
    let bench = Bench::new();
    let catalog = bench.catalog(&bench.git(&["rev-parse", "HEAD"]));
    let first = bench.obtain(&catalog, "standin@1.2.3", None).unwrap();
    let library = first.library.clone().unwrap();
    let manifest = library.with_file_name("manifest.json");
    let harms: [&dyn Fn(); 4] = [
        &|| fs::write(&library, "{}").unwrap(),
        &|| fs::write(&manifest, "{}").unwrap(),
        &|| fs::set_permissions(&library, fs::Permissions::from_mode(0o666)).unwrap(),
        &|| fs::remove_file(&library).unwrap(),
    ];
    for harm in harms {
        harm();
        let again = bench.obtain(&catalog, "standin@1.2.3", None).unwrap();
        assert_eq!((again.sha256, again.library.as_ref()), (first.sha256.clone(), Some(&library)));
    }
    // Nothing that was only on the way is left.
    let entries = fs::read_dir(bench.folder.path().join("cache/allocators")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| !name.ends_with(".lock")).count(), 1, "{names:?}");
}

#[test]
fn what_nothing_in_a_library_tells_is_told_as_not_proved() {
    let obtain = |bench: &Bench, silent: bool, spec: &str, from: Option<&Path>| {
        let text = bench.catalog_text(&bench.git(&["rev-parse", "HEAD"]));
        let call = "version_call = \"none\"\nstrings = [\"secure level\"]";
        let text = if silent { text.replace("version_call = \"mi_version\"", call) } else { text };
        bench.obtain(&Catalog::parse(&text).unwrap(), spec, from).unwrap()
    };
    let told = Bench::new();
    assert!(obtain(&told, false, "standin@1.2.3+secure", None).verification.unproved.is_empty());
    let [variant] =
        obtain(&told, false, "standin@1.2.3+quiet", None).verification.unproved.try_into().unwrap();
    assert!(variant.contains("variant quiet") && variant.contains("compiled with -DQUIET=1"), "{variant}");
    let silent = Bench::new();
    let obtained = obtain(&silent, true, "standin@1.2.3", None);
    let [version] = obtained.verification.unproved.clone().try_into().unwrap();
    assert!(version.contains("version 1.2.3") && version.contains("upstream/standin at "), "{version}");
    assert!(obtained.verification.to_string().contains("not proved: version 1.2.3"));
    let library = obtained.library.unwrap();
    let claims = obtain(&silent, true, "standin@1.2.3+quiet", Some(&library)).verification.unproved;
    assert!(claims.len() == 2 && claims.iter().all(|claim| claim.contains("the spec alone")), "{claims:?}");
}

#[test]
fn what_is_in_the_environment_of_a_user_is_in_no_build() {
    let bench = Bench::new();
    // What cargo or scripts/test.sh sets for tests stands for CFLAGS, LDFLAGS and the like.
    let of_caller = ["CARGO_MANIFEST_DIR", "HEAPTRIAL_SKIPPED"];
    let name = of_caller.into_iter().find(|name| std::env::var_os(name).is_some()).unwrap();
    let configure = "#!/bin/sh\n\
        if [ -n \"$NAME\" ]; then echo \"error: $NAME\"; exit 1; fi\n\
        [ \"$*\" = \"CC=cc CFLAGS=-O3 -w -g0\" ] || { echo \"error: $*\"; exit 1; }\n\
        printf 'lib: libstandin.so\\nlibstandin.so: standin.c\\n\\ttest -z \"$$NAME\" && cc -O1 -fPIC -shared -fno-builtin -w standin.c -o libstandin.so -lpthread\\nclean:\\n\\trm -f libstandin.so\\n' >Makefile\n"
    .replace("NAME", name);
    fs::write(bench.repository().join("configure"), configure).unwrap();
    bench.git(&["add", "configure"]);
    let commit = bench.commit();
    bench.git(&["tag", "--force", "v1.2.3"]);
    let text = bench.catalog_text(&commit);
    let (from, to) = (text.find("method =").unwrap(), text.find("[[family.variant]]").unwrap());
    let recipe = "method = \"configure\"\noutput = \"libstandin.so\"\narguments = []\ntarget = \"lib\"\nbuilt = \"libstandin.so\"\n";
    let catalog = Catalog::parse(&format!("{}{recipe}{}", &text[..from], &text[to..])).unwrap();
    let obtained = bench.obtain(&catalog, "standin@1.2.3", None).unwrap();
    // Of a folder of the user's nothing is changed, and nothing that was built there is used.
    fs::write(bench.repository().join("Makefile"), "clean:\n").unwrap();
    fs::write(bench.repository().join("libstandin.so"), "stale").unwrap();
    let local = bench.obtain(&catalog, "standin", Some(&bench.repository())).unwrap();
    assert_eq!(local.sha256, obtained.sha256);
    assert_eq!(fs::read(bench.repository().join("Makefile")).unwrap(), b"clean:\n");
    let environment = obtained.provenance.build.unwrap().environment;
    assert!(environment.contains(&"SOURCE_DATE_EPOCH=0".to_owned()), "{environment:?}");
}
