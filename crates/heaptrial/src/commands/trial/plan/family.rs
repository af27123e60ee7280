//! Families of relays, from what each declares.

use std::collections::BTreeMap;

use heaptrial_relay::Relay;

/// The family of each relay, in their order; `None` for one that is alone.
///
/// Two relays are of one family if one declares the other, or both declare a third. Tor itself wants both to declare
/// each other; here the family keeps them from being restarted together, for which the intention is enough.
pub fn families(relays: &[Option<&Relay>]) -> Vec<Option<String>> {
    let mut leader: BTreeMap<&str, &str> = BTreeMap::new();
    for relay in relays.iter().flatten() {
        let Some(own) = known(relay).next() else { continue };
        for other in known(relay) {
            let (a, b) = (find(&leader, own), find(&leader, other));
            // The least fingerprint leads, so that a family is called the same on every host.
            leader.insert(a.max(b), a.min(b));
        }
    }
    relays
        .iter()
        .map(|relay| {
            let relay = relay.filter(|relay| !relay.family.is_empty())?;
            let lead = find(&leader, known(relay).next()?);
            Some(format!("family {}", lead.chars().take(8).collect::<String>()))
        })
        .collect()
}

fn known(relay: &Relay) -> impl Iterator<Item = &str> {
    relay.fingerprint.iter().chain(&relay.family).map(String::as_str)
}

fn find<'a>(leader: &BTreeMap<&'a str, &'a str>, mut name: &'a str) -> &'a str {
    while let Some(next) = leader.get(name).filter(|next| **next != name) {
        name = next;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(fingerprint: Option<&str>, family: &[&str]) -> Relay {
        serde_json::from_value(serde_json::json!({
            "torrc": "/etc/tor/torrc", "defaults_torrc": null, "program": "/usr/bin/tor", "user": null,
            "data_directory": null, "nickname": null, "fingerprint": fingerprint, "family": family,
            "role": "relay", "control_socket": null, "cookie_file": null, "metrics_port": null, "options": {},
        }))
        .unwrap()
    }

    #[test]
    fn declarations_make_families_also_by_way_of_others() {
        let relays = [
            relay(Some("BBBBBBBBBB"), &["CCCCCCCCCC"]),
            relay(Some("CCCCCCCCCC"), &["AAAAAAAAAA"]),
            relay(Some("DDDDDDDDDD"), &["EEEEEEEEEE"]),
            relay(None, &["EEEEEEEEEE"]),
            relay(Some("FFFFFFFFFF"), &[]),
            relay(None, &[]),
        ];
        let relays: Vec<Option<&Relay>> = relays.iter().map(Some).chain([None]).collect();
        let found = families(&relays);
        let found: Vec<&str> = found.iter().map(|family| family.as_deref().unwrap_or("-")).collect();
        assert_eq!(
            found,
            ["family AAAAAAAA", "family AAAAAAAA", "family DDDDDDDD", "family DDDDDDDD", "-", "-", "-"]
        );
    }
}
