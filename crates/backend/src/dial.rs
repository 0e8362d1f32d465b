//! Connects to a server's address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use socket2::{Domain, SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;
use crate::stream::Stream;

/// Connects. The caller bounds the time.
pub async fn dial(address: &Address) -> io::Result<Stream> {
    #[cfg(feature = "simulation")]
    if let Some(stream) = simulated::dial(address).await {
        return stream;
    }
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

/// A network that is no kernel's.
#[cfg(feature = "simulation")]
pub mod simulated {
    use std::cell::RefCell;
    use std::io;
    use std::pin::Pin;
    use std::sync::Arc;

    use crate::address::Address;
    use crate::stream::Stream;

    type Dialling = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;
    type Network = Arc<dyn Fn(&Address) -> Dialling + Send + Sync>;

    thread_local! {
        static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
    }

    /// Has connections of this thread opened by this network.
    pub fn enter(network: impl Fn(&Address) -> Dialling + Send + Sync + 'static) {
        NETWORK.set(Some(Arc::new(network)));
    }

    /// Connects, if this thread has such a network.
    pub(super) async fn dial(address: &Address) -> Option<io::Result<Stream>> {
        let network = NETWORK.with_borrow(Clone::clone)?;
        Some(network(address).await)
    }
}

/// How the kernel asks a peer that says nothing whether it is there still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// After so long without a byte it is asked first, and then in this interval.
    idle: Duration,
    interval: Duration,
    /// It is gone when so many were not answered.
    count: u32,
}

impl Probes {
    /// Those that find out within so long that the peer is gone; `None`: those that Linux makes by default, after two
    /// hours.
    pub fn within(silence: Option<Duration>) -> Self {
        let seconds = Duration::from_secs;
        let Some(silence) = silence else {
            return Self { idle: seconds(7200), interval: seconds(75), count: 9 };
        };
        // The kernel counts in seconds, and knows bounds of its own.
        let all = silence.as_secs().clamp(1 + u64::from(COUNT), IDLE_MAX);
        let interval = (all / (2 * u64::from(COUNT))).max(1);
        let idle = all - interval * u64::from(COUNT);
        Self { idle: seconds(idle), interval: seconds(interval), count: COUNT }
    }

    /// Has the peer of this connection asked so.
    pub fn set_on(&self, stream: &Stream) -> io::Result<()> {
        stream.as_fd().map_or(Ok(()), |socket| self.set(socket))
    }

    /// Has a connection's peer asked so, or those of all that a listener accepts from now on. Does nothing where the
    /// peer is a process of this machine.
    pub fn set(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = SockRef::from(&socket);
        if socket.domain()? == Domain::UNIX {
            return Ok(());
        }
        let keepalive = TcpKeepalive::new().with_time(self.idle);
        let keepalive = keepalive.with_interval(self.interval).with_retries(self.count);
        socket.set_tcp_keepalive(&keepalive)
    }
}

const COUNT: u32 = 3;
const IDLE_MAX: u64 = 32_767;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_come_to_their_end_within_the_silence() {
        for silence in [5, 6, 7, 13, 40, 3600, 32_000] {
            let probes = Probes::within(Some(Duration::from_secs(silence)));
            let end = probes.idle + probes.interval * probes.count;
            assert_eq!(end.as_secs(), silence, "{probes:?}");
            assert!(probes.idle >= probes.interval && !probes.interval.is_zero(), "{probes:?}");
        }
    }
}
