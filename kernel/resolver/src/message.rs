//! Queries, and the responses of servers (RFC 1035 §4), with EDNS0 (RFC 6891).
//!
//! A query has one question: a name, and the record type A or AAAA. Responses come from outside and are not
//! trusted. A message that does not answer the query, because its identifier or question differs, is ignored.
//! The addresses of a response are at the end of a chain of aliases, whose length is limited. A response
//! without addresses tells the caller what to do next ([`Response`]): ask again over TCP, ask without EDNS0,
//! ask another server, or report that the name does not exist.
//!
//! smoltcp implements this format, too. But it supports neither EDNS0 nor aliases, and would have to be
//! compiled for the kernel's target only for this purpose.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::name::Name;

/// Maximum number of aliases (CNAME records) between a name and its addresses.
pub const MAX_ALIASES: usize = 16;

/// Maximum size in bytes of a response over UDP. Queries with EDNS0 announce this size. A response of this
/// size is not fragmented on any IPv6 path (<https://www.dnsflagday.net/2020/>).
pub const MAX_DATAGRAM_LEN: u16 = 1232;

/// Size of a message's header in bytes.
const HEADER_LEN: usize = 12;

/// Size of a query's OPT record in bytes.
const OPT_LEN: usize = 11;

/// Size in bytes of the length field that precedes a message over TCP (RFC 1035 §4.2.2).
pub(crate) const LENGTH_LEN: usize = 2;

/// Maximum size of a query in bytes, with its length: header, name, type and class, OPT record.
const MAX_QUERY_LEN: usize = LENGTH_LEN + HEADER_LEN + 255 + 4 + OPT_LEN;

const CLASS_IN: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_OPT: u16 = 41;

/// Bits of the header's flags.
const RESPONSE: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const AUTHORITATIVE: u16 = 0x0400;
const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const RCODE: u16 = 0x000f;

/// Values of the header's response code.
const NO_ERROR: u16 = 0;
const FORMAT_ERROR: u16 = 1;
const NAME_ERROR: u16 = 3;
const NOT_IMPLEMENTED: u16 = 4;

/// Type of the wanted records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// IPv4 addresses.
    A = 1,
    /// IPv6 addresses (RFC 3596).
    Aaaa = 28,
}

/// A question for the addresses of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name.
    pub name: Name,
    /// The family of the addresses.
    pub record_type: RecordType,
}

/// A query, with the length that precedes it on TCP.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    bytes: [u8; MAX_QUERY_LEN],
    len: usize,
}

impl Query {
    /// Writes a query with an identifier, with or without EDNS0.
    #[must_use]
    pub fn new(question: &Question, id: u16, has_edns: bool) -> Self {
        let mut query = Self { bytes: [0; MAX_QUERY_LEN], len: LENGTH_LEN };
        let counts = [1, 0, 0, u16::from(has_edns)];
        query.put_all(&[id, RECURSION_DESIRED]);
        query.put_all(&counts);
        query.put(question.name.bytes());
        query.put_all(&[question.record_type as u16, CLASS_IN]);
        if has_edns {
            // The root's name; the size of a datagram in place of the class; no extended flags, no options.
            query.put(&[0]);
            query.put_all(&[TYPE_OPT, MAX_DATAGRAM_LEN, 0, 0, 0]);
        }
        let len = u16::try_from(query.datagram().len()).unwrap_or(0).to_be_bytes();
        query.bytes.iter_mut().zip(len).for_each(|(byte, len)| *byte = len);
        query
    }

    fn put_all(&mut self, fields: &[u16]) {
        fields.iter().for_each(|field| self.put(&field.to_be_bytes()));
    }

    /// Appends bytes. There is always room, since [`MAX_QUERY_LEN`] is the sum of the longest fields.
    fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
            self.len = end;
        }
    }

    /// The query as a datagram.
    #[must_use]
    pub fn datagram(&self) -> &[u8] {
        self.stream().get(LENGTH_LEN..).unwrap_or_default()
    }

    /// The query with its length, for TCP.
    #[must_use]
    pub fn stream(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Response of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Addresses of the name, at least one.
    Addresses(Vec<IpAddr>),
    /// The name exists, but has no such address.
    NoData,
    /// The name does not exist (NXDOMAIN).
    NoName,
    /// The response was longer than a datagram.
    Truncated,
    /// The server does not know EDNS0 (RFC 6891 §7).
    NoEdns,
    /// The server cannot answer, or its response cannot be read.
    Failure,
    /// There is no memory for the addresses.
    NoMemory,
}

/// A message that has a header.
#[derive(Clone, Copy)]
struct Message<'a>(&'a [u8]);

/// A record of a response.
struct Record<'a> {
    owner: Name,
    record_type: u16,
    class: u16,
    data: &'a [u8],
    /// Offset of the data in the message.
    data_offset: usize,
    end: usize,
}

impl<'a> Message<'a> {
    fn field(self, offset: usize) -> Option<u16> {
        self.0.get(offset..)?.first_chunk().map(|&bytes| u16::from_be_bytes(bytes))
    }

    /// Reads the question. Also returns the offset of the records.
    fn question(self) -> Option<(Name, u16, usize)> {
        let (name, end) = Name::read(self.0, HEADER_LEN)?;
        let is_internet = self.field(end + 2)? == CLASS_IN;
        is_internet.then_some((name, self.field(end)?, end + 4))
    }

    fn record(self, offset: usize) -> Option<Record<'a>> {
        let (owner, fields) = Name::read(self.0, offset)?;
        // Type, class, time to live, length of the data.
        let data_offset = fields + 10;
        let end = data_offset + usize::from(self.field(fields + 8)?);
        let data = self.0.get(data_offset..end)?;
        let (record_type, class) = (self.field(fields)?, self.field(fields + 2)?);
        Some(Record { owner, record_type, class, data, data_offset, end })
    }
}

/// Reads the response to a query with this identifier. Returns `None` if the message is not a response to the
/// query, for example because it is forged or late (RFC 5452 §9.1). The caller must ignore such a message.
///
/// If the record of an alias precedes the record that leads to it, the answer section is read again. So it is
/// read at most 17 times. Other sections are not read.
#[must_use]
pub fn parse_response(bytes: &[u8], id: u16, question: &Question) -> Option<Response> {
    let message = Message(bytes);
    let flags = message.field(2)?;
    if message.field(0)? != id || flags & RESPONSE == 0 || flags & OPCODE != 0 {
        return None;
    }
    let code = flags & RCODE;
    let records = match message.field(4)? {
        // A server that cannot read a query does not repeat the question in its response.
        0 if code != NO_ERROR && code != NAME_ERROR => HEADER_LEN,
        1 => {
            let (name, record_type, records) = message.question()?;
            let is_same = name == question.name && record_type == question.record_type as u16;
            is_same.then_some(records)?
        }
        _ => return None,
    };
    Some(match code {
        NO_ERROR | NAME_ERROR if flags & TRUNCATED != 0 => Response::Truncated,
        NO_ERROR => addresses(message, flags, records, question),
        NAME_ERROR => Response::NoName,
        FORMAT_ERROR | NOT_IMPLEMENTED => Response::NoEdns,
        _ => Response::Failure,
    })
}

/// Returns the addresses in a response without an error.
fn addresses(message: Message<'_>, flags: u16, records: usize, question: &Question) -> Response {
    let count = message.field(6).unwrap_or(0);
    if count == 0 && flags & (AUTHORITATIVE | RECURSION_AVAILABLE) == 0 {
        // The server only refers to other servers, which this resolver does not ask.
        return Response::Failure;
    }
    let mut search = Search { name: question.name, aliases: 0, found: Vec::new() };
    loop {
        let before = search.aliases;
        let mut offset = records;
        for _ in 0..count {
            let Some(record) = message.record(offset) else { return Response::Failure };
            offset = record.end;
            match search.take(message, &record, question.record_type) {
                Ok(()) => {}
                Err(response) => return response,
            }
        }
        if !search.found.is_empty() {
            return Response::Addresses(search.found);
        }
        // Records of an alias usually follow it, but need not (RFC 1034 §3.6).
        if search.aliases == before {
            return Response::NoData;
        }
    }
}

/// Search for the addresses of a name among records.
struct Search {
    /// The name, or the target of its aliases as far as they are known.
    name: Name,
    aliases: usize,
    found: Vec<IpAddr>,
}

impl Search {
    /// Takes a record. Ignores records of other names.
    fn take(
        &mut self,
        message: Message<'_>,
        record: &Record<'_>,
        wanted: RecordType,
    ) -> Result<(), Response> {
        if record.class != CLASS_IN || record.owner != self.name {
            return Ok(());
        }
        if record.record_type == TYPE_CNAME {
            let (target, _) = Name::read(message.0, record.data_offset).ok_or(Response::Failure)?;
            (self.name, self.aliases) = (target, self.aliases + 1);
            return if self.aliases > MAX_ALIASES { Err(Response::Failure) } else { Ok(()) };
        }
        if record.record_type != wanted as u16 {
            return Ok(());
        }
        let address = match wanted {
            RecordType::A => <[u8; 4]>::try_from(record.data).map(IpAddr::from),
            RecordType::Aaaa => <[u8; 16]>::try_from(record.data).map(IpAddr::from),
        };
        self.found.try_reserve(1).map_err(|_| Response::NoMemory)?;
        self.found.push(address.map_err(|_| Response::Failure)?);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{MAX_ALIASES, Query, Question, RecordType, Response, parse_response};
    use crate::name::Name;
    use core::net::{IpAddr, Ipv4Addr};
    use proptest::prelude::*;
    use std::format;
    use std::vec::Vec;

    pub(crate) fn name(text: &str) -> Name {
        Name::from_text(text.as_bytes()).unwrap()
    }

    pub(crate) fn question(text: &str) -> Question {
        Question { name: name(text), record_type: RecordType::A }
    }

    /// A response that is built record by record.
    pub(crate) struct Builder(pub(crate) Vec<u8>);

    impl Builder {
        /// The response to a query, with flags besides those of each response.
        pub(crate) fn to(query: &[u8], flags: u16) -> Self {
            let [high, low] = (0x8180 | flags).to_be_bytes();
            // Without the query's OPT record.
            let (_, end) = Name::read(query, 12).unwrap();
            let mut bytes = Vec::from(&query[..end + 4]);
            bytes[2..12].copy_from_slice(&[high, low, 0, 1, 0, 0, 0, 0, 0, 0]);
            Self(bytes)
        }

        pub(crate) fn record(mut self, owner: &Name, record_type: u16, data: &[u8]) -> Self {
            self.0.extend(owner.bytes());
            self.0.extend(record_type.to_be_bytes());
            self.0.extend([0, 1, 0, 0, 0, 60]);
            self.0.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            self.0.extend(data);
            let count = u16::from_be_bytes([self.0[6], self.0[7]]) + 1;
            self.0[6..8].copy_from_slice(&count.to_be_bytes());
            self
        }

        pub(crate) fn alias(self, owner: &str, target: &str) -> Self {
            self.record(&name(owner), 5, name(target).bytes())
        }

        pub(crate) fn address(self, owner: &str, last: u8) -> Self {
            self.record(&name(owner), 1, &[10, 0, 0, last])
        }
    }

    fn response(flags: u16) -> Builder {
        Builder::to(Query::new(&question("a.test"), 7, false).datagram(), flags)
    }

    fn parsed(builder: &Builder) -> Option<Response> {
        parse_response(&builder.0, 7, &question("a.test"))
    }

    fn addresses(last: impl IntoIterator<Item = u8>) -> Option<Response> {
        let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        Some(Response::Addresses(last.into_iter().map(address).collect()))
    }

    #[test]
    fn query_is_that_of_the_rfc() {
        let query = Query::new(&question("a.test"), 0x1234, false);
        let plain = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01";
        assert_eq!(query.datagram(), plain);
        assert_eq!(query.stream()[..2], [0, 24]);
        let query = Query::new(&question("a.test"), 0x1234, true);
        assert!(query.datagram().ends_with(b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"));
        assert_eq!((query.datagram()[11], query.datagram().len(), query.stream()[1]), (1, 35, 35));
    }

    #[test]
    fn longest_query_fits() {
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "a".repeat(61));
        assert_eq!(Query::new(&question(&longest), 1, true).datagram().len(), 12 + 255 + 4 + 11);
    }

    #[test]
    fn all_addresses_are_returned_in_order() {
        let all = (0..=254).fold(response(0), |response, last| response.address("A.Test", last));
        assert_eq!(parsed(&all), addresses(0..=254));
    }

    #[test]
    fn addresses_of_other_names_and_types_are_ignored() {
        let other = response(0).address("b.test", 1).record(&name("a.test"), 16, b"\x01x");
        assert_eq!(parsed(&other), Some(Response::NoData));
        assert_eq!(parsed(&other.address("a.test", 2)), addresses([2]));
    }

    #[test]
    fn aliases_are_followed_in_any_order() {
        let forward = response(0).alias("a.test", "b.test").alias("b.test", "c.test").address("c.test", 3);
        assert_eq!(parsed(&forward), addresses([3]));
        let backward = response(0).address("c.test", 3).alias("b.test", "c.test").alias("a.test", "b.test");
        assert_eq!(parsed(&backward), addresses([3]));
        assert_eq!(parsed(&response(0).alias("a.test", "b.test")), Some(Response::NoData));
    }

    /// A chain of so many aliases, each after the one that it leads to, then an address.
    fn chain(count: usize) -> Builder {
        let at = |index| if index == 0 { "a.test".into() } else { format!("n{index}.test") };
        let links = (0..count).rev();
        links
            .fold(response(0), |response, index| response.alias(&at(index), &at(index + 1)))
            .address(&at(count), 9)
    }

    #[test]
    fn chains_of_aliases_are_bounded() {
        assert_eq!(parsed(&chain(MAX_ALIASES)), addresses([9]));
        assert_eq!(parsed(&chain(MAX_ALIASES + 1)), Some(Response::Failure));
        let circle = response(0).alias("a.test", "b.test").alias("b.test", "a.test");
        assert_eq!(parsed(&circle), Some(Response::Failure));
    }

    #[test]
    fn responses_to_other_queries_are_ignored() {
        let valid = response(0).address("a.test", 1).0;
        for (offset, value) in
            [(0, 1), (1, 8), (2, 0x01), (2, 0x89), (5, 0), (5, 2), (13, b'b'), (21, 28), (23, 3)]
        {
            let mut other = valid.clone();
            other[offset] = value;
            assert_eq!(parsed(&Builder(other)), None, "byte {offset}");
        }
        for len in 0..24 {
            assert_eq!(parsed(&Builder(valid[..len].into())), None, "{len} bytes");
        }
    }

    #[test]
    fn codes_of_responses() {
        let codes = [
            (0, Response::NoData),
            (1, Response::NoEdns),
            (2, Response::Failure),
            (3, Response::NoName),
            (4, Response::NoEdns),
            (5, Response::Failure),
            (0x200, Response::Truncated),
        ];
        for (code, expected) in codes {
            assert_eq!(parsed(&response(code)), Some(expected), "{code}");
        }
        let bare = Builder(b"\x00\x07\x81\x81\x00\x00\x00\x00\x00\x00\x00\x00".into());
        assert_eq!(parsed(&bare), Some(Response::NoEdns));
    }

    #[test]
    fn referrals_are_failures() {
        let mut referral = response(0);
        referral.0[3] = 0;
        assert_eq!(parsed(&referral), Some(Response::Failure));
        referral.0[2] |= 4;
        assert_eq!(parsed(&referral), Some(Response::NoData));
    }

    #[test]
    fn damaged_records_are_failures() {
        let valid = response(0).address("a.test", 1).address("a.test", 2).0;
        for len in 24..valid.len() {
            assert_eq!(parsed(&Builder(valid[..len].into())), Some(Response::Failure), "{len} bytes");
        }
        let short = response(0).record(&name("a.test"), 1, &[1, 2, 3]);
        assert_eq!(parsed(&short), Some(Response::Failure));
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_response_or_none(bytes: Vec<u8>, damage: Vec<(u8, u8)>) {
            let _ = parse_response(&bytes, 0, &question("a.test"));
            let mut valid = response(0).alias("a.test", "b.test").address("b.test", 1).0;
            valid.extend(&bytes);
            for (offset, value) in damage {
                let offset = usize::from(offset) % valid.len();
                valid[offset] = value;
            }
            if let Some(Response::Addresses(found)) = parse_response(&valid, 7, &question("a.test")) {
                prop_assert!(!found.is_empty() && found.len() <= valid.len() / 14);
            }
        }
    }
}
