//! Plain sockets of both kinds: nothing is lost, nothing is asked twice. TLS has a file of its own.

mod tls;

use std::pin::pin;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;

/// Long enough for a loaded machine; a test that passes does not wait for it.
const PATIENCE: Duration = Duration::from_secs(10);

async fn tcp() -> (Stream, Stream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near.into(), far.into())
}

fn unix() -> (Stream, Stream) {
    let (near, far) = UnixStream::pair().unwrap();
    (near.try_into().unwrap(), far.try_into().unwrap())
}

async fn both() -> [(Stream, Stream); 2] {
    [tcp().await, unix()]
}

/// Lets the event loop look for news until `done`.
async fn until(mut done: impl FnMut() -> bool) {
    let looking = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("what was waited for did not happen");
}

async fn read(stream: &Stream, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    let read = timeout(PATIENCE, stream.read_some(&mut buffer)).await.expect("no wake-up").unwrap();
    buffer.truncate(read);
    buffer
}

/// Polls once, with a waker that is never heard.
fn is_readable(stream: &Stream) -> bool {
    let readable = pin!(tokio::task::coop::unconstrained(stream.readable()));
    readable.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn would_block<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn a_message_costs_one_read() {
    for (near, far) in both().await {
        let echo = async {
            for _ in 0..100 {
                let message = read(&far, 64).await;
                far.write_all(&message).await.unwrap();
            }
        };
        let ask = async {
            for _ in 0..100 {
                near.write_all(b"select 1").await.unwrap();
                assert_eq!(read(&near, 64).await, b"select 1");
            }
        };
        tokio::join!(echo, ask);
        // The runtime believes of a socket just accepted that it can be read, which may cost one
        // read more.
        assert!((100..=101).contains(&far.socket.reads.get()), "{}", far.socket.reads.get());
        assert_eq!(near.socket.reads.get(), 100);
    }
}

#[tokio::test]
async fn a_buffer_that_is_filled_is_followed_by_the_rest() {
    for (near, far) in both().await {
        far.write_all(b"0123456789").await.unwrap();
        assert_eq!(read(&near, 4).await, b"0123");
        assert!(is_readable(&near));
        assert_eq!(read(&near, 4).await, b"4567");
        assert_eq!(read(&near, 4).await, b"89");
        assert!(!is_readable(&near));
        assert!(would_block(&near.try_read(&mut [0; 4])));
        assert_eq!(near.socket.reads.get(), 3);
    }
}

#[tokio::test]
async fn the_end_is_seen_behind_a_short_read() {
    for (near, far) in both().await {
        // The peer closes before the bytes are read and the event loop may know it.
        far.write_all(b"bye").await.unwrap();
        drop(far);
        assert_eq!(read(&near, 64).await, b"bye");
        assert_eq!(read(&near, 64).await, b"");
    }
    for (near, far) in both().await {
        // The peer closes behind the event loop's back, between its look and the read.
        far.write_all(b"bye").await.unwrap();
        near.readable().await.unwrap();
        drop(far);
        assert_eq!(near.try_read(&mut [0; 64]).unwrap(), 3);
        assert_eq!(read(&near, 64).await, b"");
    }
    for (near, far) in both().await {
        // The peer closes when all has been read.
        far.write_all(b"bye").await.unwrap();
        assert_eq!(read(&near, 64).await, b"bye");
        drop(far);
        assert_eq!(read(&near, 64).await, b"");
    }
}

#[tokio::test]
async fn what_is_set_aside_is_not_announced_and_not_lost() {
    for (near, far) in both().await {
        far.write_all(b"early bird").await.unwrap();
        near.readable().await.unwrap();
        near.clear_readable();
        assert!(!is_readable(&near));
        assert_eq!(near.socket.reads.get(), 0);
        // Something new is announced, and can be set aside too.
        far.write_all(b"s").await.unwrap();
        until(|| is_readable(&near)).await;
        near.clear_readable();
        assert!(!is_readable(&near));
        // What a read leaves is announced without an event.
        let mut buffer = [0; 5];
        assert_eq!(near.try_read(&mut buffer).unwrap(), 5);
        assert!(is_readable(&near));
        assert_eq!(read(&near, 64).await, b" birds");
        assert!(!is_readable(&near));
        far.write_all(b"next").await.unwrap();
        assert_eq!(read(&near, 64).await, b"next");
    }
}

#[tokio::test]
async fn what_is_set_aside_is_read_without_a_word_more() {
    for (near, far) in both().await {
        far.write_all(b"PROXY UNKNOWN").await.unwrap();
        near.readable().await.unwrap();
        near.clear_readable();
        assert_eq!(read(&near, 64).await, b"PROXY UNKNOWN");
    }
}

#[tokio::test]
async fn setting_aside_nothing_does_no_harm() {
    for (near, far) in both().await {
        near.clear_readable();
        assert!(would_block(&near.try_read(&mut [0; 8])));
        far.write_all(b"x").await.unwrap();
        assert_eq!(read(&near, 8).await, b"x");
    }
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_noticed_without_reading() {
    for (near, far) in both().await {
        assert!(!near.hung_up());
        far.write_all(b"last words").await.unwrap();
        near.readable().await.unwrap();
        assert!(!near.hung_up());
        near.clear_readable();
        drop(far);
        // The end wakes the task that has set the bytes aside.
        timeout(PATIENCE, near.readable()).await.expect("no wake-up").unwrap();
        assert!(near.hung_up());
        near.clear_readable();
        assert!(near.hung_up(), "it does not come back");
        assert_eq!(near.socket.reads.get(), 0);
        assert_eq!(read(&near, 64).await, b"last words");
        assert_eq!(read(&near, 64).await, b"");
    }
}

#[tokio::test]
async fn half_a_connection_can_still_answer() {
    for (near, far) in both().await {
        near.write_all(b"question").await.unwrap();
        near.shutdown();
        assert_eq!(read(&far, 64).await, b"question");
        assert_eq!(read(&far, 64).await, b"");
        far.write_all(b"answer").await.unwrap();
        assert_eq!(read(&near, 64).await, b"answer");
    }
}

#[tokio::test]
async fn a_peer_that_does_not_read_stops_the_writer() {
    for (near, far) in both().await {
        let chunk = [7; 16 << 10];
        let mut written = 0;
        loop {
            match near.try_write(&chunk) {
                Ok(taken) => written += taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let mut context = Context::from_waker(Waker::noop());
        assert!(near.poll_writable(&mut context).is_pending());
        let mut left = written;
        while left > 0 {
            left -= read(&far, 64 << 10).await.len();
        }
        timeout(PATIENCE, near.writable()).await.expect("no wake-up").unwrap();
        let slices = [IoSlice::new(b"go"), IoSlice::new(b" on")];
        assert_eq!(near.try_write_vectored(&slices).unwrap(), 5);
        assert_eq!(read(&far, 64).await, b"go on");
    }
}

/// Sends much in both directions at once; four tasks share the two ends.
async fn exchange_much(near: Stream, far: Stream) {
    let total = 8 << 20;
    let (near, far) = (Rc::new(near), Rc::new(far));
    let send = |stream: Rc<Stream>| async move {
        let bytes: Vec<u8> = (0..total).map(|at| (at % 251) as u8).collect();
        stream.write_all(&bytes).await.unwrap();
    };
    let receive = |stream: Rc<Stream>| async move {
        let mut at = 0;
        while at < total {
            let bytes = read(&stream, 48 << 10).await;
            assert!(!bytes.is_empty(), "ended at {at}");
            for byte in bytes {
                assert_eq!(byte, (at % 251) as u8, "at {at}");
                at += 1;
            }
        }
    };
    let tasks = tokio::task::LocalSet::new();
    for stream in [&near, &far] {
        tasks.spawn_local(send(Rc::clone(stream)));
        tasks.spawn_local(receive(Rc::clone(stream)));
    }
    timeout(PATIENCE * 6, tasks).await.expect("a wake-up was lost");
}

/// Does what an owner may do, in many orders, and sees that all bytes come and all are announced.
async fn act_at_random(near: &Stream, far: &Stream, seed: u32) {
    let mut state = seed;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let (mut sent, mut taken) = (0_usize, 0_usize);
    for step in 0..300 {
        match random(5) {
            0 | 1 if sent - taken < 50_000 => {
                let longest = if random(4) == 0 { 40_000 } else { 50 };
                let len = 1 + random(longest) as usize;
                let bytes: Vec<u8> = (sent..sent + len).map(|at| (at % 251) as u8).collect();
                far.write_all(&bytes).await.unwrap();
                sent += len;
            }
            2 => near.clear_readable(),
            3 => tokio::task::yield_now().await,
            _ => {
                let mut buffer = vec![0; 1 + random(20_000) as usize];
                // Once it has been read from, what is left must announce itself.
                let mut result = near.try_read(&mut buffer);
                if would_block(&result) && taken < sent {
                    result =
                        timeout(PATIENCE, near.read_some(&mut buffer)).await.unwrap_or_else(|_| {
                            panic!("no wake-up: seed {seed}, step {step}, {} left", sent - taken)
                        });
                }
                if !would_block(&result) {
                    for byte in &buffer[..result.unwrap()] {
                        assert_eq!(*byte, (taken % 251) as u8, "seed {seed}, step {step}");
                        taken += 1;
                    }
                }
            }
        }
    }
    while taken < sent {
        if let Ok(read) = near.try_read(&mut [0]) {
            taken += read;
        }
        taken += if taken < sent { read(near, 20_000).await.len() } else { 0 };
    }
    assert!(would_block(&near.try_read(&mut [0; 8])));
}

#[tokio::test]
async fn nothing_is_lost_in_any_order() {
    for (near, far) in both().await {
        for seed in 0..100 {
            act_at_random(&near, &far, seed).await;
        }
    }
}

#[tokio::test]
async fn two_tasks_share_a_stream() {
    for (near, far) in both().await {
        exchange_much(near, far).await;
    }
}

#[tokio::test]
async fn a_peer_is_described() {
    let (near, far) = tcp().await;
    let (peer, own) = near.addresses().unwrap();
    assert_eq!(far.addresses(), Some((own, peer)));
    assert_eq!(near.peer().to_string(), peer.to_string());
    assert!(!near.is_secure() && !near.is_tls() && near.tls_facts().is_none());
    let (near, _far) = unix();
    let id = std::process::id();
    assert!(near.peer().to_string().starts_with(&format!("process {id} of user id ")));
    assert!(near.is_secure() && !near.is_tls());
}
