//! Cost of one sample: `sample_cost PID COUNT` prints nanoseconds per sample, and per sample with the anonymous memory
//! of its control group.

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
    let plain = start.elapsed().as_nanos() / u128::from(count);
    let start = Instant::now();
    for _ in 0..count {
        bytes += sampler.read()?.rss_bytes;
        bytes += sampler.anonymous_of_cgroup().transpose()?.map_or(0, |anonymous| anonymous.resident_bytes);
    }
    println!("{plain} {}", start.elapsed().as_nanos() / u128::from(count));
    if bytes == 0 { Err("the process has no memory".into()) } else { Ok(()) }
}
