//! Whether torrc options can be set.

use std::fs;

use heaptrial_relay::TorrcEdit;

use crate::preflight::finding::{Check, Findings};
use crate::preflight::subject::Subject;

pub(crate) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    left_over(subject, findings);
    let options = &subject.planned.torrc;
    if options.is_empty() {
        return;
    }
    let names: Vec<&str> = options.keys().map(String::as_str).collect();
    let Some(relay) = &subject.service.relay else {
        let unread = subject.service.relay_unread.as_ref();
        let reason =
            unread.map_or("this is no Tor instance with a torrc that is known".to_owned(), Clone::clone);
        findings.refuse(
            Check::Torrc,
            format!("the treatment sets {} in a torrc: {reason}", names.join(", ")),
            "there is no file to set it in",
            "leave the service out of this arm; ExecStart of a Tor instance names its torrc with -f",
        );
        return;
    };
    let torrc = relay.torrc.display();
    match fs::symlink_metadata(subject.root.path(&relay.torrc)) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => findings.refuse(
            Check::Torrc,
            format!("{torrc} is not a plain file"),
            "it is changed by putting a new file in its place, which would replace the link and leave what it leads to as it is",
            "let -f name the file itself",
        ),
        Err(error) => {
            findings.refuse(
                Check::Torrc,
                format!("cannot examine {torrc}: {error}"),
                "its other lines have to be kept exactly",
                "run the preflight as root, on the host itself",
            );
            return;
        }
    }
    let words = subject.unit().exec_start.iter().flatten();
    for word in words.filter_map(|word| word.trim_start_matches(['-', '+', '/']).split('=').next()) {
        if let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case(word)) {
            findings.refuse(
                Check::Torrc,
                format!("ExecStart sets {name} on Tor's command line"),
                "the command line wins over the torrc, so the option would not take hold",
                "take it out of ExecStart=",
            );
        }
    }
}

/// Options of a trial that has ended would stay in force, whatever the arm.
fn left_over(subject: &Subject<'_>, findings: &mut Findings) {
    let Some(relay) = subject.service.relay.as_ref().filter(|_| !subject.planned.replaces) else { return };
    let Ok(bytes) = fs::read(subject.root.path(&relay.torrc)) else { return };
    let Some(marker) = TorrcEdit::marker(&bytes) else { return };
    let name = marker.split_whitespace().next().unwrap_or_default();
    findings.refuse(
        Check::Torrc,
        format!("{} has options of `{name}` already", relay.torrc.display()),
        "they would stay in force beside the treatment",
        format!("`heaptrial trial stop {name} --revert` takes them out"),
    );
}
