//! What load generators write of requests that failed.

use heaptrial_model::REQUESTS_FAILED_AND_TRIED;
use regex::Regex;

use super::preset::PRESETS;

/// Above the errors of hey and oha.
const ERRORS: &str = "Error distribution:";

/// Counts what a load tells of failures.
#[derive(Debug)]
pub(crate) struct Failed {
    among_tried: Vec<Regex>,
    on_top: Vec<Regex>,
    error: Vec<Regex>,
    /// Whether errors are being told.
    of_errors: bool,
    tried_lines: Vec<Regex>,
    count: f64,
    tried: f64,
    /// Both, when they were asked for last.
    told: (f64, f64),
}

impl Default for Failed {
    fn default() -> Self {
        // A test reads each of them.
        let all = |lines: &[String]| lines.iter().filter_map(|line| Regex::new(line).ok()).collect();
        let lines = &PRESETS.failed;
        Self {
            among_tried: all(&lines.among_tried),
            on_top: all(&lines.on_top),
            error: all(std::slice::from_ref(&lines.error)),
            of_errors: false,
            tried_lines: all(&lines.tried),
            count: 0.0,
            tried: 0.0,
            told: (0.0, 0.0),
        }
    }
}

impl Failed {
    /// Takes note of a line.
    pub(crate) fn read(&mut self, line: &str) {
        let found = |lines: &[Regex]| {
            let told = |known: &Regex| known.captures(line)?.get(1)?.as_str().parse::<f64>().ok();
            lines.iter().filter_map(told).sum::<f64>()
        };
        self.of_errors = line.trim_end() == ERRORS || self.of_errors && line.starts_with(' ');
        let errors = match self.of_errors && !line.ends_with(&PRESETS.failed.cut_off) {
            true => found(&self.error),
            false => 0.0,
        };
        let on_top = found(&self.on_top) + errors;
        self.count += found(&self.among_tried) + on_top;
        self.tried += found(&self.tried_lines) + on_top;
    }

    /// How many failed and were tried since the load began, as observations; nothing where nothing was told since this was asked for.
    pub(crate) fn counts(&mut self) -> Vec<(String, f64)> {
        let counts = (self.count, self.tried);
        if self.tried == 0.0 || std::mem::replace(&mut self.told, counts) == counts {
            return Vec::new();
        }
        let [failed, tried] = REQUESTS_FAILED_AND_TRIED.map(str::to_owned);
        vec![(failed, self.count), (tried, self.tried)]
    }

    /// What to say of it.
    pub(crate) fn told(&self) -> Option<String> {
        (self.count > 0.0).then(|| {
            format!(
                "the load tells of {} requests that failed or were answered with an error: those that were answered are in its \
                 throughput and latency as if they were work, and an error is soon told",
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
        for (output, count, tried) in [
            (
                "  5544 requests in 1.00s, 2MB read\n  Non-2xx or 3xx responses: 2772\nRequests/sec:  11.0",
                2772.0,
                5544.0,
            ),
            (
                "Complete requests:      20\nFailed requests:        0\nNon-2xx responses:      15\n",
                15.0,
                20.0,
            ),
            (
                "Status code distribution:\n  [200]\t30 responses\n  [404]\t7 responses\n  [503]\t5 responses\n",
                12.0,
                42.0,
            ),
            (
                "number of transactions actually processed: 97/100\nnumber of failed transactions: 3 (3.000%)",
                3.0,
                100.0,
            ),
            (
                "  5544 requests in 1.00s, 2MB read\n  Socket errors: connect 1, read 412, write 20, timeout 9\n",
                442.0,
                5986.0,
            ),
            (
                "Complete requests:      2000\nFailed requests:        512\n   (Connect: 0, Receive: 400, Length: 100, Exceptions: 12)\n",
                412.0,
                2000.0,
            ),
            (
                "Status code distribution:\n  [200]\t600 responses\n\nError distribution:\n  [400]\tGet \"http://127.0.0.1:1/\": dial tcp 127.0.0.1:1: connect: connection refused\n",
                400.0,
                1000.0,
            ),
            (
                "Status code distribution:\n  [200] 600 responses\n\nError distribution:\n  [400] connection error: Connection refused (os error 111)\n  [10] aborted due to deadline\n",
                400.0,
                1000.0,
            ),
            (
                "Status code distribution:\n  [200] 600 responses\n\nError distribution:\n  [400] Connection refused (os error 111)\n  [7] tls handshake eof\n  [3] aborted due to deadline\n",
                407.0,
                1007.0,
            ),
            (include_str!("outputs/oha.txt"), 0.0, 6151.0),
            ("  [3] workers are up\n  100 requests in 1.00s, 2MB read\n", 0.0, 100.0),
            (include_str!("outputs/pgbench.txt"), 0.0, 4966.0),
            (include_str!("outputs/wrk-latency.txt"), 0.0, 97387.0),
            (include_str!("outputs/ab.txt"), 0.0, 5000.0),
            (include_str!("outputs/hey.txt"), 0.0, 45148.0),
            (include_str!("outputs/memtier.txt"), 0.0, 0.0),
        ] {
            let mut failed = Failed::default();
            let known =
                (failed.among_tried.len(), failed.on_top.len(), failed.tried_lines.len(), failed.error.len());
            assert_eq!(known, (6, 5, 4, 1));
            output.lines().for_each(|line| failed.read(line));
            assert_eq!((failed.count, failed.told().is_some()), (count, count > 0.0), "{output}");
            let counts: Vec<f64> = failed.counts().into_iter().map(|(_, count)| count).collect();
            assert_eq!(counts, if tried > 0.0 { vec![count, tried] } else { vec![] }, "{output}");
            assert_eq!(failed.counts(), [], "told once");
        }
    }
}
