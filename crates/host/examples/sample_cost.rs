//! Cost of one sample: `sample_cost PID COUNT` prints nanoseconds per sample.

use std::time::Instant;

use heaptrial_host::{HostRoot, ServiceSampler};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, pid, count] = words.as_slice() else { return Err("usage: sample_cost PID COUNT".into()) };
    let count: u32 = count.parse()?;
    let mut sampler = ServiceSampler::open(&HostRoot::default(), pid.parse()?)?;
    let start = Instant::now();
    let mut bytes = 0;
    for _ in 0..count {
        bytes += sampler.read()?.rss_bytes;
    }
    println!("{}", start.elapsed().as_nanos() / u128::from(count));
    if bytes == 0 { Err("the process has no memory".into()) } else { Ok(()) }
}
