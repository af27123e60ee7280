//! Numbers that are asked for while the service runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use heaptrial_relay::http;
use serde_json::Value;

use super::output::number_at;
use super::{Reading, Work, WorkSource};

const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How soon the asking ends when it is no more needed.
const STEP: Duration = Duration::from_millis(20);

/// Asks for numbers at an interval, in a thread of its own: sampling must not wait for a slow answer.
#[derive(Debug)]
pub(crate) struct Polling {
    measures: Arc<Mutex<Vec<Polled>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone)]
struct Polled {
    work: Work,
    /// The newest number, until it is taken.
    newest: Option<f64>,
    read: u64,
    /// How often it could not be read since it first was, and why not at last.
    failed: u64,
    why: String,
}

impl Polling {
    /// Of those of `work` that are not in what the load writes; `None` where there are none.
    pub(crate) fn start(work: &[Work], interval: Duration) -> Option<Self> {
        let polled = |work: &Work| Polled {
            work: work.clone(),
            newest: None,
            read: 0,
            failed: 0,
            why: "it was never asked".to_owned(),
        };
        let polled: Vec<Polled> = work.iter().filter(|work| !work.source.is_of_load()).map(polled).collect();
        if polled.is_empty() {
            return None;
        }
        let sources: Vec<WorkSource> = polled.iter().map(|polled| polled.work.source.clone()).collect();
        let measures = Arc::new(Mutex::new(polled));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::clone(&measures), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                for (index, source) in sources.iter().enumerate() {
                    let answer = number(source);
                    lock(&shared)[index].take(answer);
                }
                while begun.elapsed() < interval && !stopped.load(Ordering::Relaxed) {
                    std::thread::sleep(STEP.min(interval));
                }
            }
        });
        Some(Self { measures, stop, thread: Some(thread) })
    }

    /// The newest number of each measure that has one since the last call.
    pub(crate) fn readings(&self) -> Vec<Reading> {
        let mut measures = lock(&self.measures);
        measures.iter_mut().filter_map(|polled| Some(polled.work.reading(polled.newest.take()?))).collect()
    }

    /// The measures, and whether each was read once.
    pub(crate) fn read(&self) -> Vec<(String, bool)> {
        let measures = lock(&self.measures);
        measures.iter().map(|polled| (polled.work.measure.to_string(), polled.read > 0)).collect()
    }

    /// Warnings about measures that could not be read each time.
    pub(crate) fn warnings(&self) -> Vec<String> {
        lock(&self.measures).iter().filter_map(Polled::warning).collect()
    }
}

impl Polled {
    fn take(&mut self, answer: Result<f64, String>) {
        match answer {
            Ok(number) => {
                self.newest = Some(number);
                self.read += 1;
            }
            Err(why) => {
                self.failed += u64::from(self.read > 0);
                self.why = why;
            }
        }
    }

    fn warning(&self) -> Option<String> {
        let Self { work: Work { measure, .. }, read, failed, why, .. } = self;
        match (read, failed) {
            (0, _) => Some(format!("no {measure} was read: {why}")),
            (_, 0) => None,
            (read, failed) => {
                let of = read + failed;
                Some(format!(
                    "{measure} could not be read {failed} of {of} times after it first was, at last: {why}"
                ))
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(source: &WorkSource) -> Result<f64, String> {
    let answer = |url: &str| match http::get(url, ANSWER_PATIENCE)? {
        (200..=299, body) => Ok(body),
        (status, _) => Err(format!("{url} answers with status {status}")),
    };
    match source {
        WorkSource::Http { url, field } => field_of(&answer(url)?, field),
        WorkSource::Prometheus { url, series } => {
            series.sum(&answer(url)?).map_err(|problem| format!("{url} {problem}"))
        }
        WorkSource::File { path, field } => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            field_of(&text, field)
        }
        WorkSource::Line(_) | WorkSource::JsonLine(_) | WorkSource::Table { .. } => {
            Err("it is in what the load writes".to_owned())
        }
    }
}

fn field_of(text: &str, field: &str) -> Result<f64, String> {
    let document: Value = match field {
        "" => Value::String(text.trim().to_owned()),
        _ => serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?,
    };
    let what = if field.is_empty() { "a number" } else { field };
    number_at(&document, field)
        .ok_or_else(|| format!("{what} is not in `{}`", text.chars().take(80).collect::<String>()))
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_and_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        let work = [format!("count:lines=file:{}", path.display()).parse().unwrap()];
        let polling = Polling::start(&work, Duration::from_millis(1)).unwrap();
        while !polling.warnings().first().is_some_and(|warning| warning.contains("count")) {}
        std::fs::write(&path, "12\n").unwrap();
        let reading = loop {
            if let Some(reading) = polling.readings().pop() {
                break reading;
            }
        };
        assert_eq!((reading.measure.to_string(), reading.value), ("count:lines".to_owned(), 12.0));
        std::fs::remove_file(&path).unwrap();
        while !polling.warnings().first().is_some_and(|warning| warning.contains("after it first was")) {}
    }

    #[test]
    fn a_field_of_json_is_a_number() {
        assert_eq!(field_of("{\"a\": {\"b\": 4}}", "a.b"), Ok(4.0));
        assert_eq!(field_of(" 4.5\n", ""), Ok(4.5));
        assert!(field_of("none", "").unwrap_err().contains("a number is not in `none`"));
    }
}
