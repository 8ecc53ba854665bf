//! Clients of HTTP.

use std::time::Duration;

use reqwest::blocking::Client;
use serde::Deserialize;
use ureq::{Agent, Error};

use crate::certificate::Certificate;

#[derive(Debug, Deserialize)]
struct Reply {
    request: String,
    body: usize,
}

/// A client that blocks.
pub fn reqwest() -> crate_uses::Result {
    let address = crate::server::start()?;
    let client = Client::builder().timeout(Duration::from_secs(60)).no_proxy().build()?;
    let response = client.get(format!("http://{address}/a b")).query(&[("key", "välue")]).send()?;
    println!("{} {:?} {:?}", response.status(), response.headers()["x-name"], response.content_length());
    println!("{:?}", response.json::<Reply>()?);
    let posted =
        client.post(format!("http://{address}/post")).json(&[1, 2, 3]).bearer_auth("token").send()?;
    println!("{:?}", posted.json::<Reply>()?);
    let missing = client.put(format!("http://{address}/missing")).body(vec![0; 10_000]).send()?;
    println!("{:?} {:?}", missing.status(), missing.error_for_status().is_err());
    let refused = client.get("http://127.0.0.1:1/").send();
    println!("{:?}", refused.map(|_| ()).map_err(|error| (error.is_connect(), error.is_timeout())));
    encrypted()
}

/// Requests by HTTPS, of a server whose certificate the client trusts, or not.
fn encrypted() -> crate_uses::Result {
    let certificate = Certificate::new()?;
    let port = crate::server::start_tls(certificate.server(&["http/1.1"])?)?.port();
    let root = ::reqwest::Certificate::from_der(&certificate.certificate)?;
    let client = Client::builder().add_root_certificate(root).https_only(true).no_proxy();
    let client = client.resolve("localhost", ([127, 0, 0, 1], port).into()).build()?;
    for path in ["one", "two"] {
        let response =
            client.post(format!("https://localhost:{port}/{path}")).body(vec![1; 100_000]).send()?;
        println!("{:?} {:?}", response.version(), response.json::<Reply>()?);
    }
    println!("{}", client.get(format!("http://localhost:{port}/")).send().is_err());
    let stranger = Client::builder().no_proxy().build()?;
    println!(
        "{:?}",
        stranger.get(format!("https://127.0.0.1:{port}/")).send().is_err_and(|error| error.is_connect())
    );
    Ok(())
}

/// A client without an asynchronous runtime.
pub fn ureq() -> crate_uses::Result {
    let address = crate::server::start()?;
    let agent: Agent = Agent::config_builder().timeout_global(Some(Duration::from_secs(60))).build().into();
    let mut response =
        agent.get(format!("http://{address}/path")).query("key", "a b").header("X-More", "1").call()?;
    println!("{} {:?}", response.status(), response.headers().get("x-name"));
    println!("{}", response.body_mut().read_to_string()?);
    let mut posted = agent.post(format!("http://{address}/post")).send(vec![b'x'; 5000].as_slice())?;
    println!("{}", posted.body_mut().read_to_string()?);
    match agent.get(format!("http://{address}/missing")).call() {
        Err(Error::StatusCode(code)) => println!("status {code}"),
        other => println!("{other:?}"),
    }
    println!(
        "{}",
        matches!(agent.get("http://127.0.0.1:1/").call(), Err(Error::Io(_) | Error::ConnectionFailed))
    );
    Ok(())
}
