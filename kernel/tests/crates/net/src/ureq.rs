//! A client without an asynchronous runtime.

use std::time::Duration;

use ureq::{Agent, Error};

pub fn run() -> crate_uses::Result {
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
