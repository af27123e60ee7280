//! `testbed`: throw-away hosts with a real systemd, to try things on.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use heaptrial_testbed::{Container, Options, Testbed, TestbedError};

/// Throw-away hosts with a real systemd, to try things on. Needs root.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Boot a new host, which stays until `down`
    Up {
        /// Name of the host: letters, digits, -
        name: String,
        /// A file or folder of this machine that the host sees, read-only
        #[arg(long, value_name = "SRC:DST", value_parser = parse_bind)]
        bind: Vec<(PathBuf, PathBuf)>,
        /// Size of its disk, which is in memory, in MiB
        #[arg(long, default_value_t = 1024)]
        disk_mib: u64,
        /// Another suite of this machine's distribution, such as trixie
        #[arg(long)]
        suite: Option<String>,
    },
    /// Run a command in a host, as root
    Run {
        /// Name of the host
        name: String,
        /// Program and arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// End everything in a host at once; its disk stays
    PowerCut {
        /// Name of the host
        name: String,
    },
    /// Boot a host again after a power cut
    Boot {
        /// Name of the host
        name: String,
    },
    /// Remove what killed processes left behind; hosts that were kept stay
    Tidy,
    /// Remove a host
    Down {
        /// Name of the host
        name: String,
    },
}

fn parse_bind(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let (host, container) = text.split_once(':').ok_or("expected SRC:DST")?;
    Ok((host.into(), container.into()))
}

fn main() -> ExitCode {
    match run(Arguments::parse().action) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed: {error}");
            match error {
                TestbedError::Refused(_) => ExitCode::from(3),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(action: Action) -> Result<(), TestbedError> {
    match action {
        Action::Up { name, bind, disk_mib, suite } => {
            let base = Testbed::prepare_suite(suite.as_deref())?;
            let options = Options::new().name(name).disk_bytes(disk_mib << 20);
            let options =
                bind.into_iter().fold(options, |options, (host, inside)| options.bind(host, inside));
            Container::boot(&base, options)?.keep()
        }
        Action::Run { name, command } => {
            let host = Container::attach(&name)?;
            let [program, arguments @ ..] = command.as_slice() else { return Ok(()) };
            let mut command = host.try_command(program)?;
            // Only returns if the program cannot be started.
            let source = command.args(arguments).exec();
            Err(TestbedError::Start { program: "nsenter".to_owned(), source })
        }
        Action::PowerCut { name } => Container::attach(&name)?.power_cut(),
        Action::Boot { name } => Container::attach(&name)?.boot_again(),
        Action::Tidy => Testbed::tidy(),
        Action::Down { name } => Container::attach(&name)?.remove(),
    }
}
