//! The real server on a loopback port: what it answers, what it refuses, and that it never writes.

use crate::client;
use crate::fixture;

use std::io::Write;
use std::path::PathBuf;

use client::Server;
use fixture::{Field, MINUTE, now_us};
use heaptrial_dashboard::{Config, Dashboard, DashboardError};
use heaptrial_model::{Ending, KnownEvent};
use heaptrial_store::Store;

fn database(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("heaptrial.db")
}

fn small() -> Field {
    Field { services: 10, ..Field::default() }
}

#[test]
fn every_page_is_there_and_unknown_ones_help() {
    let folder = tempfile::tempdir().unwrap();
    small().write(&database(&folder));
    let server = Server::of(&database(&folder));
    for (path, status, held) in [
        ("/", 200, "five-way"),
        ("/trial/five-way", 200, "mimalloc-2.0.9"),
        ("/trial/five-way?id=1", 200, "Look 2"),
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
    let folder = tempfile::tempdir().unwrap();
    small().write(&database(&folder));
    let server = Server::of(&database(&folder));
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
    let folder = tempfile::tempdir().unwrap();
    small().write(&database(&folder));
    let server = Server::of(&database(&folder));
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
    let folder = tempfile::tempdir().unwrap();
    let field = Field {
        name: format!("a/b {EVIL}"),
        first_arm: Some(format!("{EVIL}\u{202e}evil\u{1b}[31m")),
        service_name: |number| format!("<img src=x onerror=alert({number})>\u{1b}]0;t\u{7}"),
        ..small()
    };
    let mut written = field.write(&database(&folder));
    let service = written.services[3].0;
    written
        .store
        .add_event(
            written.trial_id,
            Some(service),
            now_us(),
            KnownEvent::Note,
            "</main><script>alert(2)</script>\u{202e}",
        )
        .unwrap();
    // As an import may have brought it.
    let sql = "UPDATE event SET kind = '</li><script>' WHERE text LIKE '</main>%'";
    let edited = rusqlite::Connection::open(database(&folder)).unwrap().execute(sql, []).unwrap();
    assert_eq!(edited, 1);
    let server = Server::of(&database(&folder));
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
fn a_running_trial_shows_nothing_that_a_look_would_tell() {
    let folder = tempfile::tempdir().unwrap();
    let running = Field { looks: false, ..Field::default() };
    running.write(&database(&folder));
    let server = Server::of(&database(&folder));
    let page = server.get_computed("/trial/five-way").body;
    assert!(page.contains("Descriptive") && page.contains("<svg"), "{page}");
    let whole = page.to_lowercase();
    for told in [
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
    ] {
        assert!(!whole.contains(told), "{told}");
    }
    let report = server.get("/trial/five-way/report");
    assert!(report.status == 404 && report.body.contains("no report yet"), "{}", report.body);
}

#[test]
fn a_trial_that_has_ended_shows_its_report() {
    let folder = tempfile::tempdir().unwrap();
    Field { ended: Some("completed"), ..Field::default() }.write(&database(&folder));
    let server = Server::of(&database(&folder));
    let page = server.get_computed("/trial/five-way").body;
    for told in ["id=\"result\"", "Ratio to control", "Pages of the services", "Look 2"] {
        assert!(page.contains(told), "{told}: {page}");
    }
    for id in ["services", "events", "looks", "result", "main"] {
        assert!(page.matches(&format!("id=\"{id}\"")).count() <= 1, "{id} is one element");
    }
    let report = server.get("/trial/five-way/report");
    assert_eq!(report.status, 200);
    let policy = report.header("content-security-policy").unwrap();
    assert!(policy.contains("style-src 'sha256-") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(report.body.starts_with("<!DOCTYPE html>") && !report.body.contains("<script"));
}

#[test]
fn an_imported_service_shows_its_ages_and_ends_when_it_was_read_last() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_import(&database(&folder), now_us() - 300 * fixture::DAY);
    let server = Server::of(&database(&folder));
    let page = server.get("/service/relay1?id=1");
    assert_eq!(page.status, 200, "{}", page.body);
    let body = page.body;
    // Two lives of four days each, 300 days ago: the first one's start is not known, the second one's is inferred.
    for held in [
        "≥ 4 d",
        "when last read",
        "2 processes here",
        "inferred, within 12 h",
        "middle between two readings",
        "restarted, ",
        "last read ",
        "not known",
    ] {
        assert!(body.contains(held), "{held}: {body}");
    }
    let up_to_today = (280..310).find(|days| body.contains(&format!("{days} d")));
    assert_eq!(up_to_today, None, "{body}");
    assert!(!body.contains("{&quot;") && !body.contains("[&quot;"), "{body}");
    // Who was read no more before the end is in no sum; ages that count from the first reading say so in tables too.
    let overview = server.get("/").body;
    for held in ["1.05 GiB", "sum of the last readings, without 1 read no more", "≥ 5 d", ">read no more<"]
    {
        assert!(overview.contains(held), "{held}: {overview}");
    }
    assert!(!overview.contains("≥ 3 d"), "{overview}");
    for (path, held) in [("/", "last reading"), ("/trial/old?id=1", "last reading")] {
        let body = server.get(path).body;
        assert!(body.contains(held) && body.contains(">imported<"), "{path}: {body}");
        assert!(!body.contains(">running<") && !body.contains("Nothing is read"), "{path}: {body}");
    }
}

#[test]
fn a_clock_that_was_set_changes_no_age_of_a_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let mut written =
        Field { services: 10, age_us: 12 * fixture::HOUR, ..Field::default() }.write(&database(&folder));
    let (_, life, _, began) = written.services[0];
    let five_hours_old = written.boottime(began) + 5 * fixture::HOUR;
    written.store.end_life(life, (began + 3 * fixture::DAY, five_hours_old), &Ending::Stopped).unwrap();
    let name = written.store.services(written.trial_id).unwrap()[0].name.clone();
    drop(written);
    let body = Server::of(&database(&folder)).get(&format!("/service/{name}")).body;
    let ledger = body.split("<tbody").nth(1).unwrap_or_else(|| panic!("{body}"));
    assert!(ledger.contains("5 h") && !ledger.contains("3 d"), "{ledger}");
}

/// The last reading is in the midst of work, which the report does not compare.
#[test]
fn relays_of_a_lab_that_rest_are_shown_at_the_end_of_their_last_rest() {
    let folder = tempfile::tempdir().unwrap();
    let field =
        Field { services: 10, age_us: 12 * fixture::HOUR, every_us: fixture::MINUTE, ..Field::default() };
    let written = Field { ended: Some("complete"), ..field }.write(&database(&folder));
    let (_, life, ..) = written.services[0];
    let name = written.store.services(written.trial_id).unwrap()[0].name.clone();
    drop(written);
    let connection = rusqlite::Connection::open(database(&folder)).unwrap();
    connection.execute("UPDATE trial SET kind = 'lab_tor'", []).unwrap();
    let page = |path: &str| Server::of(&database(&folder)).get(path).body;
    assert!(page("/").contains("sum of the last readings"));
    // It rested twice after its second consensus; the third is at work.
    let ticks = connection
        .prepare("SELECT tick_id FROM sample WHERE life_id = ?1 ORDER BY tick_id")
        .and_then(|mut found| found.query_map([life], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>())
        .unwrap();
    for (tick, count) in ticks.iter().zip([0.0, 1.0, 2.0, 2.0]) {
        let row = rusqlite::params![life, tick, "rested_consensuses", count];
        connection.execute("INSERT INTO observation VALUES (?1, ?2, ?3, ?4)", row).unwrap();
    }
    let rss = "UPDATE sample SET rss_bytes = ?1 WHERE life_id = ?2 AND tick_id = ?3";
    connection.execute(rss, rusqlite::params![123 << 20, life, ticks[3]]).unwrap();
    let body = page(&format!("/service/{name}"));
    assert!(body.contains("<dd>123 MiB</dd>"), "{body}");
    assert!(body.contains("at the end of its last rest, "), "{body}");
    // The others have not rested yet: a reading in their work is no figure beside it.
    assert!(page("/").contains("Memory of all</dt><dd>123 MiB"), "{}", page("/"));
    for path in ["/", "/trial/five-way"] {
        assert!(page(path).contains("of relays at the end of their last rest"), "{path}");
    }
    connection.execute("UPDATE trial SET ended_wall_us = NULL, outcome = NULL", []).unwrap();
    let running = page("/trial/five-way");
    assert!(running.contains("of relays at the end of their last rest)"), "{running}");
}

#[test]
fn services_that_are_no_more_are_in_no_sum_of_a_running_trial() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = Field { services: 10, ..Field::default() }.write(&database(&folder));
    let badge = "badge stale\">read no more";
    let memory = |server: &Server| {
        let body = server.get("/").body;
        let told = body.split("Memory of all</dt><dd>").nth(1).unwrap_or_else(|| panic!("{body}"));
        told.split('<').next().unwrap().to_owned()
    };
    let before = memory(&Server::of(&database(&folder)));
    let ends = [Ending::Planned, Ending::Stopped, Ending::Signaled(11)];
    for ((_, life, ..), ending) in written.services.clone().into_iter().zip(ends) {
        written.store.end_life(life, (now_us(), written.start_us), &ending).unwrap();
    }
    let (dropped, ..) = written.services[3];
    written
        .store
        .add_event(written.trial_id, Some(dropped), now_us(), KnownEvent::Dropped, "broken")
        .unwrap();
    drop(written);
    let server = Server::of(&database(&folder));
    assert_ne!(memory(&server), before);
    let body = server.get("/").body;
    assert_eq!(body.matches(badge).count(), 4, "{body}");
    assert!(body.contains("dropped from the trial"), "{body}");
}

#[test]
fn a_service_that_was_taken_out_is_shown_as_what_samples_it_since_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = small().write(&database(&folder));
    let (dropped, ..) = written.services[0];
    written
        .store
        .add_event(written.trial_id, Some(dropped), now_us(), KnownEvent::Dropped, "broken")
        .unwrap();
    let server = Server::of(&database(&folder));
    let address = "/service/tor@relay01.service";
    for path in ["/", address] {
        assert!(server.get(path).body.contains("dropped from the trial"), "{path}");
    }
    let host = Field { name: "host".into(), services: 1, looks: false, ..small() }.write(&database(&folder));
    let connection = rusqlite::Connection::open(database(&folder)).unwrap();
    connection.execute("UPDATE trial SET kind = 'host' WHERE id = ?1", [host.trial_id]).unwrap();
    for path in ["/", address] {
        let body = server.get(path).body;
        assert!(!body.contains("dropped from the trial") && !body.contains("read no more"), "{path}: {body}");
    }
    let own = format!("{address}?id={}", written.trial_id);
    assert!(server.get(&own).body.contains("dropped from the trial"));
}

#[test]
fn events_that_are_not_shown_are_told_and_crashes_are_among_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = small().write(&database(&folder));
    let (all, _) = written.store.count_events(written.trial_id, 0).unwrap();
    for number in 0..600 {
        let at = now_us() - number * 1_000_000;
        written.store.add_event(written.trial_id, None, at, KnownEvent::Note, "again").unwrap();
    }
    let server = Server::of(&database(&folder));
    let trial = server.get("/trial/five-way").body;
    for held in [format!("{} earlier events", all + 592), "of them are not shown".to_owned()] {
        assert!(trial.contains(&held), "{held}: {trial}");
    }
    let overview = server.get("/").body;
    assert!(overview.contains("of them are not shown"), "{overview}");
    for page in [trial, overview] {
        assert!(page.contains("the kernel killed it at 5.1 GiB"), "{page}");
    }
}

/// Of a trial of two hosts the one that was gathered last has not been read for a day.
#[test]
fn a_gathered_trial_is_read_as_long_as_one_of_its_hosts_is() {
    let folder = tempfile::tempdir().unwrap();
    let written = small().write(&database(&folder));
    let connection = rusqlite::Connection::open(database(&folder)).unwrap();
    let (trial_id, now) = (written.trial_id, now_us());
    connection.execute("INSERT INTO host (id, boot_id, facts_json) VALUES (77, 'other', '{}')", []).unwrap();
    connection
        .execute("UPDATE life SET boot_id = 'other' WHERE service_id = ?1", [written.services[9].0])
        .unwrap();
    let place = "UPDATE service SET attributes_json = json_set(attributes_json, '$.server', CASE id WHEN ?1 THEN 'beta' ELSE 'alpha' END)";
    connection.execute(place, [written.services[9].0]).unwrap();
    for (number, ago) in [(0, fixture::DAY + MINUTE), (1, fixture::DAY)] {
        let tick =
            "INSERT INTO tick (trial_id, sequence, wall_us, boottime_us, cost_wall_us, cost_cpu_us, host_id)
                    VALUES (?1, ?2, ?3, 1, 1, 1, 77)";
        connection.execute(tick, (trial_id, written.sequence + number, now - ago)).unwrap();
    }
    for (host, ago, os) in [("alpha", 12_000_000, "Debian"), ("beta", fixture::DAY, "Devuan")] {
        let part = "INSERT INTO part (trial_id, host, facts_json, started_wall_us, sequence, tick_wall_us, gathered_wall_us)
                    VALUES (?1, ?2, json_object('os', ?3), 1, 1, ?4, ?5)";
        connection.execute(part, (trial_id, host, os, now - ago, now)).unwrap();
    }
    let server = Server::of(&database(&folder));
    let overview = server.get("/").body;
    assert!(overview.contains("alive") && !overview.contains("silent"), "{overview}");
    let trial = server.get("/trial/five-way").body;
    assert!(!trial.contains("Nothing is read"), "{trial}");
    assert!(trial.contains("Read last: alpha") && trial.contains("beta"), "{trial}");
}

/// Of two services of a lab run the workers crashed, and one ran something else.
#[test]
fn what_a_lab_left_out_for_crashes_is_not_called_contaminated() {
    let folder = tempfile::tempdir().unwrap();
    let mut written =
        Field { services: 10, ended: Some("completed"), ..Field::default() }.write(&database(&folder));
    let why = "processes of it crashed: killed by SIGSEGV 3 times, first at 1.0 s (process 7 (server))";
    for number in [1, 2] {
        let (_, life, ..) = written.services[number];
        written.store.fail_life(life, why).unwrap();
    }
    drop(written);
    let database = database(&folder);
    let sql = "UPDATE trial SET kind = 'lab_command'";
    rusqlite::Connection::open(&database).unwrap().execute(sql, []).unwrap();
    let server = Server::of(&database);
    let overview = server.get("/").body;
    for held in [">Non-compliant</dt><dd>1</dd>", "2 excluded by failures"] {
        assert!(overview.contains(held), "{held}: {overview}");
    }
    let service = server.get("/service/tor@relay02.service").body;
    assert!(service.contains("yes, proved") && service.contains("SIGSEGV 3 times"), "{service}");
    assert!(
        !service.contains(">non-compliant<") && !service.contains("not its arm's treatment"),
        "{service}"
    );
    assert!(server.get("/service/tor@relay08.service").body.contains(">non-compliant<"));
}

#[test]
fn a_recorded_look_is_shown_as_recorded() {
    let folder = tempfile::tempdir().unwrap();
    Field::default().write(&database(&folder));
    let server = Server::of(&database(&folder));
    let page = server.get_computed("/trial/five-way").body;
    for told in ["(0.27 to 0.35)", "As recorded", "Still to come"] {
        assert!(page.contains(told), "{told}");
    }
}

#[test]
fn services_to_be_looked_at_come_first() {
    let folder = tempfile::tempdir().unwrap();
    Field::default().write(&database(&folder));
    let page = Server::of(&database(&folder)).get("/").body;
    let table = page.split("id=\"services\"").nth(1).unwrap();
    let rows = table.split("href=\"/service/").skip(1).map(|part| part.split('?').next().unwrap());
    let names: Vec<&str> = rows.collect();
    assert_eq!(names.len(), 40);
    assert_eq!(names[..3], ["tor@relay08.service", "tor@relay14.service", "tor@relay01.service"]);
}

#[test]
fn a_change_is_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = small().write(&database(&folder));
    let server = Server::of(&database(&folder));
    let version = || server.get("/version").body;
    let known = version();
    assert_eq!(version(), known);
    assert!(server.get("/").body.contains(&format!("data-version=\"{known}\"")));
    written
        .store
        .add_event(written.trial_id, None, now_us(), KnownEvent::Note, "written by another connection")
        .unwrap();
    assert_ne!(version(), known);
    assert!(server.get("/").body.contains("written by another connection"));
}

#[test]
fn a_page_is_answered_alongside_many_connections_that_ask_nothing() {
    let folder = tempfile::tempdir().unwrap();
    small().write(&database(&folder));
    let server = Server::of(&database(&folder));
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
    let write = |text: &'static str| {
        allow(0o755);
        let mut store = Store::create(&database(&folder)).unwrap();
        store.add_event(trial_id, None, now_us(), KnownEvent::Note, text).unwrap();
        store
    };
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
    assert!(!folder.path().join("heaptrial.db-wal").exists(), "the reader cannot have made one");
    // By a writer that has ended, and by ones that go on.
    drop(write("written by one that ended"));
    allow(0o555);
    let (status, body) = page();
    assert!(status == 200 && body.contains("written by one that ended"), "{body}");
    let stays = write("written by one that stays");
    allow(0o555);
    let (status, body) = page();
    assert!(status == 200 && body.contains("written by one that stays"), "{body}");
    drop(stays);
    drop(write("written after that"));
    allow(0o555);
    let (status, body) = page();
    assert!(status == 200 && body.contains("written after that"), "{body}");
    drop(ask);
    reader.join().unwrap();
    allow(0o755);
}

#[test]
fn a_missing_database_is_told_and_one_that_comes_back_is_shown() {
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
fn a_silent_agent_is_told() {
    let folder = tempfile::tempdir().unwrap();
    Field { last_tick_ago_us: 40 * MINUTE, ..small() }.write(&database(&folder));
    let server = Server::of(&database(&folder));
    let page = server.get("/").body;
    assert!(
        page.contains("silent") && page.contains("running, but not read") && page.contains("stale"),
        "{page}"
    );
    assert!(server.get("/trial/five-way").body.contains("Nothing is read"));
}

#[test]
fn an_unknown_kind_of_trial_is_told_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    small().write(&database(&folder));
    let edit = rusqlite::Connection::open(database(&folder)).unwrap();
    edit.execute("UPDATE trial SET kind = 'orbital'", []).unwrap();
    let page = Server::of(&database(&folder)).get("/");
    assert_eq!(page.status, 503);
    assert!(page.body.contains("orbital"), "{}", page.body);
}
