//! Damaged and hostile files: every part has a defined outcome, and nothing panics.

use heaptrial_exchange::tables::{Content, Mapping, Timezone, read_events, read_memory};
use heaptrial_exchange::{ImportError, Measurements, ProblemKind, Problems};
use proptest::prelude::*;

const HEADER: &str = "timestamp,server,type,fingerprint,nickname,rss_kb,vmsize_kb,hwm_kb,frag_ratio,count,total_kb,avg_kb,min_kb,max_kb";

fn read(bytes: &[u8]) -> Result<(Measurements, Problems), ImportError> {
    let mut problems = Problems::new(false);
    let contents = [Content { file: "m.csv", bytes }];
    let (measurements, ..) = read_memory(&contents, &Mapping::default(), &Timezone::utc(), &mut problems)?;
    Ok((measurements, problems))
}

/// Rows below the header: how many readings there are, and the first problem.
fn rows(rows: &str) -> (usize, Option<String>) {
    let (measurements, problems) = read(format!("{HEADER}\n{rows}").as_bytes()).unwrap();
    let readings = measurements.services.iter().map(|service| service.samples.len()).sum();
    (readings, problems.details.first().map(ToString::to_string))
}

fn problem_of(row: &str) -> String {
    let (readings, problem) = rows(row);
    assert_eq!(readings, 0, "{row}");
    problem.unwrap_or_default()
}

#[test]
fn files_without_rows() {
    for bytes in [&b""[..], b"\xef\xbb\xbf", b"\n\n# nothing\n"] {
        assert!(read(bytes).unwrap_err().to_string().starts_with("m.csv: empty; expected a header line"));
    }
    let (measurements, problems) = read(HEADER.as_bytes()).unwrap();
    assert!(measurements.services.is_empty() && problems.counts.is_empty());
}

#[test]
fn headers_that_lack_a_column_are_shown() {
    let error = read(b"# relays\nnickname,rss_kb\na,1\n").unwrap_err().to_string();
    assert_eq!(
        error,
        "m.csv:2: no column of times: looked for `timestamp` or `time` or `datetime` or `date`; the header has: \
         nickname,rss_kb; name it with --time COLUMN (`heaptrial import csv`)"
    );
    let error = read(b"time,who,rss_gb\n").unwrap_err().to_string();
    assert!(error.contains("no column of services"), "{error}");
    let error = read(b"time,name,used\n").unwrap_err().to_string();
    assert!(
        error.contains("`rss`") && error.contains("time,name,used") && error.contains("--memory"),
        "{error}"
    );
    let error = read(b"time,name,rss\n").unwrap_err().to_string();
    assert!(error.contains("`rss` does not name its unit") && error.contains("--unit"), "{error}");
    let error = read(&b"x,".repeat(100_000)).unwrap_err().to_string();
    assert!(error.len() < 2_000, "{}", error.len());
}

#[test]
fn marks_line_ends_order_and_further_columns_do_not_matter() {
    let text = "\u{feff}Nickname , rss_kb,extra,timestamp\r\none,5,x,2026-01-05T00:00:00\r\n\r\n\"two\",6,\"a,b\",2026-01-05T00:00:00";
    let (measurements, problems) = read(text.as_bytes()).unwrap();
    assert!(problems.counts.is_empty(), "{problems:?}");
    let names: Vec<&str> = measurements.services.iter().map(|service| service.nickname.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(measurements.services[1].samples[0].rss_bytes, 6 * 1024);
}

#[test]
fn malformed_rows_are_told_with_their_place() {
    let row = |field: &str| format!("2026-01-05T00:00:00,go,relay,,one,{field},,,,,,,,\n");
    assert_eq!(
        problem_of(&row("-5")),
        "m.csv:2, column 6 (`rss_kb`): expected a whole number of KiB, 0 or more: `-5`"
    );
    assert!(problem_of(&row("99999999999999999999")).contains("column 6 (`rss_kb`)"));
    assert!(problem_of(&row("9007199254740992")).contains("whole number of KiB"));
    assert_eq!(problem_of(&row("0")), "m.csv:2, column 6 (`rss_kb`): no memory: there was no process: `0`");
    assert_eq!(problem_of(&row("")), "m.csv:2, column 6 (`rss_kb`): no value");
    assert!(problem_of("x,go,relay,,one,5,,,,,,,,\n").contains("column 1 (`timestamp`): expected a time"));
    assert!(problem_of("2026-01-05T00:00:00,go,relay,,a b,5,,,,,,,,\n").contains("column 5 (`nickname`)"));
    assert!(problem_of("2026-01-05T00:00:00,go,relay,,,5,,,,,,,,\n").contains("column 5 (`nickname`)"));
    assert!(problem_of("2026-01-05T00:00:00,go,relay,XYZ,one,5,,,,,,,,\n").contains("40 hexadecimal digits"));
    assert!(problem_of("2026-01-05T00:00:00,go,relay,,one,5,-1,,,,,,,\n").contains("column 7 (`vmsize_kb`)"));
    // Sums over relays are passed over.
    assert_eq!(rows("2026-01-05T00:00:00,go,aggregate,,,,,,,1,2,3,4,\n"), (0, None));
    assert_eq!(
        problem_of("2026-01-05T00:00:00,go,relay,,one,5\n"),
        "m.csv:2: 6 fields where the header has 14: `2026-01-05T00:00:00,go,relay,,one,5`"
    );
}

#[test]
fn a_file_that_is_mostly_not_understood_is_refused() {
    let good = "2026-01-05T00:00:00,go,relay,,one,5,,,,,,,,\n";
    let bad = "2026-01-05T00:00:00,go,relay,,one,n/a,,,,,,,,\n";
    let of = |rows: String| read(format!("{HEADER}\n{rows}").as_bytes());
    assert!(of(good.repeat(3) + &bad.repeat(3)).is_ok());
    let error = of(good.repeat(3) + &bad.repeat(4)).unwrap_err().to_string();
    assert!(
        error.starts_with("m.csv: 4 of 7 rows cannot be understood; the first: m.csv:5, column 6"),
        "{error}"
    );
    // Services that did not run are no reason: their rows are understood.
    let down = "2026-01-05T00:00:00,go,relay,,two,0,,,,,,,,\n2026-01-05T00:01:00,go,relay,,two,,,,,,,,,\n";
    assert!(of(good.to_owned() + &down.repeat(9)).is_ok());
}

#[test]
fn a_reading_beyond_measure_is_left_out() {
    let good = "2026-01-04T00:00:00,go,relay,,one,5242880,,,,,,,,\n";
    let (readings, problem) = rows(&format!("{good}2026-01-05T00:00:00,go,relay,,one,5368709120,,,,,,,,\n"));
    let told = "m.csv:3, column 6 (`rss_kb`): more than 4 TiB in one process: `5368709120`";
    assert_eq!((readings, problem.as_deref()), (1, Some(told)));
}

#[test]
fn sizes_of_zero_are_not_known() {
    let (measurements, _) =
        read(format!("{HEADER}\n2026-01-05T00:00:00,go,relay,,one,5,0,,,,,,,\n").as_bytes()).unwrap();
    let sample = measurements.services[0].samples[0];
    assert_eq!((sample.vsize_bytes, sample.hwm_bytes), (None, None));
}

#[test]
fn a_quote_that_is_not_closed_is_named_as_the_cause() {
    let (readings, problem) = rows(
        "2026-01-05T00:00:00,go,relay,,one,5,,,,,,,,\n2026-01-05T00:00:00,go,relay,,\"two,5,,,,,,,,\n2026-01-06T00:00:00,go,relay,,one\",5,,,,,,,,\n\
         2026-01-07T00:00:00,go,relay,,one,5,,,,,,,,\n",
    );
    assert_eq!(readings, 2);
    assert!(
        problem.is_some_and(|problem| problem.contains(":3: ") && problem.contains("a quote opens here"))
    );
}

#[test]
fn the_lines_that_a_quote_takes_in_are_rows_that_cannot_be_understood() {
    let row = |name: &str, last: &str| format!("2026-01-05T00:00:00,go,relay,,{name},5,,,,,,,,{last}\n");
    let good =
        |from: usize, to: usize| (from..to).map(|number| row(&format!("r{number}"), "")).collect::<String>();
    // In a row that has too few fields then, or as many as the header has.
    for broken in [row("\"two", ""), row("two", "\"")] {
        let text = format!("{HEADER}\n{}{broken}{}", good(0, 5), good(5, 15));
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("11 of 16 rows cannot be understood") && error.contains("m.csv:7: "),
            "{error}"
        );
        // Where most of the file is left, it is told and the rest is read.
        let (readings, problem) = rows(&format!("{}{broken}{}", good(0, 20), good(20, 25)));
        assert_eq!(readings, 20);
        assert!(problem.is_some_and(|problem| problem.contains(":22")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), known in any::<bool>()) {
        let mut whole = if known { format!("{HEADER}\n").into_bytes() } else { Vec::new() };
        whole.extend(&bytes);
        let _ = read(&whole);
        let mut problems = Problems::new(false);
        let _ = read_events(Content { file: "e", bytes: &whole }, &Timezone::utc(), &mut problems);
    }

    #[test]
    fn every_row_is_read_or_told(rows in prop::collection::vec("[0-9a-z,\"T:Z-]{0,60}", 0..30)) {
        let text = format!("{HEADER}\n{}", rows.join("\n"));
        let mut problems = Problems::new(false);
        let contents = [Content { file: "m", bytes: text.as_bytes() }];
        let read = read_memory(&contents, &Mapping::default(), &Timezone::utc(), &mut problems);
        // A quote takes in most of them.
        prop_assume!(!read.as_ref().is_err_and(|error| error.to_string().contains("cannot be understood")));
        let (measurements, counts, _) = read.unwrap();
        let readings: usize = measurements.services.iter().map(|service| service.samples.len()).sum();
        prop_assert_eq!(readings as u64 + problems.count(ProblemKind::MalformedRow), counts[0].read);
    }
}
