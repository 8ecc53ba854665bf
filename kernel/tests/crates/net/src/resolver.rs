//! The domain name system.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, MX, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::xfer::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

/// Messages of the domain name system.
pub fn hickory_proto() -> crate_uses::Result {
    let name: Name = "www.Example.org.".parse()?;
    let mut message = Message::new();
    message
        .set_id(0x1234)
        .set_message_type(MessageType::Response)
        .set_op_code(OpCode::Query)
        .set_recursion_desired(true);
    message.add_query(Query::query(name.clone(), RecordType::A));
    message.add_answer(Record::from_rdata(name.clone(), 300, RData::A(A(Ipv4Addr::new(192, 0, 2, 7)))));
    message.add_answer(Record::from_rdata(
        name.base_name(),
        60,
        RData::MX(MX::new(10, "mail.example.org.".parse()?)),
    ));
    message.add_additional(Record::from_rdata(
        name.clone(),
        5,
        RData::TXT(TXT::new(vec!["a b".to_owned(), "c".to_owned()])),
    ));
    let bytes = message.to_vec()?;
    println!("{bytes:02x?}");
    let again = Message::from_vec(&bytes)?;
    println!("{} {:?} {:?}", again.id(), again.response_code() == ResponseCode::NoError, again.queries());
    for record in again.answers().iter().chain(again.additionals()) {
        println!("{record} {}", record.dns_class() == DNSClass::IN);
    }
    println!("{} {}", name.to_lowercase(), Name::from_ascii("a.b.c")?.zone_of(&Name::from_ascii("x.a.b.c")?));
    println!("{:?} {}", Message::from_vec(&bytes[..20]).is_err(), "a".repeat(64).parse::<Name>().is_err());
    Ok(())
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Number of texts of `long.example`, which do not fit into a datagram.
const TEXTS: u32 = 50;

/// Data of the records of a name.
fn data(name: &str, kind: RecordType) -> Result<Option<Vec<RData>>, Error> {
    Ok(match (name, kind) {
        ("host.example.", RecordType::A) => {
            Some((1..4).map(|last| RData::A(A(Ipv4Addr::new(192, 0, 2, last)))).collect())
        }
        ("host.example.", RecordType::AAAA) => {
            Some(vec![RData::AAAA(AAAA("2001:db8::7".parse::<Ipv6Addr>()?))])
        }
        ("alias.example.", _) => Some(vec![RData::CNAME(CNAME("host.example.".parse()?))]),
        ("long.example.", RecordType::TXT) => {
            let text = |index| RData::TXT(TXT::new(vec![format!("text {index} {}", "x".repeat(100))]));
            Some((0..TEXTS).map(text).collect())
        }
        ("host.example." | "long.example.", _) => Some(Vec::new()),
        _ => None,
    })
}

/// The answer to a request; over UDP, without records that do not fit.
fn answer(request: &[u8], over_tcp: bool) -> Result<Vec<u8>, Error> {
    let request = Message::from_vec(request)?;
    let mut response = Message::new();
    response.set_id(request.id()).set_message_type(MessageType::Response).set_recursion_available(true);
    let query = request.queries().first().ok_or("no query")?.clone();
    let name = query.name().clone();
    let lower = name.to_lowercase().to_string();
    match data(&lower, query.query_type())? {
        None => drop(response.set_response_code(ResponseCode::NXDomain)),
        Some(records) if lower == "long.example." && !over_tcp => {
            response.set_truncated(!records.is_empty());
        }
        Some(records) => {
            for data in records {
                response.add_answer(Record::from_rdata(name.clone(), 300, data));
            }
            if lower == "alias.example." {
                let host: Name = "host.example.".parse()?;
                for data in data("host.example.", query.query_type())?.into_iter().flatten() {
                    response.add_answer(Record::from_rdata(host.clone(), 300, data));
                }
            }
        }
    }
    response.add_query(query);
    Ok(response.to_vec()?)
}

async fn serve_udp(socket: UdpSocket, requests: Arc<AtomicU32>) -> Result<(), Error> {
    let mut buffer = [0; 2048];
    loop {
        let (length, peer) = socket.recv_from(&mut buffer).await?;
        requests.fetch_add(1, Ordering::Relaxed);
        socket.send_to(&answer(&buffer[..length], false)?, peer).await?;
    }
}

async fn serve_tcp(listener: TcpListener) -> Result<(), Error> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut request = vec![0; stream.read_u16().await?.into()];
        stream.read_exact(&mut request).await?;
        let response = answer(&request, true)?;
        stream.write_u16(u16::try_from(response.len())?).await?;
        stream.write_all(&response).await?;
    }
}

fn resolver(address: SocketAddr) -> TokioResolver {
    let mut config = ResolverConfig::new();
    config.add_name_server(NameServerConfig::new(address, Protocol::Udp));
    config.add_name_server(NameServerConfig::new(address, Protocol::Tcp));
    let mut builder = TokioResolver::builder_with_config(config, TokioConnectionProvider::default());
    builder.options_mut().use_hosts_file = ::hickory_resolver::config::ResolveHosts::Never;
    builder.build()
}

/// Looks names up at a small server: addresses, texts, aliases, an absent name, and a server that truncates.
pub fn hickory_resolver() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        // A port that both protocols have.
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let requests = Arc::new(AtomicU32::new(0));
        tokio::spawn(serve_udp(UdpSocket::bind(address).await?, requests.clone()));
        tokio::spawn(serve_tcp(listener));
        let resolver = resolver(address);
        let mut addresses: Vec<IpAddr> = resolver.lookup_ip("host.example.").await?.iter().collect();
        addresses.sort_unstable();
        println!("{addresses:?}");
        let before = requests.load(Ordering::Relaxed);
        println!("{}", resolver.ipv4_lookup("HOST.example.").await?.iter().count());
        println!("from the cache: {}", requests.load(Ordering::Relaxed) == before);
        println!("{:?}", resolver.ipv6_lookup("alias.example.").await?.iter().collect::<Vec<_>>());
        println!("{}", resolver.txt_lookup("long.example.").await?.iter().count());
        let absent = resolver.lookup_ip("absent.example.").await.map(|_| ());
        println!("{:?}", absent.map_err(|error| (error.is_nx_domain(), error.is_no_records_found())));
        let empty = resolver.mx_lookup("host.example.").await.map(|_| ());
        println!("{:?}", empty.map_err(|error| (error.is_nx_domain(), error.is_no_records_found())));
        Ok(())
    })
}
