//! The real server on a loopback port: what it answers, what it refuses, and that it never writes.

use crate::client;
use crate::fixture;
use crate::fleet;

use std::io::Write;
use std::path::PathBuf;

use client::Server;
use fixture::{Field, MINUTE, Written, now_us};
use heaptrial_dashboard::{Config, Dashboard, DashboardError};
use heaptrial_model::{Ending, KnownEvent, LifeStart};
use heaptrial_store::Store;
use rusqlite::Connection;
use tempfile::TempDir;

fn database(folder: &TempDir) -> PathBuf {
    folder.path().join("heaptrial.db")
}

fn small() -> Field {
    Field { services: 10, ..Field::default() }
}

/// A dashboard of a trial, whose folder goes when it is dropped.
fn serve(field: &Field) -> (TempDir, Written, Server) {
    let folder = tempfile::tempdir().unwrap();
    let written = field.write(&database(&folder));
    let server = Server::of(&database(&folder));
    (folder, written, server)
}

#[track_caller]
fn assert_holds(page: &str, wanted: &[&str], unwanted: &[&str]) {
    for text in wanted {
        assert!(page.contains(text), "{text} is not in {page}");
    }
    for text in unwanted {
        assert!(!page.contains(text), "{text} is in {page}");
    }
}

#[test]
fn every_page_is_there_and_unknown_ones_help() {
    let (_folder, _, server) = serve(&small());
    for (path, status, held) in [
        ("/", 200, "five-way"),
        ("/trial/five-way", 200, "mimalloc-2.0.9"),
        ("/trial/five-way?id=1", 200, "Look after 10 d"),
        ("/service/tor@relay01.service", 200, "killed by SIGKILL"),
        ("/service/tor%40relay08.service", 200, "non-compliant"),
        ("/healthz", 200, "ok"),
        ("/trial/six-way", 404, "no trial called six-way"),
        ("/trial/five-way?id=9", 404, "no trial called"),
        ("/trial/five-way?id=x", 400, ""),
        ("/service/relay03", 404, "a service called relay03"),
        ("/version", 200, "."),
        ("/nowhere", 404, "There is no page"),
        ("/static/dashboard.css", 404, "Nothing here"),
        ("/static/..%2f..%2fetc%2fpasswd", 404, "Nothing here"),
        ("/trial/", 404, "Nothing here"),
        ("/trial/a%2Fb", 404, "no trial called a/b"),
        ("/trial/%ff", 400, ""),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body.contains(held), "{path}: {}", answer.body);
    }
    // What a page refers to is there, whole and to be kept.
    let page = server.get("/").body;
    let assets: Vec<&str> = page.split('"').filter(|part| part.starts_with("/static/")).collect();
    assert_eq!(assets.len(), 3, "{assets:?}");
    for asset in assets {
        let answer = server.get(asset);
        assert_eq!(answer.status, 200, "{asset}");
        assert!(answer.header("cache-control").unwrap().contains("immutable"), "{}", answer.head);
        assert!(answer.body.len() > 200, "{asset}");
    }
}

#[test]
fn only_get_and_head_are_answered() {
    let (_folder, _, server) = serve(&small());
    for path in ["/", "/trial/five-way", "/service/x", "/healthz", "/version", "/static/x", "/nowhere"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            let answer = server.request(method, path);
            assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method} {path}");
        }
        let (get, head) = (server.request("GET", path), server.request("HEAD", path));
        assert_eq!(get.status, head.status, "{path}");
        assert_eq!(head.body, "", "{path}");
    }
    let head = format!("Host: {}\r\nConnection: close\r\n", server.address);
    for extra in
        ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
    {
        assert_eq!(server.raw(&format!("GET / HTTP/1.1\r\n{head}{extra}")).status, 413);
    }
}

#[test]
fn every_answer_has_the_headers_that_bind_a_browser() {
    let (_folder, _, server) = serve(&small());
    for path in ["/", "/trial/five-way", "/service/nothing", "/healthz", "/nowhere", "/trial/%ff"] {
        let answer = server.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "style-src 'self'",
            "script-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|found| found == part), "{path}: {policy}");
        }
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        assert_eq!(answer.header("set-cookie"), None);
        assert_eq!(answer.header("access-control-allow-origin"), None);
        for inline in ["<style", "onclick", " style=", "javascript:", "<script>"] {
            assert!(!answer.body.contains(inline), "{path}: {inline}");
        }
    }
    assert_eq!(server.request("POST", "/").header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn names_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    small().write(&database(&folder));
    let server = Server::with(Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        hosts: vec!["dash.example".to_owned()],
        ..Config::of(database(&folder))
    });
    let asked = |host: &str| {
        server.raw(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status
    };
    assert_eq!(["localhost:9999", "[::1]", "Dash.Example"].map(asked), [200; 3]);
    assert_eq!(["evil.example", "localhost.evil.example", "192.0.2.1"].map(asked), [403; 3]);
}

#[test]
fn hostile_names_stay_text_on_every_page() {
    const EVIL: &str = "<script>alert(1)</script>\"'`&lt;/..?#%2f";
    let (folder, mut written, server) = serve(&Field {
        name: format!("a/b {EVIL}"),
        first_arm: "<script>alert(1)</script>\u{202e}evil\u{1b}[31m",
        service_name: |number| format!("<img src=x onerror=alert({number})>\u{1b}]0;t\u{7}"),
        ..small()
    });
    let (service, text) = (written.services[3].0, "</main><script>alert(2)</script>\u{202e}");
    written.store.add_event(written.trial_id, Some(service), now_us(), KnownEvent::Note, text).unwrap();
    // As an import may have brought it.
    let sql = "UPDATE event SET kind = '</li><script>' WHERE text LIKE '</main>%'";
    assert_eq!(Connection::open(database(&folder)).unwrap().execute(sql, []).unwrap(), 1);
    let overview = server.get("/").body;
    let links: Vec<String> = overview
        .split("href=\"")
        .skip(1)
        .map(|part| part.split('"').next().unwrap().replace("&amp;", "&"))
        .filter(|link| link.starts_with("/trial/") || link.starts_with("/service/"))
        .collect();
    assert!(links.len() >= 11, "{links:?}");
    for link in ["/".to_owned()].into_iter().chain(links) {
        let answer = server.get_computed(link.split('#').next().unwrap());
        assert_eq!(answer.status, 200, "{link}");
        let body = &answer.body;
        assert_eq!(body.matches("<script").count(), 1, "{link}: only its own script");
        for markup in ["<img", "onerror=alert(1)>", "</main><s", "\u{1b}", "\u{202e}", "\u{7}"] {
            assert!(!body.contains(markup), "{link}: {markup:?}");
        }
        assert_eq!(body.matches("</main>").count(), 1, "{link}");
    }
    assert!(overview.contains("&lt;script&gt;"));
    let missing = server.get("/trial/%3Cscript%3Ealert(3)%3C%2Fscript%3E");
    assert!(missing.status == 404 && !missing.body.contains("<script>alert"), "{}", missing.body);
}

#[test]
fn a_running_trial_shows_nothing_that_a_look_would_show() {
    let (_folder, _, server) = serve(&Field::default());
    let page = server.get_computed("/trial/five-way").body.to_lowercase();
    let conclusions = [
        "p-value",
        "interval of",
        "95%",
        "verdict",
        "stable",
        "bloating",
        "ratio to control",
        "adjusted",
        "class=\"interval",
        "class=\"spread",
    ];
    assert_holds(&page, &["descriptive", "<svg"], &conclusions);
    let report = server.get("/trial/five-way/report");
    assert!(report.status == 404 && report.body.contains("no report yet"), "{}", report.body);
}

#[test]
fn a_trial_that_has_ended_shows_its_report_and_its_looks() {
    let (_folder, _, server) = serve(&Field { ended: Some("completed"), looks: true, ..Field::default() });
    let page = server.get_computed("/trial/five-way").body;
    let wanted = ["id=\"result\"", "Ratio to control", "Pages of the services", "Look 2", "As recorded"];
    assert_holds(&page, &wanted, &[]);
    for id in ["services", "events", "looks", "result", "main"] {
        assert!(page.matches(&format!("id=\"{id}\"")).count() <= 1, "{id} is one element");
    }
    let report = server.get("/trial/five-way/report");
    let policy = report.header("content-security-policy").unwrap();
    assert!(policy.contains("style-src 'sha256-") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(report.body.starts_with("<!DOCTYPE html>") && !report.body.contains("<script"));
}

#[test]
fn services_of_an_import_have_the_ages_at_which_they_were_read_last() {
    let folder = tempfile::tempdir().unwrap();
    let mut import = fleet::contaminated();
    import.services.last_mut().unwrap().lives[0].start = LifeStart::Unknown;
    fleet::write(&import, &database(&folder));
    let server = Server::of(&database(&folder));
    let page = server.get("/service/restarted07").body;
    assert_holds(&page, &["4 processes here", "inferred, within 1 h", "≥ 1 d 23 h", "last read 2026-"], &[]);
    let overview = server.get("/").body;
    assert_holds(&overview, &["last reading", ">imported<", "7 d 23 h"], &[">running<", "Memory of all"]);
}

#[test]
fn a_clock_that_was_set_changes_no_age_of_a_ledger() {
    let (_folder, mut written, server) = serve(&Field { age_us: 12 * fixture::HOUR, ..small() });
    let (_, life, _, began) = written.services[0];
    let five_hours_old = written.boottime(began) + 5 * fixture::HOUR;
    written.store.end_life(life, (began + 3 * fixture::DAY, five_hours_old), &Ending::Stopped).unwrap();
    let body = server.get("/service/tor@relay01.service").body;
    let ledger = body.split("<tbody").nth(1).unwrap_or_else(|| panic!("{body}"));
    assert_holds(ledger, &["5 h"], &["3 d"]);
}

#[test]
fn services_that_are_no_more_are_in_no_sum_of_a_running_trial() {
    let (_folder, mut written, server) = serve(&small());
    let memory = || {
        let body = server.get("/").body;
        let sum = body.split("Memory of all</dt><dd>").nth(1).unwrap_or_else(|| panic!("{body}"));
        sum.split('<').next().unwrap().to_owned()
    };
    let whole = memory();
    let (_, life, ..) = written.services[1];
    written.store.end_life(life, (now_us(), written.start_us), &Ending::Signaled(11)).unwrap();
    let less = memory();
    let (dropped, ..) = written.services[3];
    written
        .store
        .add_event(written.trial_id, Some(dropped), now_us(), KnownEvent::Dropped, "broken")
        .unwrap();
    assert!(whole != less && less != memory(), "{whole}, {less}, {}", memory());
    assert_holds(&server.get("/").body, &["killed by SIGSEGV", "dropped from the trial"], &[]);
}

#[test]
fn of_many_events_the_newest_are_shown_and_all_that_are_grave() {
    let (_folder, mut written, server) = serve(&small());
    let (all, _) = written.store.count_events(written.trial_id, 0).unwrap();
    for number in 0..600 {
        let at = now_us() - number * 1_000_000;
        written.store.add_event(written.trial_id, None, at, KnownEvent::Note, "again").unwrap();
    }
    let trial = server.get("/trial/five-way").body;
    assert_holds(&trial, &[&format!("{} earlier events", all + 592)], &[]);
    for page in [trial, server.get("/").body] {
        assert_holds(&page, &["of them are not shown", "the kernel killed it at 5.1 GiB"], &[]);
    }
}

/// Of a trial of two hosts the one whose ticks have the highest numbers has not been read for a day.
#[test]
fn a_gathered_trial_is_read_as_long_as_one_of_its_hosts_is() {
    let (folder, written, server) = serve(&small());
    let connection = Connection::open(database(&folder)).unwrap();
    let now = now_us();
    let tick = "UPDATE tick SET wall_us = wall_us - ?1 WHERE trial_id = ?2";
    connection.execute(tick, (fixture::DAY, written.trial_id)).unwrap();
    for (host, ago) in [("alpha", 12_000_000), ("beta", fixture::DAY)] {
        let part = "INSERT INTO part (trial_id, host, facts_json, started_wall_us, sequence, tick_wall_us, gathered_wall_us)
                    VALUES (?1, ?2, '{}', 1, 1, ?3, ?4)";
        connection.execute(part, (written.trial_id, host, now - ago, now)).unwrap();
    }
    assert_holds(&server.get("/").body, &["alive"], &["silent"]);
    let trial = server.get("/trial/five-way").body;
    assert_holds(&trial, &[], &["Nothing is read"]);
}

/// Of two services of a lab run the workers crashed, and one ran something else.
#[test]
fn what_a_lab_excluded_for_crashes_is_not_called_non_compliant() {
    let (folder, mut written, server) = serve(&Field { ended: Some("completed"), ..small() });
    for number in [1, 2] {
        let (_, life, ..) = written.services[number];
        written.store.fail_life(life, "processes of it crashed: killed by SIGSEGV 3 times").unwrap();
    }
    let sql = "UPDATE trial SET kind = 'lab_command'";
    Connection::open(database(&folder)).unwrap().execute(sql, []).unwrap();
    let overview = server.get("/").body;
    assert_holds(&overview, &[">Non-compliant</dt><dd>1</dd>", "2 excluded by failures"], &[]);
    let service = server.get("/service/tor@relay02.service").body;
    let unwanted = [">non-compliant<", "not its arm's treatment"];
    assert_holds(&service, &["yes, proved", "SIGSEGV 3 times"], &unwanted);
    assert_holds(&server.get("/service/tor@relay08.service").body, &[">non-compliant<"], &[]);
}

#[test]
fn services_to_be_looked_at_come_first() {
    let (_folder, _, server) = serve(&Field::default());
    let page = server.get("/").body;
    let rows = page.split("id=\"services\"").nth(1).unwrap().split("href=\"/service/").skip(1);
    let names: Vec<&str> = rows.map(|part| part.split('?').next().unwrap()).collect();
    assert_eq!(names.len(), 40);
    assert_eq!(names[..3], ["tor@relay08.service", "tor@relay14.service", "tor@relay01.service"]);
}

#[test]
fn a_change_is_another_version() {
    let (_folder, mut written, server) = serve(&small());
    let version = || server.get("/version").body;
    let known = version();
    assert_eq!(version(), known);
    assert!(server.get("/").body.contains(&format!("data-version=\"{known}\"")));
    written.store.add_event(written.trial_id, None, now_us(), KnownEvent::Note, "by another").unwrap();
    assert_ne!(version(), known);
    assert!(server.get("/").body.contains("by another"));
}

#[test]
fn a_page_is_answered_alongside_many_connections_that_ask_nothing() {
    let (_folder, _, server) = serve(&small());
    let mut slow = server.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    let crowd: Vec<_> = (0..200).map(|_| server.connect()).collect();
    assert_eq!(server.get("/healthz").status, 200);
    drop(crowd);
    assert_eq!(server.raw("\u{0}\u{1}\r\n\r\n").status, 400);
}

#[test]
fn the_database_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    drop(small().write(&database(&folder)));
    let before = std::fs::read(database(&folder)).unwrap();
    let server = Server::of(&database(&folder));
    for path in ["/", "/trial/five-way", "/service/tor@relay01.service", "/healthz"] {
        assert_eq!(server.get_computed(path).status, 200);
    }
    drop(server);
    assert!(std::fs::read(database(&folder)).unwrap() == before);
}

/// Such a user cannot make the index that readers share; the file is then read as one that does not change.
#[test]
fn a_user_who_cannot_write_to_the_folder_sees_what_is_new() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let allow = |mode| {
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let trial_id = small().write(&database(&folder)).trial_id;
    allow(0o555);
    // Threads that this one starts, those of the server among them, are of its user; the writer's is not.
    let is_root = rustix::process::geteuid().is_root();
    let (ask, asked) = std::sync::mpsc::channel::<()>();
    let (answer, answered) = std::sync::mpsc::channel::<(u16, String)>();
    let path = database(&folder);
    let reader = std::thread::spawn(move || {
        if is_root {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        }
        let server = Server::of(&path);
        for () in asked {
            let page = server.get("/");
            answer.send((page.status, page.body)).unwrap();
        }
    });
    let page = || {
        ask.send(()).unwrap();
        answered.recv().unwrap()
    };
    assert_eq!(page().0, 200);
    // By writers that have ended, and by one that goes on.
    let mut stays = None;
    for (text, ends) in [("by one that ended", true), ("by one that stays", false), ("after that", true)] {
        allow(0o755);
        let mut store = Store::create(&database(&folder)).unwrap();
        store.add_event(trial_id, None, now_us(), KnownEvent::Note, text).unwrap();
        stays = Some(store).filter(|_| !ends);
        allow(0o555);
        let (status, body) = page();
        assert!(status == 200 && body.contains(text), "{text}: {body}");
    }
    drop((stays, ask));
    reader.join().unwrap();
    allow(0o755);
}

#[test]
fn a_missing_database_is_reported_and_one_that_comes_back_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::of(folder.path().join("none.db"));
    assert!(matches!(Dashboard::bind(config), Err(DashboardError::Store(_))));
    small().write(&database(&folder));
    let server = Server::of(&database(&folder));
    assert_eq!(server.get("/").status, 200);
    let aside = folder.path().join("aside.db");
    std::fs::rename(database(&folder), &aside).unwrap();
    let answer = server.get("/");
    assert!(answer.status == 503 && answer.body.contains("heaptrial.db"), "{}", answer.body);
    assert_eq!(server.get("/healthz").status, 503);
    Field { name: "another".to_owned(), ..small() }.write(&database(&folder));
    assert!(server.get("/").body.contains("another"));
}

#[test]
fn an_empty_database_says_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::create(&database(&folder)).unwrap());
    let server = Server::of(&database(&folder));
    assert_eq!(server.get("/").status, 200);
    assert!(server.get("/").body.contains("holds no trial yet"));
    assert!(server.get("/trial/x").body.contains("no trial called x"));
}

#[test]
fn a_silent_agent_is_reported() {
    let (_folder, _, server) = serve(&Field { last_tick_ago_us: 40 * MINUTE, ..small() });
    assert_holds(&server.get("/").body, &["silent", "running, but not read", "stale"], &[]);
    assert_holds(&server.get("/trial/five-way").body, &["Nothing is read"], &[]);
}

#[test]
fn an_unknown_kind_of_trial_is_reported_with_its_name() {
    let (folder, _, server) = serve(&small());
    let sql = "UPDATE trial SET kind = 'orbital'";
    Connection::open(database(&folder)).unwrap().execute(sql, []).unwrap();
    let page = server.get("/");
    assert!(page.status == 503 && page.body.contains("orbital"), "{}", page.body);
}
