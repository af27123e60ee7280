//! Families of relays, from what each declares.

use std::collections::BTreeMap;

use heaptrial_relay::Relay;

/// The family of each relay, in their order; `None` for one that is alone.
///
/// Two relays are of one family if one declares the other, both declare a third, or both have one family key. Tor itself wants both to
/// declare each other; here the family keeps them from being restarted together, for which the intention is enough.
pub fn families(relays: &[Option<&Relay>]) -> Vec<Option<String>> {
    let mut leader: BTreeMap<String, String> = BTreeMap::new();
    for relay in relays.iter().flatten() {
        let known = known(relay);
        let Some(own) = known.first() else { continue };
        for other in &known {
            let (a, b) = (find(&leader, own).to_owned(), find(&leader, other).to_owned());
            // The least fingerprint leads, so that a family is called the same on every host.
            let (least, greatest) = if a <= b { (a, b) } else { (b, a) };
            leader.insert(greatest, least);
        }
    }
    let lead = |relay: &Option<&Relay>| Some(find(&leader, known((*relay)?).first()?).to_owned());
    let leads: Vec<Option<String>> = relays.iter().map(lead).collect();
    let mut members: BTreeMap<&str, usize> = BTreeMap::new();
    leads.iter().flatten().for_each(|lead| *members.entry(lead).or_default() += 1);
    let family = |(relay, lead): (&Option<&Relay>, &Option<String>)| {
        let (relay, lead) = ((*relay)?, lead.as_deref()?);
        // One that is declared has a family though it declares none.
        let is_one = !relay.family.is_empty() || !relay.family_ids.is_empty() || members[lead] > 1;
        let short = lead.strip_prefix(KEY).unwrap_or(lead).chars().take(8).collect::<String>();
        is_one.then(|| format!("family {short}"))
    };
    relays.iter().zip(&leads).map(family).collect()
}

/// Family keys sort behind fingerprints, which are of capitals and digits, and are none of them.
const KEY: &str = "key ";

/// What shows a relay's family, its own fingerprint first.
fn known(relay: &Relay) -> Vec<String> {
    let keys = relay.family_ids.iter().map(|key| format!("{KEY}{key}"));
    relay.fingerprint.iter().chain(&relay.family).cloned().chain(keys).collect()
}

fn find<'a>(leader: &'a BTreeMap<String, String>, mut name: &'a str) -> &'a str {
    while let Some(next) = leader.get(name).filter(|next| *next != name) {
        name = next;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(fingerprint: Option<&str>, family: &[&str], keys: &[&str]) -> Relay {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Relay {
            fingerprint: fingerprint.map(str::to_owned),
            family: owned(family),
            family_ids: owned(keys),
            ..Relay::default()
        }
    }

    #[test]
    fn declarations_make_families_also_by_way_of_others() {
        let relays = [
            relay(Some("BBBBBBBBBB"), &["CCCCCCCCCC"], &[]),
            relay(Some("CCCCCCCCCC"), &["AAAAAAAAAA"], &[]),
            relay(Some("DDDDDDDDDD"), &["EEEEEEEEEE"], &[]),
            relay(None, &["EEEEEEEEEE"], &[]),
            // Declares nobody, and is declared by the first of these.
            relay(Some("AAAAAAAAAA"), &[], &[]),
            relay(Some("FFFFFFFFFF"), &[], &[]),
            relay(None, &[], &[]),
            // By keys alone, also where a fingerprint is not known.
            relay(Some("9999999999"), &[], &["wxyzwxyz12"]),
            relay(Some("8888888888"), &[], &["wxyzwxyz12", "other"]),
            relay(None, &[], &["other"]),
            relay(None, &[], &["alone12345"]),
        ];
        let relays: Vec<Option<&Relay>> = relays.iter().map(Some).chain([None]).collect();
        let found = families(&relays);
        let found: Vec<&str> = found.iter().map(|family| family.as_deref().unwrap_or("-")).collect();
        let expected = "family AAAAAAAA,family AAAAAAAA,family DDDDDDDD,family DDDDDDDD,family AAAAAAAA,-,-,family 88888888,\
                        family 88888888,family 88888888,family alone123,-";
        assert_eq!(found.join(","), expected);
    }
}
