use heaptrial_model::ServiceName;

/// Services on which the host, or whoever works on it, depends: if one does not come back, nobody can mend it. Names
/// without `.service`, with `*` at the end for any other text, and why.
const ESSENTIAL: [(&str, &[&str]); 8] = [
    ("part of systemd", &["systemd-*"]),
    ("the message bus, over which systemd is asked", &["dbus", "dbus-broker"]),
    ("holds the programs of a user who is logged in", &["user@*"]),
    (
        "lets people log in at the console",
        &["getty@*", "autovt@*", "serial-getty@*", "console-getty", "container-getty@*"],
    ),
    (
        "holds graphical sessions",
        &["display-manager", "gdm", "gdm3", "lightdm", "sddm", "lxdm", "xdm", "greetd"],
    ),
    ("lets people log in from outside", &["ssh", "ssh@*", "sshd", "sshd@*", "dropbear", "polkit"]),
    (
        "keeps up the network or the disks",
        &[
            "NetworkManager",
            "networking",
            "connman",
            "iwd",
            "wpa_supplicant*",
            "dhcpcd*",
            "ifup@*",
            "iscsid",
            "multipathd",
            "dm-event",
            "lvm2-*",
            "zfs-*",
        ],
    ),
    ("part of Heaptrial", &["heaptrial-*"]),
];

/// Why a service is changed only by who names it, and not by a pattern that it happens to match; `None` for all others.
pub fn why_essential(service: &ServiceName) -> Option<&'static str> {
    let stem = service.as_str().strip_suffix(".service")?;
    let is = |name: &&str| match name.strip_suffix('*') {
        Some(start) => stem.starts_with(start),
        None => stem == *name,
    };
    ESSENTIAL.iter().find(|(_, names)| names.iter().any(&is)).map(|(why, _)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_up_the_host_is_known_by_its_name() {
        let why = |name: &str| why_essential(&name.parse().unwrap());
        for (name, words) in [
            ("dbus.service", "message bus"),
            ("systemd-journald.service", "systemd"),
            ("user@1000.service", "logged in"),
            ("getty@tty1.service", "console"),
            ("ssh@3-10.0.0.1:22-10.0.0.2:5.service", "from outside"),
            ("heaptrial-agent.service", "Heaptrial"),
        ] {
            assert!(why(name).is_some_and(|why| why.contains(words)), "{name}");
        }
        for name in ["tor@a.service", "dbus-of-mine.service", "users.service", "sshguard.service"] {
            assert_eq!(why(name), None, "{name}");
        }
    }
}
