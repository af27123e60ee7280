//! The agent's metrics and the dashboard beside two hundred connections that are slow on purpose.
//!
//! Whoever asks from the machine itself waits for none of them to be given up. How much later the answer comes than without
//! them is printed and not tested: it depends on what else the machine does.

use crate::support;

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use heaptrial_model::{LifeKey, Metric, Sample, TrialKind, TrialPlan};
use heaptrial_store::{NewService, NewTrial, Store, TickInput};
use heaptrial_testbed::Draw;
use support::heaptrial;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::sleep;

const SLOW: u8 = 200;
/// They come from so many addresses, and whoever is sent away comes again after this pause.
const ADDRESSES: u8 = 16;
const PAUSE: Duration = Duration::from_millis(1);
/// So many scrapes are timed beside those of each kind, and alone.
const SCRAPES: usize = 20;
/// The listener gives up none of these sooner. A scrape that needs the place of one waits for as long.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);

/// Ended with the test.
struct Served {
    child: Child,
    address: SocketAddr,
    path: &'static str,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A database whose pages are not empty.
fn write_database(path: &std::path::Path) {
    let mut store = Store::create(path).unwrap();
    let specs = ["glibc".parse().unwrap(), "glibc?arena_max=1".parse().unwrap()];
    let started_wall_us = heaptrial_host::Instant::now().wall_us - 3_600_000_000;
    let trial = NewTrial {
        name: "shown".into(),
        kind: TrialKind::Field,
        boot_id: "an earlier boot".into(),
        host_facts: serde_json::json!({}),
        metric: Metric::Rss,
        seed: 7,
        repeats: 1,
        planned_us: 86_400_000_000,
        arms: TrialPlan::from_specs("shown", &specs).unwrap().arms,
        parameters: serde_json::json!({}),
        command: String::new(),
        tool_version: "0.1.0".into(),
        started_wall_us,
    };
    let service = |number: u32| NewService {
        name: format!("churn@{number:03}.service"),
        arm: number as usize % 2,
        block: 0,
        position: number,
        attributes: serde_json::Value::Null,
    };
    let services: Vec<NewService> = (0..60).map(service).collect();
    let id = store.begin_field_trial(&trial, &[None, None], &services).unwrap();
    let mut lives = Vec::new();
    for (number, service) in store.services(id).unwrap().iter().enumerate() {
        let key = LifeKey { boot_id: "an earlier boot".into(), pid: 100 + number as i32, start_ticks: 1 };
        lives.push(store.add_life(service.id, &key, (started_wall_us, 0), None, None).unwrap());
    }
    for sequence in 0..60 {
        let sample = Sample { rss_bytes: 1 << 20, ..Sample::default() };
        let tick = TickInput {
            sequence,
            wall_us: started_wall_us + sequence * 60_000_000,
            boottime_us: sequence * 60_000_000,
            samples: lives.iter().map(|life| (*life, sample)).collect(),
            ..TickInput::default()
        };
        store.write_tick(id, &tick).unwrap();
    }
}

fn dashboard(folder: &std::path::Path) -> Served {
    let mut command = heaptrial(folder);
    command.args(["serve", "shown.db", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().strip_prefix("http://").unwrap().trim_end_matches('/').parse().unwrap();
    Served { child, address, path: "/trial/shown" }
}

fn metrics(folder: &std::path::Path) -> Served {
    // One that is free now.
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mut command = heaptrial(folder);
    command.args(["agent", "--db", "agent.db", "--metrics", &free.to_string()]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let served = Served { child, address: free, path: "/metrics" };
    support::wait_for("the metrics", Duration::from_secs(60), || std::net::TcpStream::connect(free).ok());
    served
}

/// Asks over a connection of its own; what was answered.
async fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// In which way a connection is slow.
#[derive(Debug, Clone, Copy)]
enum Slow {
    /// It says nothing at all.
    Idle,
    /// Its head never ends.
    Head,
    /// Its body never ends.
    Body,
    /// It takes a byte of the answer at a time.
    Reader,
    /// It asks without end and takes no answer.
    Asker,
    /// It is answered, and asks again after a while.
    Loiterer,
}

const ALL: [Slow; 6] = [Slow::Idle, Slow::Head, Slow::Body, Slow::Reader, Slow::Asker, Slow::Loiterer];

/// One connection, as long as the server keeps it.
async fn be_slow(how: Slow, number: u8, address: SocketAddr, path: &str) -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    socket.bind((Ipv4Addr::new(127, 0, 0, 2 + number % ADDRESSES), 0).into())?;
    let mut stream = socket.connect(address).await?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n");
    let ask = format!("{head}\r\n");
    match how {
        Slow::Idle => stream.read_u8().await.map(drop),
        Slow::Head => {
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(b"X-Slow: 1\r\n").await?;
                sleep(Duration::from_millis(200)).await;
            }
        }
        Slow::Body => {
            stream.write_all(format!("{head}Content-Length: 100000000\r\n\r\n").as_bytes()).await?;
            loop {
                stream.write_all(b"x").await?;
                sleep(Duration::from_millis(100)).await;
            }
        }
        Slow::Reader => {
            stream.write_all(ask.as_bytes()).await?;
            loop {
                stream.read_u8().await?;
                sleep(Duration::from_millis(100)).await;
            }
        }
        Slow::Asker => loop {
            stream.write_all(ask.as_bytes()).await?;
            sleep(Duration::from_millis(50)).await;
        },
        Slow::Loiterer => loop {
            stream.write_all(ask.as_bytes()).await?;
            let mut some = [0; 4096];
            while stream.read(&mut some).await? == some.len() {}
            sleep(Duration::from_millis(500)).await;
        },
    }
}

/// How long the slowest of some answers took, or what went wrong.
async fn slowest(served: &Served) -> Result<Duration, String> {
    let mut slowest = Duration::ZERO;
    for _ in 0..SCRAPES {
        let begun = Instant::now();
        let answer = ask(served.address, served.path).await.map_err(|error| error.to_string())?;
        slowest = slowest.max(begun.elapsed());
        if !answer.starts_with("HTTP/1.1 200") {
            return Err(answer.lines().next().unwrap_or("nothing was answered").to_owned());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(slowest)
}

/// The slowest answer beside so many connections that are slow in one way.
fn slowest_beside(how: Slow, served: &Served) -> Result<Duration, String> {
    let runtime = Runtime::new().unwrap();
    for number in 0..SLOW {
        let (address, path) = (served.address, served.path);
        runtime.spawn(async move {
            loop {
                let _ = be_slow(how, number, address, path).await;
                sleep(PAUSE).await;
            }
        });
    }
    let slowest = runtime.block_on(async {
        sleep(Duration::from_millis(300)).await;
        slowest(served).await
    });
    runtime.shutdown_background();
    slowest
}

#[track_caller]
fn assert_answered_beside_slow_ones(served: &Served) {
    let alone = Runtime::new().unwrap().block_on(slowest(served)).unwrap();
    let drawn = ALL.iter().enumerate().filter(|(case, _)| Draw::of_this_run().has(*case, ALL.len()));
    let beside: Vec<_> = drawn.map(|(_, how)| (how, slowest_beside(*how, served))).collect();
    eprintln!("{}: {alone:?} alone, {beside:?} beside {SLOW} slow ones", served.path);
    for (how, slowest) in &beside {
        let in_time = slowest.as_ref().is_ok_and(|slowest| *slowest < GIVEN_UP_AFTER);
        assert!(in_time, "beside {how:?}: {slowest:?}; {alone:?} alone");
    }
}

#[test]
fn a_scrape_waits_for_no_slow_connection() {
    let folder = tempfile::tempdir().unwrap();
    assert_answered_beside_slow_ones(&metrics(folder.path()));
}

#[test]
fn the_dashboard_waits_for_no_slow_connection() {
    let folder = tempfile::tempdir().unwrap();
    write_database(&folder.path().join("shown.db"));
    assert_answered_beside_slow_ones(&dashboard(folder.path()));
}
