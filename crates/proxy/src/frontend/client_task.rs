//! A client's task: waits for its socket and does what comes. What becomes of its bytes is
//! [`crate::road::client_input`]'s.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::frontend::change_user;
use crate::frontend::visits;
use crate::road::admit;
use crate::road::client_input;
#[cfg(debug_assertions)]
use crate::road::invariants;
use crate::state::client::{Client, Event};
use crate::state::client_state::ClientState;
use crate::state::worker::Worker;
use crate::worker::steps::step;
use crate::worker::tasks;
use crate::worker::wreckage::{PanicNote, Wreck};

/// A client that is counted among those of the process, and of its worker, until this is dropped.
pub(super) struct ClientPlace(Rc<Worker>);

impl ClientPlace {
    /// The process has counted it already.
    pub(super) fn counted(worker: &Rc<Worker>) -> Self {
        worker.shared.add_load(worker.index);
        Self(Rc::clone(worker))
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.0.shared.drop_load(self.0.index);
        self.0.shared.clients.fetch_sub(1, Relaxed);
    }
}

/// How long the statement of a client that sends nothing more may go on: most of such clients are gone.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// Ends a client in a while, unless it is still being written to: what becomes of that, its socket tells.
fn end_later(client: &Rc<Client>) {
    let client = Rc::downgrade(client);
    tasks::contained(async move {
        tokio::time::sleep(HALF_CLOSED).await;
        if let Some(client) = client.upgrade().filter(|client| !client.is_draining()) {
            client.close();
        }
    });
}

/// Serves a client until it goes.
pub(crate) async fn serve(worker: Rc<Worker>, client: Rc<Client>) {
    let about = PanicNote::new(Wreck::ClientTask(client.id));
    loop {
        let event = poll_fn(|context| client.poll_event(context)).await;
        step!("wait");
        crate::worker::iterations::see_ready();
        match event {
            Event::Read => client_input::read(&worker, &client),
            Event::Resume => {
                client.input.unseen.set(false);
                let mut bytes = client.input.take_more();
                client_input::handle(&worker, &client, &mut bytes);
            }
            Event::Drained => {
                if client.state() == ClientState::Writing && !client.is_closing() {
                    client.await_command();
                }
                if let Some(backend) = client.backend() {
                    admit::come_back(&worker, &client, &backend);
                    backend.wake();
                }
            }
            Event::ChangeUser(payload) => {
                // Boxed, and not built into this loop, as logins are.
                let change: Pin<Box<dyn Future<Output = ()>>> =
                    Box::pin(change_user::run(&worker, &client, &payload));
                change.await;
            }
            Event::Visit(cluster) => {
                let visit: Pin<Box<dyn Future<Output = ()>>> =
                    Box::pin(visits::run(&worker, &client, cluster));
                visit.await;
            }
            Event::HalfClosed => end_later(&client),
            Event::End => break,
            Event::Departed => {
                admit::work_off(&worker);
                return about.forget();
            }
        }
        admit::work_off(&worker);
        #[cfg(debug_assertions)]
        invariants::assert_client(&worker, &client);
    }
    client_input::end(&worker, &client);
    admit::work_off(&worker);
    about.forget();
}
