//! Streams with TLS: the same promises, and those that only TLS has to keep.

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use super::*;
use crate::tls::{ForBackends, ForClients, Mode};

fn server() -> Arc<rustls::ServerConfig> {
    ForClients::default().config().unwrap()
}

fn client() -> Arc<rustls::ClientConfig> {
    ForBackends { mode: Mode::Required, ..ForBackends::default() }.config().unwrap().unwrap()
}

fn name() -> ServerName<'static> {
    "db.example".try_into().unwrap()
}

/// Begins TLS on both ends; the near one is the client.
async fn secured((near, far): (Stream, Stream)) -> (Stream, Stream) {
    let shake =
        async { tokio::join!(near.connect_tls(client(), name()), far.accept_tls(server(), &[])) };
    let (near, far) = timeout(PATIENCE, shake).await.expect("the handshake hangs");
    let (near, far) = (near.unwrap(), far.unwrap());
    // The tickets that a server sends behind the handshake are not what is tested.
    far.write_all(b"!").await.unwrap();
    assert_eq!(read(&near, 8).await, b"!");
    near.socket.reads.set(0);
    far.socket.reads.set(0);
    (near, far)
}

/// The bytes between two ends, in the hands of an attacker in the network path.
struct Between {
    near: UnixStream,
    far: UnixStream,
}

fn between() -> (Stream, Between, Stream) {
    let (near, near_way) = UnixStream::pair().unwrap();
    let (far_way, far) = UnixStream::pair().unwrap();
    (near.try_into().unwrap(), Between { near: near_way, far: far_way }, far.try_into().unwrap())
}

impl Between {
    /// Passes everything on, `step` bytes at a time, until it is aborted.
    fn relay(self, step: usize) -> JoinHandle<()> {
        async fn pass(
            mut from: impl AsyncReadExt + Unpin,
            mut to: impl AsyncWriteExt + Unpin,
            step: usize,
        ) {
            let mut buffer = vec![0; step];
            while let Ok(read @ 1..) = from.read(&mut buffer).await {
                to.write_all(&buffer[..read]).await.unwrap();
                // Each piece is seen alone.
                tokio::task::yield_now().await;
            }
        }
        tokio::spawn(async move {
            let (near_from, near_to) = self.near.into_split();
            let (far_from, far_to) = self.far.into_split();
            tokio::join!(pass(near_from, far_to, step), pass(far_from, near_to, step));
        })
    }
}

#[tokio::test]
async fn much_passes_in_both_directions_at_once() {
    for pair in both().await {
        let (near, far) = secured(pair).await;
        exchange_much(near, far).await;
    }
}

#[tokio::test]
async fn nothing_is_lost_in_any_order() {
    for pair in both().await {
        let (near, far) = secured(pair).await;
        for seed in 0..100 {
            act_at_random(&near, &far, seed).await;
        }
    }
}

#[tokio::test]
async fn bytes_may_come_one_by_one() {
    let (near, way, far) = between();
    let relay = way.relay(1);
    let (near, far) = secured((near, far)).await;
    for _ in 0..3 {
        near.write_all(b"select 1").await.unwrap();
        assert_eq!(read(&far, 64).await, b"select 1");
        far.write_all(b"a row").await.unwrap();
        assert_eq!(read(&near, 64).await, b"a row");
    }
    // A way that is cut without a farewell is an end like any other: MySQL's packets say their own
    // length.
    relay.abort();
    assert_eq!(read(&near, 64).await, b"");
    assert_eq!(read(&far, 64).await, b"");
}

#[tokio::test]
async fn a_message_costs_one_read_and_an_idle_session_no_buffer() {
    let (near, far) = secured(tcp().await).await;
    for _ in 0..100 {
        near.write_all(b"select 1").await.unwrap();
        assert_eq!(read(&far, 64).await, b"select 1");
        far.write_all(b"a row").await.unwrap();
        assert_eq!(read(&near, 64).await, b"a row");
    }
    assert_eq!((near.socket.reads.get(), far.socket.reads.get()), (100, 100));
    for stream in [&near, &far] {
        assert_eq!(stream.tls.as_ref().unwrap().buffered(), 0);
    }
}

#[tokio::test]
async fn what_is_decrypted_is_announced() {
    let (near, far) = secured(unix()).await;
    far.write_all(b"0123456789").await.unwrap();
    assert_eq!(read(&near, 4).await, b"0123");
    assert!(is_readable(&near));
    assert_eq!(read(&near, 4).await, b"4567");
    assert!(is_readable(&near));
    assert_eq!(read(&near, 4).await, b"89");
    assert!(!is_readable(&near));
    assert_eq!(near.socket.reads.get(), 1);
    // Many records that were read at once, and more than the buffer holds.
    for _ in 0..50 {
        far.write_all(&[7; 1000]).await.unwrap();
    }
    let mut left = 50_000;
    while left > 0 {
        let bytes = read(&near, 600).await;
        assert!(bytes.iter().all(|byte| *byte == 7));
        left -= bytes.len();
        // Without another look of the event loop.
        assert_eq!(is_readable(&near), left > 0, "{left} left");
    }
    assert_eq!(near.tls.as_ref().unwrap().buffered(), 0);
}

#[tokio::test]
async fn what_is_decrypted_can_be_set_aside() {
    let (near, far) = secured(unix()).await;
    far.write_all(b"0123456789").await.unwrap();
    assert_eq!(read(&near, 4).await, b"0123");
    // Some in the session, some in the kernel.
    far.write_all(b"abc").await.unwrap();
    until(|| is_readable(&near)).await;
    near.clear_readable();
    assert!(!is_readable(&near));
    assert_eq!(read_now(&near, 6), b"456789");
    assert!(is_readable(&near), "the kernel's part is lost");
    assert_eq!(read_now(&near, 6), b"abc");
    assert!(!is_readable(&near));
    // A peer that goes is noticed all the same.
    far.write_all(b"last words").await.unwrap();
    assert_eq!(read(&near, 4).await, b"last");
    near.clear_readable();
    assert!(!near.hung_up());
    drop(far);
    timeout(PATIENCE, near.readable()).await.expect("no wake-up").unwrap();
    assert!(near.hung_up());
    assert_eq!(read(&near, 64).await, b" words");
    assert_eq!(read(&near, 64).await, b"");
}

fn read_now(stream: &Stream, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    let read = stream.try_read(&mut buffer).unwrap();
    buffer.truncate(read);
    buffer
}

#[tokio::test]
async fn a_peer_that_does_not_read_stops_the_writer() {
    for pair in both().await {
        let (near, far) = secured(pair).await;
        let chunk = [7; 256 << 10];
        let mut written = 0;
        loop {
            match near.try_write(&chunk) {
                Ok(taken) => {
                    assert!((1..=64 << 10).contains(&taken));
                    written += taken;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(near.wants_flush());
        assert!(would_block(&near.try_flush()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(near.poll_writable(&mut context).is_pending());
        // Nothing more is taken, so what waits inside stays as it is.
        assert!(would_block(&near.try_write(b"x")));
        let read_all = async {
            let mut left = written;
            while left > 0 {
                left -= read(&far, 64 << 10).await.len();
            }
        };
        tokio::join!(read_all, near.flush()).1.unwrap();
        assert!(!near.wants_flush());
        let slices = [IoSlice::new(b"go"), IoSlice::new(b" on")];
        assert_eq!(near.try_write_vectored(&slices).unwrap(), 5);
        assert_eq!(read(&far, 64).await, b"go on");
    }
}

#[tokio::test]
async fn each_side_can_end_and_still_listen() {
    for pair in both().await {
        let (near, far) = secured(pair).await;
        near.write_all(b"question").await.unwrap();
        near.shutdown();
        assert_eq!(read(&far, 64).await, b"question");
        assert_eq!(read(&far, 64).await, b"");
        far.write_all(b"answer").await.unwrap();
        drop(far);
        assert_eq!(read(&near, 64).await, b"answer");
        assert_eq!(read(&near, 64).await, b"");
    }
}

#[tokio::test]
async fn keys_may_be_renewed() {
    let (near, far) = secured(unix()).await;
    for _ in 0..3 {
        near.tls.as_ref().unwrap().renew_keys();
        near.write_all(b"select 1").await.unwrap();
        assert_eq!(read(&far, 64).await, b"select 1");
        far.write_all(b"a row").await.unwrap();
        assert_eq!(read(&near, 64).await, b"a row");
    }
}

/// As [`secured`], with the way in hand afterwards.
async fn secured_by_hand() -> (Stream, Between, Stream) {
    let (near, mut way, far) = between();
    let shake = secured((near, far));
    let pass = tokio::io::copy_bidirectional(&mut way.near, &mut way.far);
    let (near, far) = tokio::select! {
        biased;
        ends = shake => ends,
        _ = pass => unreachable!("nobody has closed"),
    };
    (near, way, far)
}

#[tokio::test]
async fn a_farewell_is_said_and_heard() {
    let (near, mut way, far) = secured_by_hand().await;
    near.write_all(b"last words").await.unwrap();
    drop(near);
    let mut records = Vec::new();
    way.near.read_to_end(&mut records).await.unwrap();
    // The way stays open.
    way.far.write_all(&records).await.unwrap();
    assert_eq!(read(&far, 64).await, b"last words");
    assert_eq!(read(&far, 64).await, b"");
    assert!(far.hung_up() && is_readable(&far));
    assert_eq!(read(&far, 64).await, b"", "the end does not stay");
}

#[tokio::test]
async fn a_broken_record_is_told_behind_the_good_ones() {
    let (near, mut way, far) = secured_by_hand().await;
    let mut record = vec![0; 64];
    near.write_all(b"good").await.unwrap();
    let len = way.near.read(&mut record).await.unwrap();
    let mut bad = record[..len].to_vec();
    bad[len - 1] ^= 1;
    way.far.write_all(&[&record[..len], &bad].concat()).await.unwrap();
    assert_eq!(read(&far, 64).await, b"good");
    assert!(is_readable(&far));
    for _ in 0..2 {
        let error = far.try_read(&mut [0; 64]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().starts_with("TLS failed: "), "{error}");
    }
    assert_eq!(far.try_write(b"x").unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn what_was_read_before_tls_is_taken_as_its_beginning() {
    for len in [1, 5, 100] {
        let (near, far) = unix();
        let accept = async {
            let mut hello = vec![0; len];
            let read = far.read_some(&mut hello).await.unwrap();
            far.accept_tls(server(), &hello[..read]).await
        };
        let (near, far) = tokio::join!(near.connect_tls(client(), name()), accept);
        near.unwrap().write_all(b"select 1").await.unwrap();
        assert_eq!(read(&far.unwrap(), 64).await, b"select 1");
    }
}

#[tokio::test]
async fn what_was_injected_before_tls_never_counts() {
    let (near, far) = unix();
    let injected = b"\x09\x00\x00\x00\x03drop all";
    let (near, far) =
        tokio::join!(near.connect_tls(client(), name()), far.accept_tls(server(), injected));
    let error = far.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("what the peer sends is not TLS"), "{error}");
    near.unwrap_err();
}

#[tokio::test]
async fn a_peer_that_leaves_in_the_handshake_is_an_error() {
    let (near, far) = unix();
    drop(near);
    let error = far.accept_tls(server(), &[]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn tls_says_what_was_agreed_on() {
    let (near, far) = secured(tcp().await).await;
    for stream in [&near, &far] {
        assert!(stream.is_secure() && stream.is_tls());
        let facts = stream.tls_facts().unwrap();
        assert_eq!(facts.version, "TLSv1.3");
        assert!(facts.cipher.starts_with("TLS_AES_"), "{facts:?}");
    }
    let (of_near, of_far) = (near.tls_facts().unwrap(), far.tls_facts().unwrap());
    assert_eq!((of_near.server_name, of_near.has_certificate), (None, true));
    assert_eq!(of_far.server_name.as_deref(), Some("db.example"));
    assert!(!of_far.has_certificate);
    let error = far.accept_tls(server(), &[]).await.unwrap_err();
    assert!(error.to_string().contains("inside TLS"), "{error}");
}
