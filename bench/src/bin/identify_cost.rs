//! Cost of identifying the allocator of a process with at least 200 mappings: a Markdown table.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use heaptrial_allocator::Identifier;
use heaptrial_host::{HostRoot, Process};

/// Imports extension modules until the process has enough mappings.
const PROGRAM: &str = "
import importlib, pkgutil, sys, time
for module in sorted(m.name for m in pkgutil.iter_modules() if m.name.startswith('_')):
    with open('/proc/self/maps') as maps:
        if sum(1 for _ in maps) >= 200: break
    try: importlib.import_module(module)
    except Exception: pass
print(flush=True)
time.sleep(600)
";
const ROUNDS: usize = 51;

struct Target(Child);

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut target = Target(Command::new("python3").args(["-c", PROGRAM]).stdout(Stdio::piped()).spawn()?);
    let stdout = target.0.stdout.take().ok_or("no output")?;
    BufReader::new(stdout).read_line(&mut String::new())?;
    let process = Process::new(&HostRoot::default(), target.0.id() as i32);
    let mappings = process.mappings()?.len();
    let identifier = Identifier::default();
    // The first looks up the packages of the libraries, in lists of which the host has more or less.
    let start = Instant::now();
    identifier.identify(&process, &|| None)?;
    let first = start.elapsed().as_secs_f64() * 1e3;
    let mut milliseconds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        identifier.identify(&process, &|| None)?;
        milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    milliseconds.sort_unstable_by(f64::total_cmp);
    println!(
        "\n| identify one process | mappings | ms, median of {ROUNDS} | min to max | the first |\n|---|---|---|---|---|"
    );
    println!(
        "| python3 with extension modules | {mappings} | {:.1} | {:.1} to {:.1} | {first:.1} |",
        milliseconds[ROUNDS / 2],
        milliseconds[0],
        milliseconds[ROUNDS - 1]
    );
    Ok(())
}
