//! gRPC: calls with one message, a stream from the server and one in both directions; errors, metadata and
//! deadlines; options of connections.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::tonic::body::Body;
use ::tonic::client::Grpc as Client;
use ::tonic::codec::Streaming;
use ::tonic::codegen::http::uri::PathAndQuery;
use ::tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use ::tonic::server::{Grpc as Server, NamedService};
use ::tonic::transport::{Channel, server::TcpIncoming};
use ::tonic::{Code, Request, Response, Status};
use ::tower::service_fn;
use tokio_stream::StreamExt;
use tonic_prost::ProstCodec;

/// Number of messages in a stream.
const COUNT: u32 = 200;

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(uint32, tag = "2")]
    number: u32,
}

fn text(text: &str, number: u32) -> Text {
    Text { text: text.to_owned(), number }
}

type Codec = ProstCodec<Text, Text>;
type Replies = Pin<Box<dyn tokio_stream::Stream<Item = Result<Text, Status>> + Send>>;

/// A service with three methods, as `tonic-build` generates them.
#[derive(Clone)]
struct Service;

impl NamedService for Service {
    const NAME: &'static str = "example.Service";
}

async fn greet(request: Request<Text>) -> Result<Response<Text>, Status> {
    let language =
        request.metadata().get("x-language").and_then(|value| value.to_str().ok()).unwrap_or("none");
    let reply = format!("hello {}, {language}", request.get_ref().text);
    match request.get_ref().number {
        0 => Err(Status::invalid_argument("a number must not be 0")),
        1 => std::future::pending().await,
        number => Ok(Response::new(text(&reply, number * 2))),
    }
}

async fn count(request: Request<Text>) -> Result<Response<Replies>, Status> {
    let last = request.into_inner().number;
    let replies = (0..last).map(|number| Ok(text(&"y".repeat(1000), number)));
    let end = std::iter::once(Err(Status::out_of_range("no more")));
    Ok(Response::new(Box::pin(tokio_stream::iter(replies.chain(end)))))
}

async fn double(request: Request<Streaming<Text>>) -> Result<Response<Replies>, Status> {
    let doubled = request.into_inner().map(|text| text.map(|text| Text { number: text.number * 2, ..text }));
    Ok(Response::new(Box::pin(doubled)))
}

impl ::tower::Service<HttpRequest<Body>> for Service {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        Box::pin(async move {
            let mut server = Server::new(Codec::default());
            Ok(match request.uri().path() {
                "/example.Service/Greet" => server.unary(service_fn(greet), request).await,
                "/example.Service/Count" => server.server_streaming(service_fn(count), request).await,
                "/example.Service/Double" => server.streaming(service_fn(double), request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

fn path(method: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(method)
}

async fn greeted(client: &mut Client<Channel>, request: Request<Text>) -> Result<Text, Status> {
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    Ok(client.unary(request, path("/example.Service/Greet"), Codec::default()).await?.into_inner())
}

/// Prints the keep-alive options of an accepted connection.
async fn keep_alive() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let second = |number| Some(Duration::from_secs(number));
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let mut incoming = incoming
        .with_keepalive(second(70))
        .with_keepalive_interval(second(7))
        .with_keepalive_retries(Some(3));
    let _client = tokio::net::TcpStream::connect(incoming.local_addr()?).await?;
    let stream = incoming.next().await.ok_or("no connection")??;
    let socket = socket2::SockRef::from(&stream);
    let times = (socket.tcp_keepalive_time()?, socket.tcp_keepalive_interval()?);
    println!("{} {times:?} {}", socket.keepalive()?, socket.tcp_keepalive_retries()?);
    Ok(())
}

async fn talk() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    let address = incoming.local_addr()?;
    tokio::spawn(::tonic::transport::Server::builder().add_service(Service).serve_with_incoming(incoming));
    let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = Client::new(channel);
    let mut request = Request::new(text("wörld", 21));
    request.metadata_mut().insert("x-language", "en".parse()?);
    println!("{:?}", greeted(&mut client, request).await?);
    let failed = greeted(&mut client, Request::new(text("", 0))).await;
    println!("{:?}", failed.map_err(|status| (status.code(), status.message().to_owned())));
    let mut late = Request::new(text("", 1));
    late.set_timeout(Duration::from_millis(20));
    // Client and server both have the deadline; the first to notice names the error.
    let expired = greeted(&mut client, late).await.map_err(|status| status.code());
    println!("{}", matches!(expired, Err(Code::Cancelled | Code::DeadlineExceeded)));
    let calls = (2..50).map(|number| {
        let mut client = client.clone();
        tokio::spawn(async move { greeted(&mut client, Request::new(text("", number))).await })
    });
    let mut sum = 0;
    for call in calls.collect::<Vec<_>>() {
        sum += call.await??.number;
    }
    println!("{sum}");
    client.ready().await?;
    let request = Request::new(text("", COUNT));
    let replies = client.server_streaming(request, path("/example.Service/Count"), Codec::default()).await?;
    let mut replies = replies.into_inner();
    let mut received = Vec::new();
    let end = loop {
        match replies.message().await {
            Ok(Some(text)) => received.push(text.number),
            Ok(None) => break Code::Ok,
            Err(status) => break status.code(),
        }
    };
    println!("{} {} {end:?}", received.len(), received.is_sorted());
    client.ready().await?;
    let texts = Request::new(tokio_stream::iter((0..COUNT).map(|number| text("both ways", number))));
    let doubled = client.streaming(texts, path("/example.Service/Double"), Codec::default()).await?;
    let doubled: Vec<Text> = doubled.into_inner().collect::<Result<_, _>>().await?;
    println!("{} {:?}", doubled.len(), doubled.last());
    client.ready().await?;
    let absent: Result<Response<Text>, _> =
        client.unary(Request::new(text("", 2)), path("/example.Service/Absent"), Codec::default()).await;
    println!("{:?}", absent.map(|_| ()).map_err(|status| status.code()));
    keep_alive().await
}

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(talk())
}
