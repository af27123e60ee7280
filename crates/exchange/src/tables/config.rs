//! `relay_config.csv`: which group a relay is in, and what was configured for it.

use std::collections::BTreeMap;

use csv::ByteRecord;

use super::table::Table;
use super::time::Timezone;
use super::{Content, Rows};
use crate::ImportError;
use crate::measured::NOT_A_NICKNAME;
use crate::problem::{ProblemKind, Problems};
use heaptrial_model::ServiceName;

/// Longer values are cut: they end up in a report.
const LONGEST_VALUE: usize = 1_000;

/// What is configured for one relay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelayConfig {
    pub nickname: String,
    /// Its fingerprint, where the file has it.
    pub fingerprint: Option<String>,
    /// Its group, where the file has it.
    pub group: Option<String>,
    /// All other columns that are not empty, by name.
    pub values: BTreeMap<String, String>,
}

/// Reads the file: a relay a row, and how many rows there were.
pub fn read_config(
    content: Content<'_>,
    problems: &mut Problems,
) -> Result<(Vec<RelayConfig>, Rows), ImportError> {
    let utc = Timezone::utc();
    let expected = "`nickname`, and columns such as `group` or `allocator`";
    let mut table = Table::open(content, expected, &utc, problems)?;
    table.has_texts = true;
    let nickname = table.require("relays", &["nickname", "relay", "name"], "")?;
    let group = table.column(&["group"]);
    let fingerprint = table.column(&["fingerprint"]);
    let mut relays: Vec<RelayConfig> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut record = ByteRecord::new();
    while table.next(&mut record)? {
        let text = |column: usize| {
            let text = String::from_utf8_lossy(record[column].trim_ascii());
            Some(text.chars().take(LONGEST_VALUE).collect::<String>()).filter(|text| !text.is_empty())
        };
        let name = text(nickname).and_then(|name| name.parse::<ServiceName>().ok());
        let Some(name) = name else {
            table.skip(&record, nickname, NOT_A_NICKNAME)?;
            continue;
        };
        let fingerprint_text = fingerprint.and_then(text).map(|text| text.to_ascii_uppercase());
        if !seen.insert((name.clone(), fingerprint_text.clone())) {
            let what = "this relay stands here a second time; its first row counts";
            table.report(&record, nickname, ProblemKind::Note, what)?;
            continue;
        }
        let special = [Some(nickname), group, fingerprint];
        let others = (0..record.len()).filter(|column| !special.contains(&Some(*column)));
        relays.push(RelayConfig {
            nickname: name.as_str().to_owned(),
            fingerprint: fingerprint_text,
            group: group.and_then(text),
            values: others.filter_map(|column| Some((table.header[column].clone(), text(column)?))).collect(),
        });
    }
    Ok((relays, table.finish().0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_taken_by_name() {
        let mut problems = Problems::new(false);
        let text = "fingerprint,nickname,group,dircache,maxmem,notes\n\
                    ,one,A,0,2GB,\"DirCache 0, MaxMem\"\n,two,,default,,\n,b d,A,,,\n,one,B,,,\n,x\n";
        let content = |text| Content { file: "c.csv", bytes: text };
        let (relays, rows) = read_config(content(text.as_bytes()), &mut problems).unwrap();
        assert_eq!((relays.len(), rows), (2, Rows { read: 5, skipped: 2 }));
        assert_eq!(relays[0].group.as_deref(), Some("A"));
        assert_eq!(relays[0].values["notes"], "DirCache 0, MaxMem");
        assert_eq!(relays[1].values.keys().collect::<Vec<_>>(), ["dircache"]);
        assert_eq!(relays[1].group, None);
        let error = read_config(content(b"fingerprint,group\n"), &mut problems).unwrap_err().to_string();
        assert!(error.contains("no column of relays") && error.contains("fingerprint,group"), "{error}");
    }
}
