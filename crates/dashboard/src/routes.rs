//! Which address shows what.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use heaptrial_listen::{Names, refuse_others};
use heaptrial_report::embedded;
use heaptrial_store::Store;
use maud::Markup;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::compute::{Computer, PageKind};
use crate::data::{Data, Overview, Service, Trial, now_us};
use crate::headers;
use crate::live::Live;
use crate::page::{self, Frame, Order};
use crate::{Config, DashboardError};

/// A page that takes longer is given up.
const PAGE_WITHIN: Duration = Duration::from_secs(30);

const OTHER_NAME: &str = "This name is not one of the dashboard's. Ask for it as localhost or 127.0.0.1, or start \
                          `heaptrial serve` with --host NAME.\n";

#[derive(Debug)]
pub(crate) struct Shared {
    config: Config,
    data: Arc<Mutex<Data>>,
    computer: Arc<Computer>,
    /// One reader at a time.
    turn: Arc<Semaphore>,
    pub(crate) live: Arc<Live>,
}

impl Shared {
    pub(crate) fn new(config: &Config) -> Arc<Self> {
        let database = &config.database;
        let live = Arc::new(Live::new());
        Arc::new(Self {
            config: config.clone(),
            data: Arc::new(Mutex::new(Data::new(database))),
            computer: Computer::new(database, Arc::clone(&live)),
            turn: Arc::new(Semaphore::new(1)),
            live,
        })
    }

    /// Reads the database for somebody, on a thread that may wait for the disk; one reader at a time.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        reader: impl FnOnce(&Store) -> Result<T, DashboardError> + Send + 'static,
    ) -> Result<T, DashboardError> {
        let data = Arc::clone(&self.data);
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let reading = tokio::task::spawn_blocking(move || {
            let _until_read = turn;
            let mut data = data.lock().unwrap_or_else(PoisonError::into_inner);
            let (store, version) = data.current()?;
            Ok((reader(store)?, version))
        });
        match reading.await {
            Ok(read) => read.map(|(read, version)| {
                self.live.saw(version);
                read
            }),
            Err(error) => {
                let source = std::io::Error::other(error);
                Err(DashboardError::System { doing: "reading the database", source })
            }
        }
    }

    /// Asks whether the database changed. What is wrong with one that cannot be read is on the pages.
    pub(crate) async fn ask(self: Arc<Self>) {
        let _ = self.read(|_| Ok(())).await;
    }

    fn frame<'a>(&'a self, title: &'a str) -> Frame<'a> {
        Frame { title, version: self.live.version(), now_us: now_us() }
    }
}

type App = State<Arc<Shared>>;

/// All routes of a database.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let config = shared.config.clone();
    let router = Router::new()
        .route("/", get(overview))
        .route("/trial/{name}", get(trial))
        .route("/trial/{name}/report", get(report))
        .route("/service/{name}", get(service))
        .route("/healthz", get(healthz))
        .route("/events", get(events))
        .route("/static/{file}", get(asset))
        .fallback(nowhere)
        .with_state(shared);
    let names = Arc::new(Names::of(&config.listen, &config.hosts, OTHER_NAME));
    router
        .layer(middleware::from_fn(in_time))
        .layer(middleware::from_fn_with_state(names, refuse_others))
        .layer(middleware::from_fn(headers::add))
}

/// Gives up on a page that takes too long.
async fn in_time(request: Request, next: Next) -> Response {
    match timeout(PAGE_WITHIN, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "This page took too long.\n").into_response(),
    }
}

/// Which trial of several that have the same name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Which {
    id: Option<i64>,
}

async fn overview(State(shared): App, Query(order): Query<Order>) -> Response {
    let now_us = now_us();
    match shared.read(move |store| Overview::read(store, now_us)).await {
        Ok(overview) => {
            let frame = shared.frame("Overview");
            frame.show(page::overview(&overview, order, now_us, &shared.config.database))
        }
        Err(error) => failed(&shared, &error),
    }
}

/// A trial by name, or why there is none.
async fn find(shared: &Shared, name: String, id: Option<i64>) -> Result<Trial, Response> {
    let now_us = now_us();
    let wanted = name.clone();
    let found = shared.read(move |store| {
        let mut trials = store.trials()?;
        let of_name = |trial: &heaptrial_store::TrialRecord| match id {
            Some(id) => trial.id == id,
            None => trial.plan.name == wanted,
        };
        match trials.iter().rposition(of_name) {
            Some(index) => Trial::read(store, trials.swap_remove(index), now_us).map(Ok),
            None => Ok(Err(trials.into_iter().map(|trial| (trial.id, trial.plan.name)).collect::<Vec<_>>())),
        }
    });
    match found.await {
        Ok(Ok(trial)) => Ok(trial),
        Ok(Err(known)) => Err(not_found(shared, page::no_trial(&name, &known))),
        Err(error) => Err(failed(shared, &error)),
    }
}

async fn trial(
    State(shared): App,
    Path(name): Path<String>,
    Query(which): Query<Which>,
    Query(order): Query<Order>,
) -> Response {
    let trial = match find(&shared, name, which.id).await {
        Ok(trial) => trial,
        Err(response) => return response,
    };
    // Before it is computed: a result that comes while this page is shown makes it due again.
    let title = trial.name().to_owned();
    let frame = shared.frame(&title);
    let computed = shared.computer.get(trial.record.id, PageKind::of(&trial), shared.live.data()).await;
    let content = page::trial(&trial, computed.as_ref(), order, frame.now_us);
    frame.show(content)
}

async fn report(State(shared): App, Path(name): Path<String>, Query(which): Query<Which>) -> Response {
    let trial = match find(&shared, name, which.id).await {
        Ok(trial) => trial,
        Err(response) => return response,
    };
    if !trial.may_conclude() {
        return not_found(&shared, page::no_report_yet(&trial));
    }
    let computed = shared.computer.get(trial.record.id, PageKind::Report, shared.live.data()).await;
    match computed.map(|computed| computed.markup) {
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
    let found = shared.read(move |store| {
        let found = Service::find(store, &wanted, which.id, now_us)?;
        Ok(match found {
            Some(found) => Ok(Box::new(found)),
            None => Err(Overview::read(store, now_us)?),
        })
    });
    match found.await {
        Ok(Ok(service)) => {
            let title = service.record.name.clone();
            let frame = shared.frame(&title);
            frame.show(page::service(&service, now_us))
        }
        Ok(Err(overview)) => not_found(&shared, page::no_service(&name, &overview)),
        Err(error) => failed(&shared, &error),
    }
}

async fn healthz(State(shared): App) -> Response {
    match shared.read(|store| Ok(store.trials()?.len())).await {
        Ok(trials) => format!("ok\ntrials {trials}\n").into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn events(State(shared): App) -> Response {
    shared.live.listen()
}

async fn asset(Path(file): Path<String>, State(shared): App) -> Response {
    let Some((kind, content)) = page::asset(&file) else {
        return not_found(&shared, page::nowhere(&format!("/static/{file}")));
    };
    // Its address holds the digest of its content.
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (headers, content).into_response()
}

async fn nowhere(State(shared): App, uri: Uri) -> Response {
    not_found(&shared, page::nowhere(uri.path()))
}

fn not_found(shared: &Shared, content: Markup) -> Response {
    (StatusCode::NOT_FOUND, shared.frame("Not found").show(content)).into_response()
}

fn failed(shared: &Shared, error: &DashboardError) -> Response {
    unavailable(shared, &error.to_string())
}

fn unavailable(shared: &Shared, text: &str) -> Response {
    let content = page::unavailable(text);
    (StatusCode::SERVICE_UNAVAILABLE, shared.frame("Not available").show(content)).into_response()
}
