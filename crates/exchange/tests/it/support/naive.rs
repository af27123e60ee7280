//! A reader of the same files by the rules of docs/import.md, plain and slow, that shares no code with the importer.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;

/// One reading: RSS, VmSize and VmHWM in bytes.
pub type Reading = (u64, Option<u64>, Option<u64>);

#[derive(Debug, Default)]
pub struct Naive {
    /// Readings in order of time, by service.
    pub services: BTreeMap<String, BTreeMap<i64, Reading>>,
    /// The last group that the rows of a service name.
    pub groups: BTreeMap<String, String>,
    pub malformed: u64,
    pub conflicts: u64,
    pub duplicates: u64,
}

/// How the times of the files are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// Seconds east of Greenwich.
    Fixed(i64),
    /// America/Los_Angeles from 2007 on.
    LosAngeles,
}

type Key = (String, String, String);

/// Reads the texts of files. `renamed` are labels of servers, each with the one that it was before.
pub fn read(files: &[String], zone: Zone, renamed: &[(String, String)]) -> Naive {
    let mut naive = Naive::default();
    let mut readings: BTreeMap<Key, BTreeMap<i64, Reading>> = BTreeMap::new();
    let mut groups: BTreeMap<Key, BTreeMap<i64, String>> = BTreeMap::new();
    let mut last_label: BTreeMap<Key, (i64, String)> = BTreeMap::new();
    for text in files {
        let rows = rows(text);
        let header: Vec<String> = rows[0].iter().map(|name| name.trim().to_lowercase()).collect();
        let place = |names: &[&str]| header.iter().position(|name| names.contains(&name.as_str()));
        for row in &rows[1..] {
            if row.len() != header.len() {
                naive.malformed += 1;
                continue;
            }
            let field = |names: &[&str]| place(names).map(|at| row[at].trim()).unwrap_or_default();
            let time = match (place(&["date"]), place(&["time"])) {
                (Some(date), Some(time)) => {
                    seconds(&format!("{}T{}", row[date].trim(), row[time].trim()), zone)
                }
                _ => seconds(field(&["timestamp"]), zone),
            };
            let rss = kib(field(&["rss_kb", "vmrss_kb"])).flatten();
            let (vsize, hwm) = (kib(field(&["vmsize_kb"])), kib(field(&["hwm_kb"])));
            let nickname = field(&["nickname", "relay"]);
            let (Some(time), Some(rss), Some(vsize), Some(hwm)) = (time, rss, vsize, hwm) else {
                naive.malformed += 1;
                continue;
            };
            let vsize = vsize.filter(|vsize| *vsize > 0);
            let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.@\\".contains(c);
            let is_name =
                !nickname.is_empty() && nickname.chars().all(allowed) && !nickname.starts_with(['-', '.']);
            if rss == 0 || rss > 4 << 40 || vsize.is_some_and(|vsize| vsize < rss) || !is_name {
                naive.malformed += 1;
                continue;
            }
            let hwm = hwm.filter(|hwm| *hwm > 0 && *hwm as f64 >= 0.9 * rss as f64);
            let label = field(&["server"]).to_owned();
            let before = renamed.iter().find(|(now, _)| *now == label).map(|(_, before)| before.clone());
            let fingerprint = field(&["fingerprint"]).to_uppercase();
            let key = (nickname.to_owned(), before.unwrap_or_else(|| label.clone()), fingerprint);
            let reading = (rss, vsize, hwm);
            match readings.entry(key.clone()).or_default().entry(time) {
                std::collections::btree_map::Entry::Vacant(free) => {
                    free.insert(reading);
                    let group = field(&["group"]);
                    if !group.is_empty() {
                        groups.entry(key.clone()).or_default().insert(time, group.to_owned());
                    }
                    let last = last_label.entry(key).or_insert((i64::MIN, String::new()));
                    if time > last.0 {
                        *last = (time, label);
                    }
                }
                std::collections::btree_map::Entry::Occupied(taken) if *taken.get() == reading => {
                    naive.duplicates += 1;
                }
                std::collections::btree_map::Entry::Occupied(_) => naive.conflicts += 1,
            }
        }
    }
    let keys: Vec<Key> = readings.keys().cloned().collect();
    for (key, readings) in readings {
        let sharing: Vec<&Key> = keys.iter().filter(|other| other.0 == key.0).collect();
        let on_server = sharing.iter().filter(|other| other.1 == key.1).count();
        let label = &last_label[&key].1;
        let mut name = key.0.clone();
        if sharing.len() > 1 && !label.is_empty() {
            name = format!("{name}@{label}");
        }
        if sharing.len() > 1 && on_server > 1 {
            name = format!("{name}@{}", &key.2[..8]);
        }
        if let Some((_, group)) = groups.get(&key).and_then(|groups| groups.last_key_value()) {
            naive.groups.insert(name.clone(), group.clone());
        }
        assert!(naive.services.insert(name, readings).is_none());
    }
    naive
}

/// Lives of a service by its readings.
pub fn lives(readings: &BTreeMap<i64, Reading>) -> usize {
    let all: Vec<Reading> = readings.values().copied().collect();
    let mut lives = 1;
    for pair in all.windows(2) {
        let ((rss, vsize, hwm), (rss_after, vsize_after, hwm_after)) = (pair[0], pair[1]);
        let near = |a: u64, b: u64| (a as f64 - b as f64).abs() <= 0.01 * a as f64;
        let restarted = match (hwm, hwm_after) {
            (Some(a), Some(b)) if b == a => false,
            (Some(a), Some(b)) if b < a => {
                let wavers = a == rss
                    && near(a, b)
                    && near(rss, rss_after)
                    && vsize.is_some()
                    && vsize_after.is_some()
                    && near(vsize.unwrap(), vsize_after.unwrap());
                !wavers
            }
            _ => match (vsize, vsize_after) {
                (Some(a), Some(b)) => (rss_after as f64) < 0.7 * rss as f64 && (b as f64) < 0.7 * a as f64,
                _ => (rss_after as f64) < 0.3 * rss as f64,
            },
        };
        lives += usize::from(restarted);
    }
    lives
}

/// The middle of all values, of an even number the upper one.
pub fn median(mut values: Vec<u64>) -> u64 {
    values.sort();
    values[values.len() / 2]
}

/// Rows of fields: commas, quotes, CRLF, a mark at the start, comments, empty lines.
fn rows(text: &str) -> Vec<Vec<String>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rows = Vec::new();
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields = vec![String::new()];
        let mut quoted = false;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.next_if_eq(&'"').is_some() => fields.last_mut().unwrap().push('"'),
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                other => fields.last_mut().unwrap().push(other),
            }
        }
        rows.push(fields);
    }
    rows
}

/// Bytes from KiB: `None` if it is no amount, `Some(None)` for nothing.
fn kib(field: &str) -> Option<Option<u64>> {
    if field.is_empty() {
        return Some(None);
    }
    if field.chars().any(|c| !(c.is_ascii_digit() || "eE+.".contains(c))) {
        return None;
    }
    let number: f64 = field.parse().ok()?;
    let whole = number.fract() == 0.0 && (0.0..9.0e15).contains(&number);
    whole.then(|| Some(number as u64 * 1024))
}

/// Seconds since 1970 of `2026-01-05T10:47:43`, with an offset or in the zone.
fn seconds(text: &str, zone: Zone) -> Option<i64> {
    if text.len() < 19 || !text.is_ascii() {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month)
        || day < 1
        || day > days_of(year, month)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return None;
    }
    let local = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let rest = &text[19..];
    if rest == "Z" {
        return Some(local);
    }
    if !rest.is_empty() {
        let sign = if rest.starts_with('-') { -1 } else { 1 };
        let (hours, minutes) = (rest[1..3].parse::<i64>().ok()?, rest[rest.len() - 2..].parse::<i64>().ok()?);
        return Some(local - sign * (hours * 3600 + minutes * 60));
    }
    match zone {
        Zone::Fixed(offset) => Some(local - offset),
        Zone::LosAngeles => {
            let (summer, winter) = (local + 7 * 3600, local + 8 * 3600);
            let begin = sunday(year, 3, 2) * 86_400 + 10 * 3600;
            let end = sunday(year, 11, 1) * 86_400 + 9 * 3600;
            Some(if (begin..end).contains(&summer) { summer } else { winter })
        }
    }
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let years: i64 = (1970..year).map(|year| (1..=12).map(|month| days_of(year, month)).sum::<i64>()).sum();
    years + (1..month).map(|month| days_of(year, month)).sum::<i64>() + day - 1
}

/// Days since 1970 of the Sunday of this number in a month.
fn sunday(year: i64, month: i64, number: i64) -> i64 {
    let first = days_since_1970(year, month, 1);
    // 1970-01-04 was a Sunday.
    let ahead = (3 - first).rem_euclid(7);
    first + ahead + 7 * (number - 1)
}
