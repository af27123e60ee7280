//! Questions over HTTP to services on this host or near it.

use std::time::Duration;

/// Answers larger than this are not read to their end.
const LARGEST_ANSWER: u64 = 8 * 1024 * 1024;

/// Asks a URL with GET: the status and the body. The error says why there was no answer.
pub fn get(url: &str, patience: Duration) -> Result<(u16, String), String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(patience))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .build()
        .into();
    let mut answer = agent.get(url).call().map_err(|error| error.to_string())?;
    let body = answer.body_mut().with_config().limit(LARGEST_ANSWER).read_to_vec();
    let body = body.map_err(|error| error.to_string())?;
    Ok((answer.status().as_u16(), String::from_utf8_lossy(&body).into_owned()))
}

/// A URL as it is written after `http:`; the scheme need not be written twice.
pub fn url(text: &str) -> String {
    if text.starts_with("//") { format!("http:{text}") } else { text.to_owned() }
}
