//! What the authority answers over HTTP (dir-spec section 5).

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use super::door::Named;
use super::{Directory, Shared};
use crate::directory::UploadedRelay;

/// A descriptor with its extra-info document has a few kilobytes.
const UPLOAD_BYTES: usize = 200_000;
const CONSENSUS: &str = "/tor/status-vote/current/consensus";
/// Where a relay names the consensus that it has, by the digest of its signed part.
const HAS: &str = "X-Or-Diff-From-Consensus";

type Answer = Result<Response<Full<Bytes>>, hyper::http::Error>;

/// A document, and the same deflated.
#[derive(Debug, Clone)]
pub(super) struct Encoded {
    pub(super) plain: Bytes,
    pub(super) deflated: Bytes,
}

impl Encoded {
    pub(super) fn new(text: String) -> Self {
        Self { deflated: deflate(text.as_bytes()), plain: text.into() }
    }
}

fn deflate(bytes: &[u8]) -> Bytes {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

/// Serves directory documents until its task is aborted.
pub(super) async fn serve(listener: tokio::net::TcpListener, shared: Arc<Shared>, named: Arc<Mutex<Named>>) {
    // Aborting the task drops the set, and with it all connections.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, say: give connections time to end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (shared, named) = (Arc::clone(&shared), Arc::clone(&named));
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let (shared, named) = (Arc::clone(&shared), Arc::clone(&named));
                async move {
                    match *request.method() {
                        Method::POST => receive(&shared, request).await,
                        _ => answer(&shared, &named, &request).await,
                    }
                }
            });
            // Tor compares the names of headers letter by letter. A client that hangs up is none of
            // the authority's business.
            let _ = hyper::server::conn::http1::Builder::new()
                .title_case_headers(true)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Takes a relay's upload. One that cannot be listed is accepted as well: nobody could do anything about it.
async fn receive(shared: &Shared, request: Request<Incoming>) -> Answer {
    if let Ok(body) = Limited::new(request.into_body(), UPLOAD_BYTES).collect().await {
        let relay = UploadedRelay::parse(&String::from_utf8_lossy(&body.to_bytes()));
        if let (Some(relay), Ok(mut directory)) = (relay, shared.directory.write()) {
            if let Some(address) = relay.or_address() {
                directory.ntor_keys.insert(address, relay.ntor_key());
            }
            if let Some(uploaded) = &mut directory.uploaded {
                uploaded.insert(relay.id(), relay);
            }
        }
    }
    Response::builder().header(CONTENT_TYPE, "text/plain").body(Full::default())
}

async fn answer(shared: &Shared, named: &Mutex<Named>, request: &Request<Incoming>) -> Answer {
    let path = request.uri().path();
    let (path, wants_deflated) = match path.strip_suffix(".z") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let found = match path.strip_prefix(CONSENSUS) {
        Some(rest) => {
            let flavor = usize::from(rest.starts_with("-microdesc"));
            let has = request.headers().get(HAS).and_then(|value| value.to_str().ok()).unwrap_or("");
            next_consensus(shared, named, flavor, has).await.map(Document::Encoded)
        }
        None => shared.read(|directory| directory.find(path)).flatten(),
    };
    let Some(document) = found else {
        return Response::builder().status(StatusCode::NOT_FOUND).body(Full::default());
    };
    let (encoding, body) = match (document, wants_deflated) {
        (Document::Encoded(encoded), true) => ("deflate", encoded.deflated),
        (Document::Encoded(encoded), false) => ("identity", encoded.plain),
        (Document::Plain(plain), true) => ("deflate", deflate(&plain)),
        (Document::Plain(plain), false) => ("identity", plain),
    };
    Response::builder()
        .header(CONTENT_TYPE, "text/plain")
        .header(CONTENT_ENCODING, encoding)
        .body(Full::new(body))
}

/// The current consensus of a flavour; whoever has that already gets the next one when it is published.
async fn next_consensus(shared: &Shared, named: &Mutex<Named>, flavor: usize, has: &str) -> Option<Encoded> {
    let mut published = shared.published.subscribe();
    let had = shared.read(|directory| {
        let is_it = |digests: &[String; 2]| has.contains(&digests[flavor]);
        directory.publications.iter().rposition(is_it).map_or(0, |index| index as u64 + 1)
    })?;
    named.lock().ok()?[flavor] = Some(had);
    published.wait_for(|number| *number > had).await.ok()?;
    shared.read(|directory| directory.consensus.as_ref().map(|both| both[flavor].clone()))?
}

enum Document {
    Encoded(Encoded),
    Plain(Bytes),
}

impl Directory {
    fn find(&self, path: &str) -> Option<Document> {
        if path.starts_with("/tor/keys/") {
            return Some(Document::Plain(self.certificate.clone()));
        }
        if let Some(digests) = path.strip_prefix("/tor/server/d/") {
            let wanted = digests.split('+').map(str::to_ascii_uppercase);
            return concatenate(wanted.filter_map(|digest| self.descriptors.get(&digest)));
        }
        if let Some(digests) = path.strip_prefix("/tor/micro/d/") {
            return concatenate(digests.split('-').filter_map(|digest| self.microdescriptors.get(digest)));
        }
        None
    }
}

fn concatenate<'a>(parts: impl Iterator<Item = &'a (u64, Bytes)>) -> Option<Document> {
    let mut text = Vec::new();
    parts.for_each(|(_, part)| text.extend_from_slice(part));
    (!text.is_empty()).then(|| Document::Plain(text.into()))
}
