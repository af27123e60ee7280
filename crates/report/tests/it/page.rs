//! The HTML report: nothing from outside gets in, and a real browser shows it without a complaint.

use crate::{fixture, fleet, import, lab};

use std::fs;
use std::path::{Path, PathBuf};

use fixture::Fixture;
use heaptrial_report::{Document, Options, Report, Screen};
use heaptrial_testbed::browser::{Chromium, browser};

fn html(fixture: &Fixture) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::read_to_string(write_report(fixture, folder.path())).unwrap()
}

fn write_report(fixture: &Fixture, folder: &Path) -> PathBuf {
    let (store, trial) = fixture.write(&folder.join("trial.db"));
    let report = Report::with_charts(&store, trial, &Options::default()).unwrap();
    report.write(folder).unwrap().html
}

fn write_field_report(trial: &crate::fleet::Listed, folder: &Path) -> PathBuf {
    let (store, id) = fleet::write(trial, &folder.join("fleet.db"));
    let report = Report::with_charts(&store, id, &Options::default()).unwrap();
    report.write(folder).unwrap().html
}

#[test]
fn hostile_names_stay_text() {
    let html = html(&fixture::hostile());
    for markup in ["<script", "</script", "<img", "onerror=alert(1)>", "<b>", "\u{1b}", "\u{202e}"] {
        assert!(!html.contains(markup), "{markup:?}");
    }
    // Its own style sheet is the only one, whatever an arm's evidence says.
    assert_eq!(html.matches("<style").count(), 1);
    assert_eq!(html.matches("</svg>").count(), html.matches("<svg").count());
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn hostile_names_stay_text_in_the_other_forms() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = fixture::hostile();
    let (store, trial) = fixture.write(&folder.path().join("trial.db"));
    let report = Report::with_charts(&store, trial, &Options::default()).unwrap();
    let terminal = report.terminal(Screen::default());
    assert!(!terminal.chars().any(|c| c.is_control() && c != '\n'));
    let markdown = report.markdown();
    let outside_code = markdown.split("````").step_by(2).collect::<String>();
    let own = ["<details>", "</details>", "<summary>", "</summary>"];
    let outside_code = own.iter().fold(outside_code, |text, tag| text.replace(tag, ""));
    assert!(
        !outside_code.contains('<') && outside_code.contains("\\|\\[x\\](javascript:y)"),
        "{outside_code}"
    );
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let table: Vec<&str> = markdown
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert!(table.len() >= 4 && table.iter().all(|line| columns(line) == columns(table[0])), "{table:#?}");
    for chart in report.charts() {
        let svg = chart.file();
        assert!(!svg.contains("<script") && !svg.contains("</svg><"), "{svg}");
    }
    // JSON keeps the texts as they are.
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(json["arms"][1]["name"], fixture.arms[1].0.as_str());
}

#[test]
fn the_page_refers_to_nothing_outside() {
    let folder = tempfile::tempdir().unwrap();
    let field = fs::read_to_string(write_field_report(&fleet::contaminated(), folder.path())).unwrap();
    for html in [html(&fixture::tor()), field] {
        refers_to_nothing_outside(&html);
    }
}

fn refers_to_nothing_outside(html: &str) {
    let rest = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for outside in
        ["http://", "https://", "//fonts", "url(", "@import", "src=", "<link", "<script", "javascript:"]
    {
        assert!(!rest.contains(outside), "{outside}");
    }
    assert!(!html.contains(" style=") && !html.contains("unsafe"));
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn writing_again_replaces_the_files_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial) = fixture::command(2).write(&folder.path().join("trial.db"));
    let report = Report::with_charts(&store, trial, &Options::default()).unwrap();
    let out = folder.path().join("run/report");
    let first = report.write(&out).unwrap();
    fs::write(&first.html, "an older report").unwrap();
    assert_eq!(report.write(&out).unwrap(), first);
    assert!(fs::read_to_string(&first.html).unwrap().starts_with("<!DOCTYPE html>"));
    let names = |folder: &Path| {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&out), ["charts", "report.html", "report.json", "report.md"]);
    assert_eq!(names(&out.join("charts")).len(), 2);
}

#[test]
#[ignore = "needs a browser"]
fn a_browser_shows_it_light_and_dark_wide_and_narrow_without_a_complaint() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| {
        let out = folder.path().join(name);
        fs::create_dir(&out).unwrap();
        out
    };
    let comparison = folder.path().join("comparison.html");
    let both = [lab(&fixture::tor()), import(&fleet::contaminated(), &Options::default())];
    fs::write(&comparison, heaptrial_report::compare(&both).html()).unwrap();
    let pages = [
        ("comparison", comparison),
        ("tor", write_report(&fixture::tor(), &out("tor"))),
        ("command", write_report(&fixture::command(8), &out("command"))),
        ("hostile", write_report(&fixture::hostile(), &out("hostile"))),
        ("field", write_field_report(&fleet::contaminated(), &out("field"))),
        ("field-hostile", write_field_report(&fleet::hostile(), &out("field-hostile"))),
    ];
    for (name, page) in pages {
        let mut grounds = Vec::new();
        for (dark, width) in [(false, 1280), (true, 1280), (false, 390), (true, 390)] {
            browser.open(&page, dark, width, 900);
            let context = format!("{name}, dark {dark}, {width} wide");
            assert_eq!(browser.requests(), [format!("file://{}", page.display())], "{context}");
            assert_eq!(browser.complaints(), [""; 0], "{context}");
            let overflow = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
            assert!(overflow.as_f64().unwrap() <= 0.0, "{context}: {overflow} px too wide");
            if width == 1280 && name != "comparison" {
                let table = "document.querySelector('#metrics .scroll')";
                let hidden = browser.evaluate(&format!("{table}.scrollWidth - {table}.clientWidth"));
                assert_eq!(hidden, 0, "{context}: the final metrics scroll sideways");
            }
            // Trials over days have a calendar.
            let charts = match name {
                "comparison" => 0,
                "field" | "field-hostile" => 4,
                _ => 2,
            };
            assert_eq!(
                browser.evaluate("document.querySelectorAll('svg.chart').length"),
                charts,
                "{context}"
            );
            let smallest = browser.evaluate(
                "Math.min(...[...document.querySelectorAll('.chart text')].map(t => t.getBoundingClientRect().height))",
            );
            assert!(
                smallest.as_f64().is_none_or(|smallest| smallest > 9.0),
                "{context}: texts of charts are {smallest} px high"
            );
            assert_eq!(
                browser.evaluate("document.querySelectorAll('script, img, iframe').length"),
                0,
                "{context}"
            );
            grounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
            keep_screenshot(&mut browser, &format!("{name}-{}-{width}", if dark { "dark" } else { "light" }));
        }
        assert!(
            grounds[0] != grounds[1] && grounds[0] == grounds[2] && grounds[1] == grounds[3],
            "{grounds:?}"
        );
    }
}

#[test]
#[ignore = "needs a browser"]
fn the_policy_would_be_seen_to_be_broken() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = write_report(&fixture::command(1), folder.path());
    let additions = "<script>document.title = 'changed'</script><p style=\"color:red\">x</p><img src=\"charts/final-memory.png\"></body>";
    let broken = fs::read_to_string(&page).unwrap().replace("</body>", additions);
    fs::write(&page, broken).unwrap();
    browser.open(&page, false, 1280, 900);
    assert!(browser.complaints().len() >= 3, "{:#?}", browser.complaints());
    assert_ne!(browser.evaluate("document.title"), "changed");
}

/// For looking at: kept where `HEAPTRIAL_SCREENSHOTS` names a folder.
fn keep_screenshot(browser: &mut Chromium, name: &str) {
    if let Some(folder) = std::env::var_os("HEAPTRIAL_SCREENSHOTS") {
        let folder = PathBuf::from(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.png")), browser.screenshot()).unwrap();
    }
}
