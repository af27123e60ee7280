//! A service of which it is known what it needs: nothing. Worker threads fill a buffer of SIZE bytes and free it, again and
//! again, and then wait for ever. What the service still holds is the allocator's choice.
//!
//! ```text
//! cargo build --release -p heaptrial-bench --bin held_buffers
//! heaptrial lab run -a glibc -a mimalloc@2.0.9 --duration 10s -- target/release/held_buffers 16777216
//! ```

use std::hint::black_box;
use std::time::Duration;

const THREADS: usize = 16;
const ROUNDS: usize = 6;

fn main() {
    let size = std::env::args().nth(1).and_then(|size| size.parse().ok());
    let Some(size) = size else {
        eprintln!("usage: held_buffers SIZE (bytes of each buffer)");
        std::process::exit(2);
    };
    let workers: Vec<_> = (0..THREADS).map(|_| std::thread::spawn(move || work(size))).collect();
    for worker in workers {
        // A worker never ends.
        let _ = worker.join();
    }
}

fn work(size: usize) {
    for _ in 0..ROUNDS {
        drop(black_box(vec![1_u8; size]));
        // Small blocks between, as any program has them.
        let small: Vec<Box<[u8; 640]>> = (0..2000).map(|_| Box::new([1; 640])).collect();
        drop(black_box(small));
        std::thread::sleep(Duration::from_millis(20));
    }
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
