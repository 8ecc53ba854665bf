//! A client that blocks.

use std::time::Duration;

use reqwest::blocking::Client;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Reply {
    request: String,
    body: usize,
}

pub fn run() -> crate_uses::Result {
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
    Ok(())
}
