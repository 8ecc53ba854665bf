//! Messages of the domain name system.

use std::net::Ipv4Addr;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, MX, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

pub fn run() -> crate_uses::Result {
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
