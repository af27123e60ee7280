use heaptrial_model::ServiceName;

/// Services on which the host, or whoever works on it, depends: if one does not come back, nobody can mend it. A line is
/// why, and names without `.service`, with `*` at the end for any other text.
const ESSENTIAL: &str = include_str!("essential.txt");

/// Why a service is changed only by who names it, and not by a pattern that it happens to match; `None` for all others.
pub fn why_essential(service: &ServiceName) -> Option<&'static str> {
    let stem = service.as_str().strip_suffix(".service")?;
    let is = |name: &str| match name.strip_suffix('*') {
        Some(start) => stem.starts_with(start),
        None => stem == name,
    };
    let mut groups = ESSENTIAL.lines().filter_map(|line| line.split_once(": "));
    groups.find(|(_, names)| names.split(' ').any(is)).map(|(why, _)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_up_the_host_is_known_by_its_name() {
        let why = |name: &str| why_essential(&name.parse().unwrap());
        for (name, words) in [
            ("user@1000.service", "logged in"),
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
