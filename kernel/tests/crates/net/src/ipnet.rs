//! Networks of IP addresses.

use ipnet::{IpNet, IpSub, Ipv4AddrRange, Ipv4Net, Ipv6Net};

pub fn run() -> crate_uses::Result {
    let net: Ipv4Net = "10.1.2.99/20".parse()?;
    println!("{net} {} {} {} {}", net.network(), net.broadcast(), net.netmask(), net.hosts().count());
    println!(
        "{:?} {:?}",
        net.trunc().supernet(),
        net.subnets(22)?.map(|net| net.to_string()).collect::<Vec<_>>()
    );
    println!(
        "{} {}",
        net.contains(&"10.1.15.255".parse::<std::net::Ipv4Addr>()?),
        net.is_sibling(&"10.1.16.0/20".parse()?)
    );
    let v6: Ipv6Net = "2001:db8::/33".parse()?;
    println!("{} {:?}", v6.subnets(35)?.last().ok_or("none")?, v6.network().saturating_sub(v6.broadcast()));
    let nets: Vec<IpNet> = ["10.0.0.0/24", "10.0.1.0/24", "10.0.1.0/25", "::/0"]
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    println!("{:?}", IpNet::aggregate(&nets));
    println!("{:?}", Ipv4AddrRange::new([10, 0, 0, 254].into(), [10, 0, 1, 1].into()).collect::<Vec<_>>());
    println!(
        "{:?} {:?}",
        "10.0.0.0/33".parse::<IpNet>().map_err(|error| error.to_string()),
        "x".parse::<Ipv6Net>().is_err()
    );
    Ok(())
}
