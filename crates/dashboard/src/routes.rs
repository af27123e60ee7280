//! Which address shows which page.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use heaptrial_host::listen::{Names, refuse_others};
use heaptrial_report::embedded;
use heaptrial_store::{Store, TrialRecord};
use serde::Deserialize;

use crate::compute::{Computed, Computer, PageKind};
use crate::data::{Data, Overview, Service, Trial, now_us};
use crate::headers;
use crate::page::{self, Frame};
use crate::{Config, DashboardError};

const OTHER_NAME: &str = "This name is not one of the dashboard's. Ask for it as localhost or 127.0.0.1, or start \
                          `heaptrial serve` with --host NAME.\n";

#[derive(Debug)]
struct Shared {
    database: PathBuf,
    data: Arc<Mutex<Data>>,
    computer: Arc<Computer>,
    /// Version of the database, as far as it was read.
    seen: AtomicU64,
}

impl Shared {
    /// Reads the database on a thread that may wait for the disk; one reader at a time.
    async fn read<T: Send + 'static>(
        &self,
        reader: impl FnOnce(&Store) -> Result<T, DashboardError> + Send + 'static,
    ) -> Result<T, DashboardError> {
        let data = Arc::clone(&self.data);
        let reading = tokio::task::spawn_blocking(move || {
            let mut data = data.lock().unwrap_or_else(PoisonError::into_inner);
            let (store, version) = data.current()?;
            Ok::<_, DashboardError>((reader(store)?, version))
        });
        let (read, version) = reading.await.map_err(|error| {
            let source = std::io::Error::other(error);
            DashboardError::System { doing: "reading the database", source }
        })??;
        self.seen.fetch_max(version, Ordering::Relaxed);
        Ok(read)
    }

    /// Distinguishes one state of all pages from any other, as long as the dashboard runs.
    fn version(&self) -> String {
        format!("{}.{}", self.seen.load(Ordering::Relaxed), self.computer.computed())
    }

    async fn compute(&self, trial: &Trial, kind: PageKind) -> Option<Computed> {
        self.computer.get(trial.record.id, kind, self.seen.load(Ordering::Relaxed)).await
    }

    fn frame<'a>(&'a self, title: &'a str) -> Frame<'a> {
        Frame { title, version: self.version(), now_us: now_us() }
    }
}

type App = State<Arc<Shared>>;

pub(crate) fn router(config: &Config) -> Router {
    let shared = Arc::new(Shared {
        database: config.database.clone(),
        data: Arc::new(Mutex::new(Data::new(&config.database))),
        computer: Computer::new(&config.database),
        seen: AtomicU64::new(0),
    });
    let names = Arc::new(Names::of(&config.listen, &config.hosts, OTHER_NAME));
    Router::new()
        .route("/", get(overview))
        .route("/trial/{name}", get(trial))
        .route("/trial/{name}/report", get(report))
        .route("/service/{name}", get(service))
        .route("/healthz", get(healthz))
        .route("/version", get(version))
        .route("/static/{file}", get(asset))
        .fallback(nowhere)
        .with_state(shared)
        .layer(middleware::from_fn_with_state(names, refuse_others))
        .layer(middleware::from_fn(headers::add))
}

/// Which trial of several that have the same name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Which {
    id: Option<i64>,
}

async fn overview(State(shared): App) -> Response {
    let now_us = now_us();
    match shared.read(move |store| Overview::read(store, now_us)).await {
        Ok(overview) => shared.frame("Overview").show(page::overview(&overview, now_us, &shared.database)),
        Err(error) => unavailable(&shared, &error.to_string()),
    }
}

/// A trial by name, or why there is none.
async fn find(shared: &Shared, name: String, id: Option<i64>) -> Result<Trial, Response> {
    let now_us = now_us();
    let wanted = name.clone();
    let found = shared.read(move |store| {
        let of_name = |trial: &TrialRecord| match id {
            Some(id) => trial.id == id,
            None => trial.plan.name == wanted,
        };
        let record = store.trials()?.into_iter().rev().find(of_name);
        record.map(|record| Trial::read(store, record, now_us)).transpose()
    });
    match found.await {
        Ok(Some(trial)) => Ok(trial),
        Ok(None) => Err(not_found(shared, &format!("The database has no trial called {name}."))),
        Err(error) => Err(unavailable(shared, &error.to_string())),
    }
}

async fn trial(State(shared): App, Path(name): Path<String>, Query(which): Query<Which>) -> Response {
    let trial = match find(&shared, name, which.id).await {
        Ok(trial) => trial,
        Err(response) => return response,
    };
    let kind = if trial.may_conclude() { PageKind::Sections } else { PageKind::Running };
    // Before it is computed: a result that comes while this page is shown makes another version.
    let frame = shared.frame(trial.name());
    let computed = shared.compute(&trial, kind).await;
    frame.show(page::trial(&trial, computed.as_ref(), frame.now_us))
}

async fn report(State(shared): App, Path(name): Path<String>, Query(which): Query<Which>) -> Response {
    let trial = match find(&shared, name, which.id).await {
        Ok(trial) => trial,
        Err(response) => return response,
    };
    if !trial.may_conclude() {
        let text = format!(
            "{} still runs: no report yet. One that is seen earlier is a look that nobody planned.",
            trial.name()
        );
        return not_found(&shared, &text);
    }
    match shared.compute(&trial, PageKind::Report).await.map(|computed| computed.markup) {
        Some(Ok(html)) => {
            let policy = format!("{}; frame-ancestors 'none'", embedded::page_policy());
            let headers =
                [(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (CONTENT_SECURITY_POLICY, policy)];
            (headers, html.to_string()).into_response()
        }
        Some(Err(text)) => unavailable(&shared, &text),
        None => unavailable(&shared, "The report is being computed; ask again in a moment."),
    }
}

async fn service(State(shared): App, Path(name): Path<String>, Query(which): Query<Which>) -> Response {
    let now_us = now_us();
    let wanted = name.clone();
    match shared.read(move |store| Service::find(store, &wanted, which.id, now_us)).await {
        Ok(Some(service)) => shared.frame(&service.record.name).show(page::service(&service, now_us)),
        Ok(None) => not_found(&shared, &format!("No trial of the database has a service called {name}.")),
        Err(error) => unavailable(&shared, &error.to_string()),
    }
}

/// What pages ask to see whether they are still up to date. What is wrong with a database that cannot be read is on the pages.
async fn version(State(shared): App) -> String {
    let _ = shared.read(|_| Ok(())).await;
    shared.version()
}

async fn healthz(State(shared): App) -> Response {
    match shared.read(|store| Ok(store.trials()?.len())).await {
        Ok(trials) => format!("ok\ntrials {trials}\n").into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn asset(Path(file): Path<String>, State(shared): App) -> Response {
    let Some((kind, content)) = page::asset(&file) else {
        return not_found(&shared, &format!("There is no page /static/{file}."));
    };
    // Its address holds the digest of its content.
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (headers, content).into_response()
}

async fn nowhere(State(shared): App, uri: Uri) -> Response {
    not_found(&shared, &format!("There is no page {}.", uri.path()))
}

fn not_found(shared: &Shared, text: &str) -> Response {
    let content = page::problem("Nothing here", text);
    (StatusCode::NOT_FOUND, shared.frame("Not found").show(content)).into_response()
}

fn unavailable(shared: &Shared, text: &str) -> Response {
    let content = page::problem("Cannot be shown now", text);
    (StatusCode::SERVICE_UNAVAILABLE, shared.frame("Not available").show(content)).into_response()
}
