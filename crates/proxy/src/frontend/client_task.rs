//! A client's task: waits for its socket and does what comes. What becomes of its bytes is
//! [`crate::dispatch::client_input`]'s.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;

use crate::dispatch::admit;
use crate::dispatch::client::{Client, Event};
use crate::dispatch::client_input;
use crate::dispatch::states::ClientState;
use crate::dispatch::worker::Worker;
use crate::frontend::change_user;
use crate::frontend::visits;

/// Serves a client until it goes.
pub(crate) async fn serve(worker: Rc<Worker>, client: Rc<Client>) {
    loop {
        let event = poll_fn(|context| client.poll_event(context)).await;
        crate::worker::turns::see_ready();
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
            Event::End => break,
            Event::Departed => return admit::work_off(&worker),
        }
        admit::work_off(&worker);
    }
    client_input::end(&worker, &client);
    admit::work_off(&worker);
}
