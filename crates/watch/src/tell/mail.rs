//! E-mail through the host's own sendmail.

use std::io::Write;
use std::process::{Command, Stdio};

use super::journal::one_line;
use crate::state::{Letter, News};

/// The program that takes mail on every Unix.
pub const SENDMAIL: &str = "/usr/sbin/sendmail";

/// Whether mail can go to an address: one address, of characters that have no meaning in a header.
pub fn check_address(address: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_+=@".contains(c);
    let valid = match address.split_once('@') {
        Some((user, host)) => !user.is_empty() && !host.is_empty() && !host.contains('@'),
        // A user of this host.
        None => !address.is_empty(),
    };
    if valid && address.len() <= 254 && address.chars().all(plain) && !address.starts_with('-') {
        Ok(())
    } else {
        Err(format!("`{address}` is not one plain address for e-mail, such as root or me@example.org"))
    }
}

/// Sends an alert.
pub(super) fn send(address: &str, watch: &str, letter: &Letter) -> Result<(), String> {
    check_address(address)?;
    let fail = |why: String| format!("{SENDMAIL}: {why}");
    // `-i`: a line with a dot alone is no end.
    let child = Command::new(SENDMAIL).args(["-t", "-i"]).stdin(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| fail(format!("cannot be started: {error}")))?;
    let text = message(address, watch, letter);
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(text.as_bytes()));
    let status = child.wait().map_err(|error| fail(error.to_string()))?;
    if !status.success() {
        return Err(fail(format!("ended with {status}")));
    }
    written.map_err(|error| fail(error.to_string()))
}

/// The mail. What comes from outside stands in the body alone, or in the subject without anything that ends a line.
fn message(address: &str, watch: &str, letter: &Letter) -> String {
    let alert = &letter.alert;
    let about = alert.service.as_deref().unwrap_or("all services");
    let subject =
        format!("heaptrial watch {watch}: {} {}, {about}", letter.news.as_str(), alert.kind.as_str());
    let subject: String = one_line(&subject)
        .chars()
        .map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' })
        .take(200)
        .collect();
    let advice = if letter.news == News::Resolved { "It is over." } else { &alert.advice };
    format!(
        "To: {address}\nSubject: {subject}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
         Auto-Submitted: auto-generated\n\n{text}\n\n{advice}\n\nKey: {key}\n",
        text = one_line(&alert.text),
        advice = one_line(advice),
        key = one_line(&alert.key),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::{Alert, AlertKind};

    #[test]
    fn an_address_cannot_add_headers_or_options() {
        for address in ["root", "me@example.org", "a.b+c@host-1.example"] {
            assert_eq!(check_address(address), Ok(()), "{address}");
        }
        for address in [
            "",
            "a@",
            "@b",
            "a@b@c",
            "a@b\nBcc: c@d",
            "a@b, c@d",
            "a b@c",
            "-oQ/tmp",
            "a@b\r",
            "\"a\"@b",
            "ä@b",
        ] {
            assert!(check_address(address).is_err(), "{address:?}");
        }
    }

    #[test]
    fn nothing_of_an_alert_becomes_a_header() {
        let evil = "x\r\nBcc: all@example.org\n\nbody";
        let letter = Letter {
            at: 0.0,
            news: News::Raised,
            alert: Alert {
                key: evil.to_owned(),
                kind: AlertKind::Identity,
                state: String::new(),
                service: Some(evil.to_owned()),
                text: evil.to_owned(),
                advice: evil.to_owned(),
            },
            told: Vec::new(),
        };
        let text = message("root", evil, &letter);
        let (head, _) = text.split_once("\n\n").unwrap();
        let names: Vec<&str> = head.lines().map(|line| line.split_once(':').unwrap().0).collect();
        assert_eq!(names, ["To", "Subject", "MIME-Version", "Content-Type", "Auto-Submitted"]);
        assert!(!text.contains('\r'));
    }
}
