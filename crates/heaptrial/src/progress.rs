//! Live progress of a lab run on standard error: a line per arm, or plain lines without a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use heaptrial_lab::{Progress, RoundView, ServiceView};
use heaptrial_model::{HumanDuration, units};
use indicatif::{ProgressBar, ProgressStyle};

/// Without a terminal a line of each arm is written this often.
const PLAIN_EVERY: Duration = Duration::from_secs(60);

/// Shows a run on standard error.
pub struct LiveProgress {
    /// On a terminal: how far the round is, and a line per arm.
    bar: Option<ProgressBar>,
    plain_at: Option<Instant>,
}

impl LiveProgress {
    /// On a terminal if standard error is one.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(1000));
        if let (Some(bar), Ok(style)) =
            (&bar, ProgressStyle::with_template("{prefix} [{wide_bar:.cyan/blue}]\n{msg}"))
        {
            bar.set_style(style);
        }
        Self { bar, plain_at: None }
    }
}

impl Progress for LiveProgress {
    fn round(&mut self, number: usize, of: usize, repeat: u32) {
        let text = format!("round {number} of {of} (repeat {})", repeat + 1);
        self.plain_at = Some(Instant::now());
        match &self.bar {
            Some(bar) => bar.set_prefix(text),
            None => eprintln!("{text}"),
        }
    }

    fn tick(&mut self, view: &RoundView<'_>) {
        let width = view.services.iter().map(|service| service.arm.chars().count()).max().unwrap_or(0);
        let mut text = how_far(view);
        if let Some(bar) = &self.bar {
            view.services.iter().for_each(|service| text += &format!("\n{}", figures(service, width)));
            bar.set_position((done(view).min(1.0) * 1000.0) as u64);
            bar.set_message(text);
        } else if self.plain_at.is_none_or(|at| at.elapsed() >= PLAIN_EVERY) {
            self.plain_at = Some(Instant::now());
            view.services.iter().for_each(|service| text += &format!("\n  {}", figures(service, width)));
            eprintln!("{text}");
        }
    }

    fn message(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    fn round_ended(&mut self) {
        if let Some(bar) = &self.bar {
            bar.set_message("");
            bar.finish_and_clear();
            bar.reset();
        }
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

/// One arm: memory and age.
fn figures(service: &ServiceView, width: usize) -> String {
    let name = format!("{:width$}", service.arm);
    if let Some(ended) = &service.ended {
        return format!("{name}  {ended}");
    }
    let Some(bytes) = service.metric_bytes else { return format!("{name}  starting") };
    format!("{name}  {:>8}  age {:>5.0} s", units::memory(bytes as f64), service.age_seconds)
}
