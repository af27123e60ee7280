//! How a store of time series is reached.

use std::path::PathBuf;

use clap::Args;
use heaptrial_exchange::Access;

#[derive(Debug, Args)]
pub struct AccessOptions {
    /// File with one line, USER:PASSWORD
    #[arg(long, value_name = "FILE", conflicts_with = "bearer_file", hide_short_help = true)]
    basic_file: Option<PathBuf>,
    /// File with one line, a token
    #[arg(long, value_name = "FILE")]
    bearer_file: Option<PathBuf>,
    /// File with headers of each request, NAME: VALUE in a line, such as X-Scope-OrgID: TENANT
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    headers_file: Vec<PathBuf>,
    /// Certificate of the client (PEM)
    #[arg(long, value_name = "FILE", requires = "key_file", hide_short_help = true)]
    cert_file: Option<PathBuf>,
    /// Key of the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert_file", hide_short_help = true)]
    key_file: Option<PathBuf>,
    /// Certificates to trust instead of the system's (PEM)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    ca_file: Option<PathBuf>,
    /// Take partial answers of the store, with its warnings as notes
    #[arg(long, hide_short_help = true)]
    accept_partial: bool,
}

impl AccessOptions {
    /// For the library; warns where a secret would be read on the way.
    pub fn access(&self, url: &str) -> Access {
        let own = ["http://localhost", "http://127.", "http://[::1]"];
        let has_secret =
            self.basic_file.is_some() || self.bearer_file.is_some() || !self.headers_file.is_empty();
        if has_secret && url.starts_with("http://") && !own.iter().any(|own| url.starts_with(own)) {
            eprintln!("warning: {url} is not encrypted: the credentials can be read on the way");
        }
        Access {
            basic: self.basic_file.clone(),
            bearer: self.bearer_file.clone(),
            headers: self.headers_file.clone(),
            client: self.cert_file.clone().zip(self.key_file.clone()),
            authority: self.ca_file.clone(),
            accept_partial: self.accept_partial,
        }
    }
}
