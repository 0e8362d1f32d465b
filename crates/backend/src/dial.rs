//! Connects to a server's address.

use std::io;
use std::net::SocketAddr;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;
use crate::stream::Stream;

/// Connects. The caller bounds the time.
pub async fn dial(address: &Address) -> io::Result<Stream> {
    match address {
        Address::Unix(path) => UnixStream::connect(path).await?.try_into(),
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            tune(&stream)?;
            Ok(stream.into())
        }
    }
}

/// Connects to the first of these that accepts. The caller bounds the time.
pub async fn dial_any(addresses: &[SocketAddr]) -> io::Result<Stream> {
    let stream = TcpStream::connect(addresses).await?;
    tune(&stream)?;
    Ok(stream.into())
}

/// Small packets go out at once, and a peer that has vanished is noticed.
pub fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new())
}
