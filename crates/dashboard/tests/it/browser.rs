//! The pages in a real browser.

use crate::client;
use crate::fixture;
use crate::fleet;

use std::path::{Path, PathBuf};

use client::Server;
use fixture::{Field, now_us};
use heaptrial_model::KnownEvent;
use heaptrial_testbed::browser::{Chromium, browser};
use serde_json::json;

/// A trial that runs, and an import that has ended.
fn host(folder: &Path) -> (fixture::Written, Server) {
    let database = folder.join("heaptrial.db");
    fleet::write(&fleet::contaminated(), &database);
    let written = Field::default().write(&database);
    (written, Server::of(&database))
}

/// Pages of that database.
const PAGES: [(&str, &str); 8] = [
    ("overview", "/"),
    ("trial", "/trial/five-way"),
    ("ended", "/trial/five%20allocators%20and%20a%20timer"),
    ("report", "/trial/five%20allocators%20and%20a%20timer/report"),
    ("service", "/service/tor@relay01.service"),
    ("service-contaminated", "/service/tor@relay08.service"),
    ("service-restarted", "/service/tor@relay05.service"),
    ("not-found", "/trial/six-way"),
];

#[test]
#[ignore = "needs a browser"]
fn every_page_light_and_dark_wide_and_narrow_without_a_complaint() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_written, server) = host(folder.path());
    for (name, path) in PAGES {
        server.get_computed(path);
        let mut grounds = Vec::new();
        for (dark, width) in [(false, 1280), (true, 1280), (false, 360), (true, 360)] {
            browser.open_address(&server.url(path), dark, width, 900);
            let context = format!("{name}, dark {dark}, {width} wide");
            let complaints = browser.complaints();
            let complaints: Vec<_> =
                complaints.iter().filter(|text| !(name == "not-found" && text.contains("404"))).collect();
            assert!(complaints.is_empty(), "{context}: {complaints:#?}");
            let asked = browser.requests();
            assert!(
                asked.iter().all(|url| url.starts_with(&server.url("/")) || url.starts_with("data:")),
                "{asked:?}"
            );
            let overflow = browser
                .evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert!(overflow.as_f64().unwrap() <= 0.0, "{context}: {overflow} px too wide");
            assert_eq!(unreadable(&mut browser), json!([]), "{context}");
            grounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
            keep_screenshot(&mut browser, &format!("{name}-{}-{width}", if dark { "dark" } else { "light" }));
        }
        assert!(
            grounds[0] != grounds[1] && grounds[0] == grounds[2] && grounds[1] == grounds[3],
            "{grounds:?}"
        );
    }
}

/// Texts whose contrast with what is behind them is below 4.5 (Web Content Accessibility Guidelines 2.1, 1.4.3).
fn unreadable(browser: &mut Chromium) -> serde_json::Value {
    browser.evaluate(
        "(() => {
            const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
            const luminance = colour => {
                const [r, g, b] = numbers(colour).slice(0, 3).map(v => v / 255)
                    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const ground = node => {
                for (let at = node; at; at = at.parentElement) {
                    const colour = getComputedStyle(at).backgroundColor;
                    if ((numbers(colour)[3] ?? 1) > 0) return colour;
                }
                return 'rgb(255, 255, 255)';
            };
            const bad = [];
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) {
                const node = texts.currentNode.parentElement;
                if (!texts.currentNode.nodeValue.trim() || node.closest('svg, script, noscript, .skip') || !node.checkVisibility()) continue;
                const [a, b] = [getComputedStyle(node).color, ground(node)].map(luminance);
                const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                if (contrast < 4.5) bad.push(`${node.textContent.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
            }
            return bad;
        })()",
    )
}

#[test]
#[ignore = "needs a browser"]
fn a_change_shows_without_a_reload_and_leaves_the_reader_where_he_is() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (mut written, server) = host(folder.path());
    browser.open_address(&server.url("/"), false, 800, 600);
    browser.wait_for("document.getElementById('live').dataset.kind === 'live'");
    browser.evaluate(
        "window.mark = 'still the same document'; \
         document.querySelector('#events details').open = true; \
         const link = document.querySelectorAll('#services tbody th a')[20]; link.focus(); window.link = link; \
         window.place = scrollY; window.scrollTo(0, 700); window.place = scrollY; true",
    );
    written.store.add_event(written.trial_id, None, now_us(), KnownEvent::Note, "something new").unwrap();
    written.tick(now_us());
    browser.wait_for("document.getElementById('events').textContent.includes('something new')");
    assert_eq!(browser.evaluate("window.mark"), "still the same document");
    assert_eq!(browser.evaluate("document.activeElement === window.link && link.isConnected"), true);
    assert_eq!(browser.evaluate("document.querySelector('#events details').open"), true);
    assert!(browser.evaluate("Math.abs(scrollY - window.place)").as_f64().unwrap() < 120.0);
    assert_eq!(browser.complaints(), [""; 0]);
    assert_eq!(browser.evaluate("document.getElementById('reload').checkVisibility()"), false);
}

#[test]
#[ignore = "needs a browser"]
fn a_chart_that_was_being_computed_appears_by_itself_and_follows_the_data() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (mut written, server) = host(folder.path());
    browser.open_address(&server.url("/trial/five-way"), false, 1280, 900);
    browser.wait_for("!!document.querySelector('#chart svg.chart .thick')");
    browser.evaluate("window.drawn = document.querySelector('#chart svg.chart').outerHTML; true");
    // Later readings move the lines: the next drawing is due some seconds after the first.
    for step in 1..=3 {
        written.tick(now_us() + step * fixture::DAY);
    }
    browser.wait_for("document.querySelector('#chart svg.chart')?.outerHTML !== window.drawn");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
#[ignore = "needs a browser"]
fn a_server_that_goes_away_is_reported() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_written, mut server) = host(folder.path());
    browser.open_address(&server.url("/"), false, 1280, 900);
    browser.wait_for("document.getElementById('live').dataset.kind === 'live'");
    server.end();
    browser.wait_for("document.getElementById('live').dataset.kind === 'lost'");
    assert_eq!(browser.evaluate("document.getElementById('reload').checkVisibility()"), true);
    assert_eq!(
        browser.evaluate("document.getElementById('services').checkVisibility()"),
        true,
        "what was read stays"
    );
}

#[test]
#[ignore = "needs a browser"]
fn without_scripts_everything_is_there_and_can_be_reloaded() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_written, server) = host(folder.path());
    browser.allow_scripts(false);
    for (_, path) in PAGES {
        let sent = server.get_computed(path).body;
        browser.open_address(&server.url(path), false, 1280, 900);
        if path.ends_with("/report") {
            continue;
        }
        assert_eq!(browser.evaluate("document.getElementById('reload').checkVisibility()"), true, "{path}");
        let shown = browser.evaluate("document.getElementById('main').textContent.length");
        assert!(shown.as_u64().unwrap() > 60, "{path}");
        assert!(sent.contains("href=\"\""), "{path}");
    }
    // Links are all that is needed to go around.
    browser.open_address(&server.url("/"), false, 1280, 900);
    let link = browser.evaluate("document.querySelector('#services tbody th a').href");
    browser.open_address(link.as_str().unwrap(), false, 1280, 900);
    browser.wait_for("document.title.startsWith('tor@relay08.service')");
    browser.allow_scripts(true);
}

#[test]
#[ignore = "needs a browser"]
fn the_keyboard_reaches_everything_and_shows_where_it_is() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_written, server) = host(folder.path());
    browser.open_address(&server.url("/"), false, 1280, 900);
    let mut reached = Vec::new();
    for _ in 0..16 {
        browser.press("Tab");
        let seen = browser.evaluate(
            "(() => { const at = document.activeElement; const style = getComputedStyle(at); const box = at.getBoundingClientRect(); \
             return [at.textContent.trim().slice(0, 30) || at.getAttribute('aria-labelledby'), style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2, \
             box.width > 0 && box.left >= 0 && box.right <= innerWidth]; })()",
        );
        assert_eq!((&seen[1], &seen[2]), (&json!(true), &json!(true)), "{seen}");
        reached.push(seen[0].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(reached[0], "Skip to the content", "{reached:?}");
    assert_eq!(reached[1], "Heaptrial", "{reached:?}");
    assert!(reached.iter().any(|text| text == "five-way"), "{reached:?}");
    browser.open_address(&server.url("/"), false, 1280, 900);
    browser.press("Tab");
    browser.press("Enter");
    browser.wait_for("document.activeElement.id === 'main'");
    // Every table has a name, every heading cell a direction, every link a text.
    assert_eq!(
        browser.evaluate(
            "[...document.querySelectorAll('table')].filter(t => !t.caption).length \
             + [...document.querySelectorAll('th')].filter(t => !t.scope).length \
             + [...document.querySelectorAll('a')].filter(a => !a.textContent.trim()).length \
             + (document.querySelectorAll('h1').length - 1)"
        ),
        0
    );
}

#[test]
#[ignore = "needs a browser"]
fn a_large_fleet_is_shown() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("heaptrial.db");
    let written = Field { services: 300, every_us: 6 * fixture::HOUR, ..Field::default() }.write(&database);
    drop(written);
    let server = Server::of(&database);
    for (name, path) in [("large", "/"), ("large-trial", "/trial/five-way")] {
        server.get_computed(path);
        for width in [1280, 360] {
            browser.open_address(&server.url(path), false, width, 900);
            assert_eq!(browser.complaints(), [""; 0]);
            assert_eq!(browser.evaluate("document.querySelectorAll('#services tbody tr').length"), 300);
            keep_screenshot(&mut browser, &format!("{name}-{width}"));
        }
    }
}

/// For looking at: kept where `HEAPTRIAL_SCREENSHOTS` names a folder.
fn keep_screenshot(browser: &mut Chromium, name: &str) {
    if let Some(folder) = std::env::var_os("HEAPTRIAL_SCREENSHOTS") {
        let folder = PathBuf::from(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), browser.screenshot()).unwrap();
    }
}
