//! How near a run on a cluster comes to the ideal: `slurm_blocks BUILD_FOLDER SECONDS [BLOCKS] [NODES] [OPTION...]`.
//!
//! Boots a controller and nodes of one processor with a real Slurm, runs BLOCKS blocks of two services that live for SECONDS each,
//! and tells the time of the whole command beside the ideal: the time that blocks took on their nodes, over the number of nodes.
//! Options are of `lab run`, such as `--slurm mem=300M`.
//!
//! ```text
//! cargo build --release --workspace
//! cargo run --release -p heaptrial-bench --bin slurm_blocks -- target/release 60
//! ```

use std::path::PathBuf;
use std::time::Instant;

use heaptrial_testbed::{Options, SlurmCluster};

const HOLDER: &str = "import time\nheld = [bytes(4000) for _ in range(5000)]\ntime.sleep(36000)\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(build), Some(seconds)) = (words.next().map(PathBuf::from), words.next()) else {
        eprintln!("usage: slurm_blocks BUILD_FOLDER SECONDS [BLOCKS] [NODES] [OPTION...]");
        std::process::exit(2);
    };
    let blocks: usize = words.next().map_or(Ok(24), |number| number.parse())?;
    let nodes: usize = words.next().map_or(Ok(3), |number| number.parse())?;
    let Some(base) = SlurmCluster::base_for_test() else { std::process::exit(1) };
    let shared = tempfile::tempdir()?;
    std::fs::write(shared.path().join("holder.py"), HOLDER)?;
    let cluster = SlurmCluster::boot(&base, nodes, shared.path(), &Options::new().bind(build, "/ht"))?;
    let started = Instant::now();
    let status = cluster
        .command("/shared", "/ht/heaptrial")
        .args([
            "lab", "run", "-a", "glibc", "-a", "jemalloc", "--source", "host", "--seed", "7", "--on", "slurm",
        ])
        .args(["--out", "/shared/run", "--repeat", &blocks.to_string(), "--duration", &format!("{seconds}s")])
        .args(words)
        .args(["--", "python3", "/shared/holder.py"])
        .status()?;
    let whole = started.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("the run failed: {status}").into());
    }
    let mut on_nodes = 0.0;
    for entry in std::fs::read_dir(shared.path().join("run/blocks"))? {
        let report: serde_json::Value =
            serde_json::from_slice(&std::fs::read(entry?.path().join("block.json"))?)?;
        on_nodes += report["used"]["seconds"].as_f64().ok_or("a block tells no time")?;
    }
    let ideal = on_nodes / nodes as f64;
    println!(
        "{blocks} blocks of {:.1} s on {nodes} nodes: {whole:.1} s, ideal {ideal:.1} s, ratio {:.3}",
        on_nodes / blocks as f64,
        whole / ideal
    );
    Ok(())
}
