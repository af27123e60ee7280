//! Serves the last tick, on a thread of its own.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use heaptrial_host::listen::{Listen, Listener, Names, refuse_others};

use super::MetricsAddress;
use crate::AgentError;

const HELP: &str = "metrics are at /metrics, by the name localhost, 127.0.0.1 or [::1]\n";
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is shown, for the thread that answers.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Arc<Mutex<String>>);

impl Metrics {
    /// Listens, and answers from a thread.
    pub(crate) fn serve(address: &MetricsAddress) -> Result<Self, AgentError> {
        let metrics = Self::default();
        let started = start(&address.0, Arc::clone(&metrics.0));
        started.map_err(AgentError::system(format!("serve metrics at {address}")))?;
        Ok(metrics)
    }

    pub(crate) fn show(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

fn start(address: &Listen, shown: Arc<Mutex<String>>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = Listener::bind(address)?;
    let serve = move || {
        let app = app(&listener.address(), shown);
        if let Err(error) = runtime.block_on(listener.serve(app, std::future::pending())) {
            eprintln!("metrics are no longer served at {}: {error}", listener.address());
        }
    };
    std::thread::Builder::new().name("metrics".into()).spawn(serve).map(drop)
}

fn app(address: &Listen, shown: Arc<Mutex<String>>) -> Router {
    let names = match address {
        Listen::Tcp(_) => Names::of(address, &[], HELP),
        Listen::Unix(_) => Names::any(),
    };
    Router::new()
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, HELP) })
        .layer(middleware::from_fn_with_state(Arc::new(names), refuse_others))
        .with_state(shown)
}

async fn metrics(State(shown): State<Arc<Mutex<String>>>) -> Response {
    let text = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ([(CONTENT_TYPE, FORMAT)], text).into_response()
}
