//! Texts without what would tell whose machines they are about.
//!
//! Names are replaced where they come from, before anything is written of them: in the rows
//! ([`super::pseudonym`]) and, by [`Scrub::foreign`], in texts that others wrote. The finished files then pass a net
//! ([`Scrub::net`]) of patterns and of names that cannot be taken for words. The net does not look for a name such as
//! `a` or `growth`: it could only damage the report's own text.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// Names shorter than this may be words.
const DISTINCTIVE_CHARACTERS: usize = 5;

/// Terms of the report that are written as nicknames are.
const OWN_TERMS: [&str; 6] =
    ["RssAnon", "RssFile", "VmSwap", "DirCache", "MaxMemInQueues", "MaxConsensusAgeForDiffs"];

#[derive(Debug, Clone, Default)]
pub(crate) struct Scrub {
    names: BTreeMap<String, String>,
    /// Texts that stay as they are: digests of libraries, versions.
    kept: BTreeSet<String>,
}

/// What the net found in a finished text: kinds, and how often.
pub(crate) type Caught = BTreeMap<&'static str, usize>;

/// A kind of text that tells whose it is.
struct Pattern {
    kind: &'static str,
    regex: Regex,
    /// Whether a match is really one.
    holds: fn(&str) -> bool,
    put: &'static str,
}

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let pattern = |kind, regex: &str, holds, put| Pattern {
        kind,
        // A test compiles each of them.
        regex: Regex::new(regex).expect("the patterns are valid"),
        holds,
        put,
    };
    let any: fn(&str) -> bool = |_| true;
    vec![
        pattern("onion addresses", r"[A-Za-z2-7]{16,56}\.onion", any, "REMOVED-ONION"),
        pattern(
            "e-mail addresses",
            r"[A-Za-z0-9._%+-]+(?:@|\[at\]|\(at\)|<at>|&lt;at&gt;)[A-Za-z0-9-]+(?:(?:\.|\[dot\]|\(dot\))[A-Za-z0-9-]+)*(?:\.|\[dot\]|\(dot\))[A-Za-z]{2,}",
            any,
            "REMOVED-ADDRESS",
        ),
        // The ends of names that are seen most; of two that begin alike the longer one first.
        pattern(
            "host names",
            r"(?:[A-Za-z0-9-]+\.)+(?:com|network|net|org|info|internal|io|dev|cloud|host|local|lan|home|arpa|de|eu|nl|fr|ch|at|se|uk|us)",
            is_host,
            "REMOVED-HOST",
        ),
        pattern(
            "boot ids",
            r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
            any,
            "REMOVED-ID",
        ),
        pattern("fingerprints", r"[0-9A-Fa-f]{4}(?: [0-9A-Fa-f]{4}){9}", any, "REMOVED-FINGERPRINT"),
        pattern("fingerprints", r"[0-9A-Fa-f]{40}", any, "REMOVED-FINGERPRINT"),
        pattern("fingerprints", r"[0-9A-Za-z+/]{43}", is_mixed, "REMOVED-FINGERPRINT"),
        pattern("machine ids", r"[0-9A-Fa-f]{32}", any, "REMOVED-ID"),
        pattern("hardware addresses", r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}", any, "REMOVED-ADDRESS"),
        pattern(
            "IPv6 addresses",
            r"[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*[0-9A-Fa-f]|[0-9A-Fa-f:]+::",
            is_ipv6,
            "REMOVED-ADDRESS",
        ),
        pattern("IPv4 addresses", r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}", is_ipv4, "REMOVED-ADDRESS"),
        pattern(
            "home folders",
            r#"/(?:var/)?(?:home|Users)/[^/ \t\r\n"'`<>|&;:,)]+(?:/[^/ \t\r\n"'`<>|&;:,)]+)*"#,
            any,
            "~",
        ),
        pattern("home folders", r#"/root(?:/[^/ \t\r\n"'`<>|&;:,)]+)*"#, any, "~"),
    ]
});

impl Scrub {
    /// Replaces `name` by `pseudonym` in texts of others.
    pub(crate) fn name(&mut self, name: &str, pseudonym: &str) {
        if !name.is_empty() {
            self.names.entry(name.to_owned()).or_insert_with(|| pseudonym.to_owned());
        }
    }

    /// Takes over what another looks for.
    pub(crate) fn merge(&mut self, other: Self) {
        for (name, pseudonym) in &other.names {
            self.name(name, pseudonym);
        }
        self.kept.extend(other.kept);
    }

    /// Keeps a text that looks like something else, such as a digest.
    pub(crate) fn keep(&mut self, text: &str) {
        self.kept.extend([text.to_owned()]);
    }

    /// A text that others wrote: every known name that stands by itself is replaced, and whatever is of a pattern.
    pub(crate) fn foreign(&self, text: &str) -> String {
        self.patterns(&self.named(text, |_| true, &mut Caught::new()), &mut Caught::new())
    }

    /// A text of Heaptrial's own that may hold a name or a path: a name that could be a word stays.
    pub(crate) fn own(&self, text: &str) -> String {
        self.net(text).0
    }

    /// The last net, over a finished text. What it finds was overlooked before.
    pub(crate) fn net(&self, text: &str) -> (String, Caught) {
        let mut caught = Caught::new();
        let named = self.named(text, |name| self.is_distinctive(name), &mut caught);
        let clean = self.patterns(&named, &mut caught);
        (clean, caught)
    }

    /// A name that is no word and nothing that the report says of itself.
    fn is_distinctive(&self, name: &str) -> bool {
        let camel = || {
            name.as_bytes()
                .windows(2)
                .any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        };
        let odd = name.contains('@') || name.contains(|c: char| c.is_ascii_digit()) || camel();
        odd && !OWN_TERMS.contains(&name)
            && name.chars().count() >= DISTINCTIVE_CHARACTERS
            && !self.is_kept(name)
    }

    fn is_kept(&self, text: &str) -> bool {
        self.kept.iter().any(|kept| kept.eq_ignore_ascii_case(text) || contains_word(kept, text))
    }

    fn named(&self, text: &str, wanted: impl Fn(&str) -> bool, caught: &mut Caught) -> String {
        let mut clean = text.to_owned();
        // Longer names first: one may hold another.
        let mut names: Vec<(&String, &String)> = self.names.iter().filter(|(name, _)| wanted(name)).collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, pseudonym) in names {
            let (replaced, times) = replace_words(&clean, name, pseudonym);
            if times > 0 {
                *caught.entry("names").or_default() += times;
                clean = replaced;
            }
        }
        clean
    }

    /// Goes on until nothing is found: what was put in place of one may leave another standing by itself.
    fn patterns(&self, text: &str, caught: &mut Caught) -> String {
        let mut clean = text.to_owned();
        loop {
            let before: usize = caught.values().sum();
            clean = self.patterns_once(&clean, caught);
            if caught.values().sum::<usize>() == before {
                return clean;
            }
        }
    }

    fn patterns_once(&self, text: &str, caught: &mut Caught) -> String {
        let mut clean = text.to_owned();
        for pattern in PATTERNS.iter() {
            let mut out = String::with_capacity(clean.len());
            let mut done = 0;
            for found in pattern.regex.find_iter(&clean) {
                let stands_alone = stands_alone(&clean, found.start(), found.end(), is_word);
                if !stands_alone || !(pattern.holds)(found.as_str()) || self.is_kept(found.as_str()) {
                    continue;
                }
                out.push_str(&clean[done..found.start()]);
                out.push_str(&replacement(pattern, found.as_str()));
                done = found.end();
                *caught.entry(pattern.kind).or_default() += 1;
            }
            out.push_str(&clean[done..]);
            clean = out;
        }
        clean
    }
}

/// Of a path below a home folder the file's name stays.
fn replacement(pattern: &Pattern, found: &str) -> String {
    let own = if found.starts_with("/root") { 2 } else { 3 };
    let path = found.strip_prefix("/var").unwrap_or(found);
    match path.split('/').skip(own).last() {
        Some(name) if pattern.put == "~" => format!("~/{name}"),
        _ => pattern.put.to_owned(),
    }
}

/// `text` with each `word` that stands by itself replaced, and how often.
fn replace_words(text: &str, word: &str, by: &str) -> (String, usize) {
    let mut out = String::with_capacity(text.len());
    let (mut done, mut times) = (0, 0);
    for (start, found) in text.match_indices(word) {
        if start < done || !stands_alone(text, start, start + found.len(), is_name) {
            continue;
        }
        out.push_str(&text[done..start]);
        out.push_str(by);
        done = start + found.len();
        times += 1;
    }
    out.push_str(&text[done..]);
    (out, times)
}

fn contains_word(text: &str, word: &str) -> bool {
    let mut places = text.match_indices(word);
    places.any(|(start, found)| stands_alone(text, start, start + found.len(), is_word))
}

/// Whether neither neighbour of a part belongs to the same word. A full stop between other characters does not.
fn stands_alone(text: &str, start: usize, end: usize, belongs: fn(char) -> bool) -> bool {
    let before = text[..start].chars().next_back();
    let after = text[end..].chars().next();
    !before.is_some_and(belongs) && !after.is_some_and(belongs)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Characters of names of units; a hyphen joins words.
fn is_name(c: char) -> bool {
    is_word(c) || c == '-'
}

/// SVG names its kind by an address of the web.
fn is_host(text: &str) -> bool {
    text != "www.w3.org"
}

/// Versions of Tor begin with 0, and 127.0.0.1 is every machine's own.
fn is_ipv4(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok_and(|address| address.octets()[0] != 0 && !address.is_loopback())
}

fn is_ipv6(text: &str) -> bool {
    text.len() > 2 && text.parse::<Ipv6Addr>().is_ok_and(|address| !address.is_loopback())
}

/// Base64 of a key, and no word or number.
fn is_mixed(text: &str) -> bool {
    let has = |of: fn(&char) -> bool| text.chars().any(|c| of(&c));
    has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BUILD_ID: &str = "0123456789abcdef0123456789abcdef01234567";
    const SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn scrub() -> Scrub {
        let mut scrub = Scrub::default();
        let names = [
            "a",
            "growth",
            "tor@relay01.service",
            "GoldenOwl",
            "mimalloc-2.0.9",
            "2.1.7",
            "v8",
            "backend1",
            "RssAnon",
        ];
        for (index, name) in names.into_iter().enumerate() {
            scrub.name(name, &format!("service-{}", index + 1));
        }
        for kept in [BUILD_ID, "mimalloc@2.1.7", "mimalloc-2.0.9", "6.12.57.1-amd64"] {
            scrub.keep(kept);
        }
        scrub
    }

    #[test]
    fn the_net_takes_what_tells_whose_it_is() {
        for (text, clean) in [
            ("listens on 198.51.100.7:9001.", "listens on REMOVED-ADDRESS:9001."),
            ("[2001:db8::1:2]:443", "[REMOVED-ADDRESS]:443"),
            ("fe80::1%eth0", "REMOVED-ADDRESS%eth0"),
            ("at 2001:db8:0:1:2:3:4:5!", "at REMOVED-ADDRESS!"),
            ("02:42:ac:11:00:02", "REMOVED-ADDRESS"),
            ("x abcdefghij234567.onion y", "x REMOVED-ONION y"),
            ("op+tor@mail.example.org,", "REMOVED-ADDRESS,"),
            ("op[at]example[dot]org", "REMOVED-ADDRESS"),
            ("see ns1.example.org.", "see REMOVED-HOST."),
            ("https://git.example.network/x", "https://REMOVED-HOST/x"),
            ("A0B1 C2D3 E4F5 0617 2839 4A5B 6C7D 8E9F A0B1 C2D3", "REMOVED-FINGERPRINT"),
            ("$A0B1C2D3E4F5061728394A5B6C7D8E9FA0B1C2D3~x", "$REMOVED-FINGERPRINT~x"),
            ("a0b1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d3", "REMOVED-FINGERPRINT"),
            ("b9Xx2yZQ4mNq7vT0RkLp3sWcEfGhJuIoAaBbCcDdEe1", "REMOVED-FINGERPRINT"),
            ("1b4e28ba-2fa1-11d2-883f-0016d3cca427", "REMOVED-ID"),
            ("b08dfa6083e7567a1921a715000001fb", "REMOVED-ID"),
            ("/home/opuser/builds/lib.so and /root", "~/lib.so and ~"),
            ("'/home/opuser/x y'", "'~/x y'"),
            ("--from=/root/secret/libm.so", "--from=~/libm.so"),
            ("/var/home/opuser", "~"),
            ("tor@relay01.service grew", "service-3 grew"),
            ("GoldenOwl, backend1", "service-4, service-8"),
        ] {
            let (found, caught) = scrub().net(text);
            assert_eq!(found, clean, "{text}");
            assert!(!caught.is_empty(), "{text}");
        }
    }

    #[test]
    fn the_net_leaves_what_the_report_is_about() {
        let own = [
            "a growth of 2% a day, growth of RssAnon after warm-up".to_owned(),
            "mimalloc@2.1.7?purge_delay=10 over mimalloc@3.0.1".to_owned(),
            "mimalloc 2.1.7, mimalloc-2.0.9, v8".to_owned(),
            format!("build id {BUILD_ID}, SHA-256 {SHA256}"),
            "kernel 6.12.57.1-amd64, Tor 0.4.9.11, 127.0.0.1, ::1, ::".to_owned(),
            "2026-01-02 03:04:05 UTC, std::fs, 12:34".to_owned(),
            "/usr/lib/heaptrial/libmimalloc.so /homework/a /rooted".to_owned(),
            "http://www.w3.org/2000/svg, bug.md, arms.toml, libmimalloc.so.3, libc6 2.36-9+deb12u10, a.order"
                .to_owned(),
            "MIMALLOC_PURGE_DELAY=0 --seed 18446744073709551615".to_owned(),
        ];
        for text in own {
            let (found, caught) = scrub().net(&text);
            assert_eq!((found.as_str(), caught.len()), (text.as_str(), 0));
        }
    }

    #[test]
    fn in_texts_of_others_every_known_name_goes() {
        let found = scrub().foreign("a: growth of v8 at 10.0.0.1, aa and growths stay");
        assert_eq!(found, "service-1: service-2 of service-7 at REMOVED-ADDRESS, aa and growths stay");
    }

    proptest! {
        #[test]
        fn nothing_is_left_for_a_second_pass(text in "[a-f0-9:. @/$_-]{0,80}", address: [u8; 4], long: [u8; 16]) {
            let address = Ipv4Addr::from(address);
            let text = format!("{text} {address} {} /home/{text}", Ipv6Addr::from(long));
            let (clean, _) = scrub().net(&text);
            let (again, caught) = scrub().net(&clean);
            prop_assert_eq!(&again, &clean);
            prop_assert!(caught.is_empty());
        }

        #[test]
        fn no_address_passes(before in "[ (\"'=,;]", address: [u8; 4], long: [u8; 16], after in "[ )\"',;]") {
            let (short, long) = (Ipv4Addr::from(address), Ipv6Addr::from(long));
            let (clean, _) = scrub().net(&format!("{before}{short}{after}{before}{long}{after}"));
            prop_assert!(!is_ipv4(&short.to_string()) || !clean.contains(&short.to_string()), "{}", clean);
            prop_assert!(!is_ipv6(&long.to_string()) || !clean.contains(&long.to_string()), "{}", clean);
        }
    }
}
