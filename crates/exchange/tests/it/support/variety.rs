//! Fleets as operators might write them down: every seed another mixture of formats, habits and damage.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::naive::Zone;

/// Numbers that look random and are always the same.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// From 0 up to `below`, without it.
    pub fn under(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    pub fn one_in(&mut self, times: u64) -> bool {
        self.under(times) == 0
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.under(all.len() as u64) as usize]
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for index in (1..all.len()).rev() {
            all.swap(index, self.under(index as u64 + 1) as usize);
        }
    }
}

/// Where the rows say who is in which group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    Files,
    Column,
    Nothing,
}

/// The files of an import, and what an independent reader needs to know of them.
#[derive(Debug)]
pub struct Written {
    pub memory: Vec<String>,
    /// Name and members of each list.
    pub lists: Vec<(String, Vec<String>)>,
    pub lists_from: Lists,
    pub zone: Zone,
    /// Labels of servers, each with the one that it was before.
    pub renamed: Vec<(String, String)>,
}

struct Relay {
    nickname: String,
    server: usize,
    fingerprint: String,
    groups: Vec<usize>,
    level_kb: u64,
    rss_kb: u64,
    peak_kb: u64,
}

struct Style {
    columns: Vec<&'static str>,
    line_end: &'static str,
    upper: bool,
    quotes: bool,
    spaces: bool,
    mark: bool,
    scientific: bool,
    times: u64,
    offset: i64,
}

const SERVERS: [&str; 4] = ["go", "co", "alpha.example.org", "203.0.113.7"];
const GROUPS: [&str; 9] =
    ["group_A_glibc", "B", "group_C-mimalloc209", "jemalloc 5.3", "größer", "e", "F,F", "g\"g", "9"];
const DAMAGE: [(&str, &str); 17] = [
    ("rss_kb", ""),
    ("rss_kb", "0"),
    ("rss_kb", "-5"),
    ("rss_kb", "12.5"),
    ("rss_kb", "1e99"),
    ("rss_kb", "1300000 kB"),
    ("rss_kb", "0x10"),
    ("rss_kb", "nan"),
    ("rss_kb", "N/A"),
    ("rss_kb", "99999999999"),
    ("rss_kb", "18446744073709551616"),
    ("timestamp", "soon"),
    ("timestamp", "2026-02-30T00:00:00"),
    ("timestamp", ""),
    ("nickname", "größe"),
    ("nickname", "a b"),
    ("nickname", ""),
];

/// The files of a seed.
pub fn write(seed: u64) -> Written {
    let mut dice = Dice::new(seed + 1);
    let dice = &mut dice;
    let zone = *dice.of(&[Zone::Fixed(0), Zone::Fixed(-28_800), Zone::Fixed(19_800), Zone::LosAngeles]);
    let lists_from = *dice.of(&[Lists::Files, Lists::Column, Lists::Nothing]);
    let servers = 1 + dice.under(4) as usize;
    let groups = 1 + dice.under(9) as usize;
    let mut relays = relays(dice, servers, groups, lists_from);
    let moments = moments(dice, zone);
    let mut styles: Vec<Style> = (0..1 + dice.under(2)).map(|_| style(dice, lists_from, zone)).collect();
    // Without a column of servers all nicknames are of one.
    let one_server = styles.iter().any(|style| !style.columns.contains(&"server"));
    if one_server {
        styles.iter_mut().for_each(|style| style.columns.retain(|column| *column != "server"));
        let mut seen = BTreeSet::new();
        relays.retain(|relay| seen.insert(relay.nickname.clone()));
    }
    // In the hour that occurs twice, both labels would be read at the same time.
    let renamed_at = (dice.one_in(3) && !one_server && zone != Zone::LosAngeles && moments.len() > 4)
        .then_some(moments.len() / 2);
    let renamed = renamed_at.map(|_| vec![("renamed".to_owned(), SERVERS[0].to_owned())]).unwrap_or_default();

    let mut lines: Vec<Vec<Vec<(&'static str, String)>>> = vec![Vec::new(); styles.len()];
    for (number, moment) in moments.iter().enumerate() {
        let file = number * styles.len() / moments.len();
        for relay in &mut relays {
            relay.live(dice);
            if dice.one_in(30) {
                continue;
            }
            let label = match renamed_at {
                Some(at) if relay.server == 0 && number >= at => "renamed",
                _ => SERVERS[relay.server],
            };
            let row = row(relay, *moment, label, dice, &styles[file], zone);
            // Written twice, by two scripts or into two files.
            if dice.one_in(40) {
                let also = dice.under(styles.len() as u64) as usize;
                if also == file {
                    lines[also].push(row.clone());
                }
            }
            if dice.one_in(60) {
                let (column, value) = *dice.of(&DAMAGE);
                let mut bad = row.clone();
                bad.iter_mut()
                    .filter(|(name, _)| *name == column)
                    .for_each(|(_, field)| *field = value.to_owned());
                lines[file].push(bad);
            }
            lines[file].push(row.clone());
            // Another value at the same time.
            if dice.one_in(80) {
                let mut other = row;
                other
                    .iter_mut()
                    .filter(|(name, _)| *name == "rss_kb")
                    .for_each(|(_, field)| *field = "777".into());
                other.retain(|(name, _)| *name != "hwm_kb");
                lines[file].push(other);
            }
        }
    }
    if dice.one_in(3) {
        lines.iter_mut().for_each(|lines| dice.shuffle(lines));
    }
    let memory = styles.iter().zip(&lines).map(|(style, lines)| text(dice, style, lines)).collect();
    let members = |group: usize| -> Vec<String> {
        let names: BTreeSet<&String> = relays
            .iter()
            .filter(|relay| relay.groups.contains(&group))
            .map(|relay| &relay.nickname)
            .collect();
        names.into_iter().cloned().collect()
    };
    let lists = (0..groups).map(|group| (format!("list{group}"), members(group)));
    let lists = lists.filter(|(_, members)| !members.is_empty()).collect();
    Written { memory, lists, lists_from, zone, renamed }
}

fn relays(dice: &mut Dice, servers: usize, groups: usize, lists: Lists) -> Vec<Relay> {
    let repeated = dice.one_in(2);
    let fingerprints = dice.one_in(2);
    let twins = fingerprints && dice.one_in(3);
    let mut relays = Vec::new();
    for server in 0..servers {
        for number in 0..1 + dice.under(8) {
            let nickname = match repeated {
                true => format!("relay{number}"),
                false => format!("{}{number}", ["go", "co.", "A-", "z:"][server]),
            };
            for twin in 0..if twins && number == 0 { 2 } else { 1 } {
                let id = relays.len() as u64 + 1;
                let mut own = vec![dice.under(groups as u64) as usize];
                if lists == Lists::Files && dice.one_in(5) {
                    own.push(dice.under(groups as u64) as usize);
                }
                let level_kb = 200_000 + dice.under(6_000_000);
                relays.push(Relay {
                    nickname: nickname.clone(),
                    server,
                    fingerprint: if fingerprints {
                        format!("{:08X}{:032}", id * 7 + twin, id)
                    } else {
                        String::new()
                    },
                    groups: own,
                    level_kb,
                    rss_kb: level_kb / 2,
                    peak_kb: level_kb / 2,
                });
            }
        }
    }
    relays
}

/// When readings are taken: hourly over a change of clocks, or about daily. Some files have one moment.
fn moments(dice: &mut Dice, zone: Zone) -> BTreeSet<i64> {
    let count = if dice.one_in(8) { 1 } else { 2 + dice.under(28) as i64 };
    if zone == Zone::LosAngeles {
        // 2026-03-08 and 2026-11-01, from the evening before.
        let start = *dice.of(&[1_772_949_600, 1_793_502_000]) + dice.under(3600) as i64;
        return (0..count).map(|hour| start + hour * 3600).collect();
    }
    let start = 1_767_225_600 + dice.under(90 * 86_400) as i64;
    let mut at = start;
    (0..count)
        .map(|_| {
            at += 3 * 3600 + dice.under(86_400) as i64;
            at
        })
        .collect()
}

fn style(dice: &mut Dice, lists: Lists, zone: Zone) -> Style {
    let mut columns = vec!["timestamp", "nickname", "rss_kb", "server", "fingerprint"];
    for (column, share) in [("type", 2), ("vmsize_kb", 2), ("hwm_kb", 4), ("frag_ratio", 2), ("comment", 2)] {
        if share == 4 && !dice.one_in(share) || share == 2 && dice.one_in(2) {
            columns.push(column);
        }
    }
    if lists == Lists::Column {
        columns.push("group");
    }
    if dice.one_in(6) {
        columns.retain(|column| *column != "server");
    }
    dice.shuffle(&mut columns);
    Style {
        columns,
        line_end: if dice.one_in(3) { "\r\n" } else { "\n" },
        upper: dice.one_in(4),
        quotes: dice.one_in(3),
        spaces: dice.one_in(4),
        mark: dice.one_in(4),
        scientific: dice.one_in(4),
        times: dice.under(3),
        offset: if zone == Zone::LosAngeles { 0 } else { *dice.of(&[0, -28_800, 19_800]) },
    }
}

impl Relay {
    /// Memory until the next reading.
    fn live(&mut self, dice: &mut Dice) {
        if dice.one_in(15) {
            // Restarted: far below what it was, and its peak too.
            self.rss_kb = self.peak_kb / 20 + 1000 + dice.under(500);
            self.peak_kb = self.rss_kb + dice.under(100);
            return;
        }
        self.rss_kb += self.level_kb.saturating_sub(self.rss_kb) / 4 + dice.under(2000);
        if dice.one_in(6) {
            self.rss_kb -= self.rss_kb / (5 + dice.under(10));
        }
        self.peak_kb = self.peak_kb.max(self.rss_kb + dice.under(3000) * dice.under(2));
    }
}

fn row(
    relay: &Relay,
    moment: i64,
    label: &str,
    dice: &mut Dice,
    style: &Style,
    zone: Zone,
) -> Vec<(&'static str, String)> {
    let number =
        |kb: u64| if style.scientific && kb % 10 == 0 { format!("{}.0e1", kb / 10) } else { kb.to_string() };
    let local = |offset: i64, suffix: &str| {
        let time = jiff::Timestamp::from_second(moment + offset).unwrap();
        format!("{}{suffix}", time.strftime("%Y-%m-%dT%H:%M:%S"))
    };
    let time = match (zone, style.times) {
        (Zone::LosAngeles, _) => {
            let zoned = jiff::Timestamp::from_second(moment).unwrap().in_tz("America/Los_Angeles").unwrap();
            zoned.strftime("%Y-%m-%dT%H:%M:%S").to_string()
        }
        (Zone::Fixed(_), 0) => local(0, "Z"),
        (Zone::Fixed(_), 1) => {
            let minutes = style.offset.abs() / 60;
            let sign = if style.offset < 0 { '-' } else { '+' };
            local(style.offset, &format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
        }
        (Zone::Fixed(offset), _) => local(offset, ""),
    };
    vec![
        ("timestamp", time),
        ("server", label.to_owned()),
        ("type", if style.upper { "Relay" } else { "relay" }.to_owned()),
        (
            "fingerprint",
            if style.upper { relay.fingerprint.to_lowercase() } else { relay.fingerprint.clone() },
        ),
        ("nickname", relay.nickname.clone()),
        ("group", GROUPS[relay.groups[0]].to_owned()),
        ("rss_kb", number(relay.rss_kb)),
        ("vmsize_kb", if dice.one_in(20) { String::new() } else { number(2 * relay.peak_kb) }),
        ("hwm_kb", if dice.one_in(25) { "1".to_owned() } else { number(relay.peak_kb) }),
        ("frag_ratio", "2.00".to_owned()),
        ("comment", if dice.one_in(4) { "a, \"b\"".to_owned() } else { String::new() }),
    ]
}

fn text(dice: &mut Dice, style: &Style, lines: &[Vec<(&'static str, String)>]) -> String {
    let mut text = if style.mark { "\u{feff}".to_owned() } else { String::new() };
    if dice.one_in(3) {
        write!(text, "# collected by hand{}", style.line_end).unwrap();
    }
    let header: Vec<String> = style
        .columns
        .iter()
        .map(|name| if style.upper { name.to_uppercase() } else { (*name).to_owned() })
        .collect();
    write!(text, "{}{}", header.join(","), style.line_end).unwrap();
    for (number, line) in lines.iter().enumerate() {
        let mut fields: Vec<String> = style
            .columns
            .iter()
            .map(|column| {
                let value = line.iter().find(|(name, _)| name == column).map_or("", |(_, value)| value);
                let quoted = value.contains([',', '"']) || (style.quotes && dice.one_in(3));
                match (quoted, style.spaces) {
                    (true, _) => format!("\"{}\"", value.replace('"', "\"\"")),
                    (false, true) => format!(" {value} "),
                    (false, false) => value.to_owned(),
                }
            })
            .collect();
        match dice.under(200) {
            0 => drop(fields.pop()),
            1 => fields.push("more".to_owned()),
            2 => text.push_str(style.line_end),
            3 => write!(text, "# a note, with a comma{}", style.line_end).unwrap(),
            _ => {}
        }
        text.push_str(&fields.join(","));
        if number + 1 < lines.len() || dice.one_in(2) {
            text.push_str(style.line_end);
        }
    }
    text
}
