//! Lines for the journal.

use crate::state::{Letter, News};

/// A line; with the priority in front where systemd's journal reads it (sd-daemon(3)).
pub(super) fn line(watch: &str, letter: &Letter, in_journal: bool) -> String {
    let alert = &letter.alert;
    let prefix = match letter.news {
        _ if !in_journal => "",
        // Notice.
        News::Resolved => "<5>",
        _ => alert.kind.severity().prefix(),
    };
    let (news, kind) = (letter.news.as_str(), alert.kind.as_str());
    let text = one_line(&alert.text);
    match letter.news {
        News::Resolved => format!("{prefix}{watch}: {news}: {kind}: {text}"),
        _ => format!("{prefix}{watch}: {news}: {kind}: {text} ({})", one_line(&alert.advice)),
    }
}

/// Without line breaks and other control characters: what follows one would be another entry.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control())
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::{Alert, AlertKind};

    #[test]
    fn a_line_has_its_priority_and_is_one_entry() {
        let mut letter = Letter {
            at: 0.0,
            news: News::Raised,
            alert: Alert {
                key: "file:/lib/a".to_owned(),
                kind: AlertKind::File,
                state: String::new(),
                service: None,
                services: Vec::new(),
                text: "/lib/a is gone\n<0>five-way: forged".to_owned(),
                advice: "put it back".to_owned(),
            },
            told: Vec::new(),
        };
        let expected = "five-way: raised: file: /lib/a is gone <0>five-way: forged (put it back)";
        assert_eq!(line("five-way", &letter, true), format!("<4>{expected}"));
        assert_eq!(line("five-way", &letter, false), expected);
        letter.alert.kind = AlertKind::Identity;
        assert!(line("five-way", &letter, true).starts_with("<3>five-way: raised: identity: "));
        letter.news = News::Resolved;
        assert!(line("five-way", &letter, true).starts_with("<5>five-way: resolved: "));
    }
}
