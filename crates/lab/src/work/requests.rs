//! Requests that a load generator counts as failed, and as tried.

use std::sync::LazyLock;

use heaptrial_model::REQUESTS_FAILED_AND_TRIED;
use regex::Regex;

use super::preset::PRESETS;

/// Of failed and of tried requests; a test reads each of them.
static PATTERNS: LazyLock<[Vec<Regex>; 2]> = LazyLock::new(|| {
    let requests = &PRESETS.requests;
    [&requests.failed, &requests.tried]
        .map(|lines| lines.iter().filter_map(|line| Regex::new(line).ok()).collect())
});

/// Sums of failed and of tried requests since the load began.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    sums: [f64; 2],
    /// The same when they were asked for last.
    before: [f64; 2],
}

impl Requests {
    pub(crate) fn read(&mut self, line: &str) {
        let number = |known: &Regex| known.captures(line)?.get(1)?.as_str().parse::<f64>().ok();
        for (sum, patterns) in self.sums.iter_mut().zip(PATTERNS.iter()) {
            *sum += patterns.iter().filter_map(number).sum::<f64>();
        }
    }

    /// Both as observations; nothing where nothing came since this was asked for last.
    pub(crate) fn counts(&mut self) -> Vec<(String, f64)> {
        if std::mem::replace(&mut self.before, self.sums) == self.sums {
            return Vec::new();
        }
        REQUESTS_FAILED_AND_TRIED.map(str::to_owned).into_iter().zip(self.sums).collect()
    }

    pub(crate) fn warning(&self) -> Option<String> {
        let [failed, _] = self.sums;
        (failed > 0.0).then(|| {
            format!(
                "{failed} requests of the load failed or were answered with an error; its throughput and latency have those that \
                 were answered, and an error is answered soon"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_tools_count_what_failed() {
        let known = [&PRESETS.requests.failed, &PRESETS.requests.tried].map(Vec::len);
        assert_eq!([PATTERNS[0].len(), PATTERNS[1].len()], known);
        for (output, failed, tried) in [
            ("  5544 requests in 1.00s, 2MB read\n  Non-2xx or 3xx responses: 2772", 2772.0, 5544.0),
            ("Complete requests:      20\nNon-2xx responses:      15\n", 15.0, 20.0),
            ("  [200]\t30 responses\n  [404]\t7 responses\n  [503]\t5 responses\n", 12.0, 42.0),
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
                "Complete requests:      2000\n   (Connect: 0, Receive: 400, Length: 100, Exceptions: 12)\n",
                412.0,
                2000.0,
            ),
            ("  [200]\t600 responses\n  [400]\tGet \"http://127.0.0.1:1/\": dial tcp\n", 400.0, 1000.0),
            (
                "  [200] 600 responses\n  [400] connection error: Connection refused\n  [10] aborted due to deadline\n",
                400.0,
                1000.0,
            ),
            ("  [3] workers are up\n  100 requests in 1.00s, 2MB read\n", 0.0, 100.0),
            (include_str!("outputs/oha.txt"), 0.0, 6151.0),
            (include_str!("outputs/wrk-latency.txt"), 0.0, 97387.0),
        ] {
            let mut requests = Requests::default();
            output.lines().for_each(|line| requests.read(line));
            assert_eq!(requests.warning().is_some(), failed > 0.0, "{output}");
            let counts: Vec<f64> = requests.counts().into_iter().map(|(_, count)| count).collect();
            assert_eq!(counts, [failed, tried], "{output}");
            assert_eq!(requests.counts(), [], "given once");
        }
    }
}
