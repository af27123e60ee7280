//! What load generators write of requests that failed.

use regex::Regex;

/// Lines of wrk, ab, hey and oha, and pgbench; the first group is how many.
const LINES: [&str; 4] = [
    r"^ +Non-2xx or 3xx responses: ([0-9]+)",
    r"^Non-2xx responses: +([0-9]+)",
    r"^ +\[[45][0-9]{2}\]\s+([0-9]+) responses",
    r"^number of failed transactions: ([0-9]+) ",
];

/// Counts what a load tells of failures.
#[derive(Debug)]
pub(crate) struct Failed {
    lines: Vec<Regex>,
    count: f64,
}

impl Default for Failed {
    fn default() -> Self {
        // A test reads each of them.
        Self { lines: LINES.iter().filter_map(|line| Regex::new(line).ok()).collect(), count: 0.0 }
    }
}

impl Failed {
    /// Takes note of a line.
    pub(crate) fn read(&mut self, line: &str) {
        let found =
            self.lines.iter().find_map(|known| known.captures(line)?.get(1)?.as_str().parse::<f64>().ok());
        self.count += found.unwrap_or(0.0);
    }

    /// What to say of it.
    pub(crate) fn told(&self) -> Option<String> {
        (self.count > 0.0).then(|| {
            format!(
                "the load tells of {} requests that failed or were answered with an error: they are in its throughput and \
                 latency as if they were work, and an error is soon told",
                self.count
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_tools_tell_what_failed() {
        for (output, count) in [
            ("  Non-2xx or 3xx responses: 2772\nRequests/sec:  11.0", 2772.0),
            ("Failed requests:        0\nNon-2xx responses:      15\n", 15.0),
            (
                "Status code distribution:\n  [200]\t30 responses\n  [404]\t7 responses\n  [503]\t5 responses\n",
                12.0,
            ),
            ("number of failed transactions: 3 (0.030%)", 3.0),
            (include_str!("outputs/pgbench.txt"), 0.0),
            (include_str!("outputs/wrk-latency.txt"), 0.0),
        ] {
            let mut failed = Failed::default();
            assert_eq!(failed.lines.len(), LINES.len());
            output.lines().for_each(|line| failed.read(line));
            assert_eq!((failed.count, failed.told().is_some()), (count, count > 0.0), "{output}");
        }
    }
}
