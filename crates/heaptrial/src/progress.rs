//! Live progress of a lab run on standard error: a line per arm, or plain lines where there is no
//! terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use heaptrial_lab::{Progress, RoundView, ServiceView};
use heaptrial_model::HumanDuration;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const SPARK_WIDTH: usize = 32;
/// Bytes of the unit of all figures, as in reports.
const MIB: f64 = 1_048_576.0;
/// Without a terminal a line of each arm is written this often.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// Shows a run on standard error.
pub struct LiveProgress {
    terminal: bool,
    bars: MultiProgress,
    overall: Option<ProgressBar>,
    lines: Vec<ProgressBar>,
    plain_at: Option<Instant>,
}

impl LiveProgress {
    /// On a terminal if standard error is one.
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            bars: MultiProgress::new(),
            overall: None,
            lines: Vec::new(),
            plain_at: None,
        }
    }

    fn clear(&mut self) {
        for bar in self.lines.drain(..).chain(self.overall.take()) {
            bar.finish_and_clear();
        }
    }
}

impl Progress for LiveProgress {
    fn round(&mut self, number: usize, of: usize, repeat: u32) {
        self.clear();
        let text = format!("round {number} of {of} (repeat {})", repeat + 1);
        if self.terminal {
            let bar = self.bars.add(ProgressBar::new(1000));
            let style = "{prefix} [{wide_bar:.cyan/blue}] {msg}";
            bar.set_style(
                ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_prefix(text);
            self.overall = Some(bar);
        } else {
            eprintln!("{text}");
            self.plain_at = Some(Instant::now());
        }
    }

    fn tick(&mut self, view: &RoundView<'_>) {
        let width = view.services.iter().map(|service| service.arm.chars().count()).max().unwrap_or(0);
        if self.terminal {
            while self.lines.len() < view.services.len() {
                let bar = self.bars.add(ProgressBar::new_spinner());
                bar.set_style(
                    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
                );
                self.lines.push(bar);
            }
            for (bar, service) in self.lines.iter().zip(view.services) {
                bar.set_message(line(service, width));
            }
            if let Some(bar) = &self.overall {
                bar.set_position((done(view).min(1.0) * 1000.0) as u64);
                bar.set_message(how_far(view));
            }
        } else if self.plain_at.is_none_or(|at| at.elapsed() >= PLAIN_EVERY) {
            self.plain_at = Some(Instant::now());
            eprintln!("{}", how_far(view));
            view.services.iter().for_each(|service| eprintln!("  {}", figures(service, width)));
        }
    }

    fn message(&mut self, text: &str) {
        if self.terminal {
            // Fails only when standard error is gone.
            let _ = self.bars.println(text);
        } else {
            eprintln!("{text}");
        }
    }

    fn round_ended(&mut self) {
        self.clear();
    }
}

/// The part of a round that is done, from 0 to 1.
fn done(view: &RoundView<'_>) -> f64 {
    let by_time = view.duration.map(|duration| view.elapsed.as_secs_f64() / duration.as_secs_f64());
    let by_work = view.course.and_then(|course| Some((course.consensus - 1) as f64 / course.of? as f64));
    by_time.into_iter().chain(by_work).fold(0.0, f64::max)
}

/// How far a round is, at what pace, and how long the rest will take.
fn how_far(view: &RoundView<'_>) -> String {
    let of = |whole: Option<u64>| whole.map(|whole| format!(" of {whole}")).unwrap_or_default();
    let time = format!("{}{} s", view.elapsed.as_secs(), of(view.duration.map(|whole| whole.as_secs())));
    let Some(course) = view.course else { return time };
    let mut text = format!("consensus {}{}, {time}", course.consensus, of(course.of));
    if let (Some(seconds), Some(times)) = (course.seconds_each, course.times_life()) {
        text.push_str(&format!("; 1 hour of a relay every {seconds:.0} s: {times:.0} times life"));
    }
    if let Some(left) = course.left() {
        text.push_str(&format!("; about {} more", HumanDuration::from_secs(left.as_secs())));
    }
    text
}

/// One arm: its figures and the course of its memory.
fn line(service: &ServiceView, width: usize) -> String {
    format!("{}  {}", figures(service, width), spark(&service.metric_bytes))
}

/// One arm: memory and age.
fn figures(service: &ServiceView, width: usize) -> String {
    let name = format!("{:width$}", service.arm);
    if let Some(ended) = &service.ended {
        return format!("{name}  {ended}");
    }
    let Some(bytes) = service.metric_bytes.last() else { return format!("{name}  starting") };
    format!(
        "{name}  {:>8.1} MiB  rss {:>8.1} MiB  age {:>5.0} s",
        *bytes as f64 / MIB,
        service.rss_bytes as f64 / MIB,
        service.age_seconds,
    )
}

/// The course of a series from 0 to its highest value, as blocks of rising height.
fn spark(values: &[u64]) -> String {
    let highest = values.iter().copied().max().unwrap_or(0).max(1);
    let cells = values.len().min(SPARK_WIDTH);
    (0..cells)
        .map(|cell| {
            let part = &values[cell * values.len() / cells..(cell + 1) * values.len() / cells];
            let value = part.iter().copied().max().unwrap_or(0);
            SPARKS[(value as u128 * (SPARKS.len() as u128 - 1) / highest as u128) as usize]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparks_show_the_course_from_zero() {
        assert_eq!(spark(&[0, 50, 100]), "▁▄█");
        assert_eq!(spark(&[]), "");
        assert_eq!(spark(&[5; 1000]).chars().count(), SPARK_WIDTH);
    }
}
