//! What a tick of a service in a control group of its own costs beside the bare reads of its files.
//!
//! Both are measured in turn, batch by batch, by the processor time of this thread. Needs root, or a group of one's own.
//!
//!     cargo run --release -p heaptrial-host --example tick_cost [PAIRS]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use heaptrial_host::{CgroupPlace, CgroupVersion, HostRoot, OwnCgroup, ServiceSampler, TickCost};

const TICKS: u32 = 500;

fn main() {
    let pairs: usize = std::env::args().nth(1).map_or(101, |text| text.parse().expect("a number of pairs"));
    let root = HostRoot::default();
    let place = CgroupPlace::find(&root).expect("a place for a control group");
    let group = OwnCgroup::create(&root, &place, None).expect("a control group");
    let mut command = Command::new("sleep");
    command.arg("1000");
    group.enter_before_exec(&mut command).expect("a way into the group");
    let mut service = command.spawn().expect("the program sleep");
    let pid = service.id() as i32;

    let of_process = ["stat", "status"].map(|name| root.process_dir(pid).join(name));
    let names: &[&str] = match place.version() {
        CgroupVersion::V1 => {
            &["memory.stat", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "cgroup.procs"]
        }
        _ => &[
            "memory.stat",
            "memory.swap.current",
            "memory.current",
            "memory.peak",
            "cpu.stat",
            "cgroup.procs",
        ],
    };
    let mut of_group: Vec<_> = names.iter().map(|name| group.cgroup().dir().join(name)).collect();
    // Where CPU time has a hierarchy of its own.
    of_group.extend(group.cgroup().dirs().skip(1).map(|dir| dir.join("cpuacct.usage")));
    let open = |path: &std::path::PathBuf| File::open(path).ok();
    let (of_process, of_group): (Vec<File>, Vec<File>) =
        (of_process.iter().filter_map(open).collect(), of_group.iter().filter_map(open).collect());
    let mut sampler = ServiceSampler::open(&root, pid).expect("a sampler");

    let mut buffer = vec![0; 16 << 10];
    let mut read_all = |files: &[File]| {
        TickCost::measure(|| {
            for _ in 0..TICKS {
                for file in files {
                    file.read_at(&mut buffer, 0).expect("a file");
                }
            }
        })
    };
    let mut batches: Vec<[f64; 3]> = Vec::new();
    for _ in 0..pairs {
        let ((), process) = read_all(&of_process);
        let ((), bare_group) = read_all(&of_group);
        let ((), tick) = TickCost::measure(|| {
            for _ in 0..TICKS {
                sampler.may_have_moved();
                sampler.read().expect("a sample");
                sampler.anonymous_of_cgroup().expect("a group").expect("its memory");
                sampler.cpu_us_of_cgroup().expect("its CPU time");
            }
        });
        batches.push([process, bare_group, tick].map(|cost| cost.cpu_us as f64 / f64::from(TICKS)));
    }
    let _ = service.kill();
    let _ = service.wait();
    let median = |of: &dyn Fn(&[f64; 3]) -> f64| {
        let mut values: Vec<f64> = batches.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "control groups of version {}, {pairs} pairs of {TICKS} ticks, medians",
        place.version().as_str()
    );
    println!("bare reads of the process    {:6.2} us", median(&|batch| batch[0]));
    println!("bare reads of its group      {:6.2} us", median(&|batch| batch[1]));
    println!("a tick                       {:6.2} us", median(&|batch| batch[2]));
    println!("tick / bare reads of both    {:6.3}", median(&|batch| batch[2] / (batch[0] + batch[1])));
    println!("tick / bare reads of process {:6.3}", median(&|batch| batch[2] / batch[0]));
}
