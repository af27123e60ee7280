//! The page of a search over lab runs: how it stands, from the document in its folder that is written anew after each step.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use axum::Router;
use axum::extract::{Path as InAddress, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use heaptrial_report::embedded;
use maud::{Markup, html};

use crate::data::now_us;
use crate::live::Live;
use crate::page::{self, Frame};
use crate::routes::{asset_of, with_rules};
use crate::{Config, DashboardError};

const PAGES: [(&str, &str); 1] = [("/", "Search")];

/// A search whose document is at `path`.
#[derive(Debug)]
pub(crate) struct Search {
    path: PathBuf,
    live: Arc<Live>,
    seen: Mutex<Seen>,
}

/// A file as it was when it was written last.
type Written = (SystemTime, u64, u64);

#[derive(Debug, Default)]
struct Seen {
    written: Option<Written>,
    /// Goes up with each change.
    version: u64,
    /// Title and content of that version.
    page: Option<(String, Markup)>,
}

impl Search {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), live: Arc::new(Live::new()), seen: Mutex::default() }
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Looks whether there is something new.
    pub(crate) fn ask(&self) {
        self.look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn look(&self, seen: &mut Seen) {
        let written = std::fs::metadata(&self.path).ok();
        let written = written.and_then(|found| Some((found.modified().ok()?, found.len(), found.ino())));
        if seen.version == 0 || written != seen.written {
            *seen = Seen { written, version: seen.version + 1, page: None };
        }
        self.live.saw(seen.version);
    }

    /// Title and content as of now.
    pub(crate) fn page(&self) -> Result<(String, Markup), DashboardError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.look(&mut seen);
        if let Some(page) = &seen.page {
            return Ok(page.clone());
        }
        let system = |source| DashboardError::System { doing: "reading the document of the search", source };
        let text = std::fs::read_to_string(&self.path).map_err(system)?;
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let found = embedded::search(&file, &text)?;
        let page = found.ok_or_else(|| system(std::io::Error::other(format!("{file} is none"))))?;
        Ok(seen.page.insert(page).clone())
    }

    fn frame<'a>(&self, title: &'a str) -> Frame<'a> {
        Frame { title, here: "/", pages: &PAGES, version: self.live.version(), now_us: now_us() }
    }
}

type App = State<Arc<Search>>;

/// All routes of a search.
pub(crate) fn router(search: Arc<Search>, config: &Config) -> Router {
    let router = Router::new()
        .route("/", get(shown))
        .route("/healthz", get(healthz))
        .route("/events", get(events))
        .route("/static/{file}", get(asset))
        .fallback(nowhere)
        .with_state(search);
    with_rules(router, config)
}

/// Reads the document, on a thread that may wait for the disk.
async fn read(search: &Arc<Search>) -> Result<(String, Markup), DashboardError> {
    let search = Arc::clone(search);
    match tokio::task::spawn_blocking(move || search.page()).await {
        Ok(page) => page,
        Err(error) => {
            let source = std::io::Error::other(error);
            Err(DashboardError::System { doing: "reading the document of the search", source })
        }
    }
}

async fn shown(State(search): App) -> Response {
    match read(&search).await {
        Ok((title, sections)) => search.frame(&title).show(html! {
            div class="heading" { h1 { (title) } }
            div class="report" data-whole="" { (sections) }
        }),
        Err(error) => {
            let content = page::unavailable(&error.to_string());
            (StatusCode::SERVICE_UNAVAILABLE, search.frame("Not available").show(content)).into_response()
        }
    }
}

async fn healthz(State(search): App) -> Response {
    match read(&search).await {
        Ok((title, _)) => format!("ok\n{title}\n").into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn events(State(search): App) -> Response {
    search.live.listen()
}

async fn asset(InAddress(file): InAddress<String>, State(search): App) -> Response {
    asset_of(&file).unwrap_or_else(|| not_found(&search, &format!("/static/{file}")))
}

async fn nowhere(State(search): App, uri: Uri) -> Response {
    not_found(&search, uri.path())
}

fn not_found(search: &Search, path: &str) -> Response {
    (StatusCode::NOT_FOUND, search.frame("Not found").show(page::nowhere(path))).into_response()
}
