//! Names of hosts in commands. No prose stands there, so that whatever has the form of such a name is taken for one: which endings there
//! are nobody can list.

use std::sync::LazyLock;

use regex::Regex;

static NAME: LazyLock<Regex> = LazyLock::new(|| {
    // A test compiles it.
    Regex::new(r"(?:[A-Za-z0-9_-]+\.)+[a-z](?:[a-z0-9-]*[a-z])").expect("the pattern is valid")
});

/// Endings of files, some of which are those of countries too.
const FILES: [&str; 67] = [
    "bin", "bz", "cc", "cfg", "class", "cnf", "conf", "cpp", "crt", "css", "csv", "db", "deb", "dump", "exe",
    "go", "gz", "hpp", "html", "img", "ini", "iso", "jar", "java", "jpeg", "jpg", "js", "json", "jsonl",
    "key", "lock", "log", "lua", "md", "mjs", "out", "pem", "php", "pid", "pl", "pm", "png", "py", "rb",
    "rdb", "rpm", "rs", "service", "sh", "so", "sock", "socket", "sql", "sqlite", "svg", "tar", "tgz",
    "toml", "ts", "tsv", "txt", "war", "xml", "xz", "yaml", "yml", "zst",
];
/// Of those, the ones that files with a further full stop in their names seldom have.
const COUNTRIES: [&str; 8] = ["cc", "md", "pl", "pm", "py", "rs", "sh", "so"];

/// A word of a command without what may be the name of a host.
pub(super) fn without_hosts(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut done = 0;
    for found in NAME.find_iter(word) {
        if is_host(&word[..found.start()], found.as_str(), &word[found.end()..]) {
            out.push_str(&word[done..found.start()]);
            out.push_str("REMOVED-HOST");
            done = found.end();
        }
    }
    out.push_str(&word[done..]);
    out
}

fn is_host(before: &str, name: &str, after: &str) -> bool {
    // Parts of words, of paths, of fields and of variables; calls and members of a program's text.
    let begins =
        !before.ends_with(|c: char| c.is_alphanumeric() || "_-.#$".contains(c)) && !before.ends_with("json:");
    let ends = !after.starts_with(|c: char| c.is_alphanumeric() || "_-([=".contains(c));
    let in_path = before.ends_with('/') && !before.ends_with("//");
    let (labels, ending) = name.rsplit_once('.').unwrap_or_default();
    let file = FILES.contains(&ending) && !(labels.contains('.') && COUNTRIES.contains(&ending));
    begins && ends && !in_path && !file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_go_whatever_they_end_in() {
        for (word, clean) in [
            ("true db1.prod.acme.pl build.acme.co.jp", "true REMOVED-HOST REMOVED-HOST"),
            ("wrk http://web7.acme.it/x.y", "wrk http://REMOVED-HOST/x.y"),
            ("psql -h db.corp -p {port}", "psql -h REMOVED-HOST -p {port}"),
            ("me@acme.test:/srv", "me@REMOVED-HOST:/srv"),
        ] {
            assert_eq!(without_hosts(word), clean);
        }
    }

    #[test]
    fn what_else_a_command_says_stays() {
        for word in [
            "mysqld --defaults-file=my.cnf a.out dump.rdb photo.png",
            "nginx -c {dir}/nginx.conf docs/examples/web.js server.py libjemalloc.so.2",
            "import time, sys; time.sleep(float(sys.argv[1])); x.y = 1",
            "less:p99=json:load.late",
            "http://127.0.0.1:{port}/stats#served.all",
            "([0-9.]+) mimalloc@2.0.9 python3.11 6.1.0-28-amd64 1.5 $a.b",
        ] {
            assert_eq!(without_hosts(word), word);
        }
    }
}
