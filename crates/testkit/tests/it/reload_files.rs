//! Files that options name are read again when they change.

use std::path::{Path, PathBuf};

use backend::Address;
use backend::tls::{ForBackends, Mode};
use testkit::client::{Client, Problem};
use testkit::scene::wait_for;

use crate::reload::{Scene, code, user, write_identity};

/// A client that trusts the certificates of this file.
fn trusting(scene: &Scene, ca: &Path) -> Result<Client, Problem> {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let tls =
        ForBackends { mode: Mode::VerifyCa, ca: Some(ca.to_owned()), ..ForBackends::default() };
    Client::builder(address, "app", "app's").tls_with(&tls).connect()
}

fn read_again(scene: &Scene, changes: &str) -> bool {
    scene.flifo.log().lines().any(|line| {
        line.contains("files that the configuration names were read again")
            && line.contains(changes)
    })
}

fn refusals(scene: &Scene) -> usize {
    scene.flifo.log().matches("are not taken; they are tried again").count()
}

#[test]
fn a_certificate_is_renewed_when_it_fits_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key, second, second_key] =
        ["cert.pem", "key.pem", "second.pem", "second-key.pem"].map(|it| folder.path().join(it));
    write_identity(&certificate, &key);
    write_identity(&second, &second_key);
    let tls = format!("[tls]\ncert = {certificate:?}\nkey = {key:?}\n");
    let scene = Scene::start("", &format!("{tls}{}", user("app", "")));
    let mut before = trusting(&scene, &certificate).expect("the first certificate");
    let first = folder.path().join("first.pem");
    std::fs::copy(&certificate, &first).unwrap();

    // One half of a pair: it is told of once, however long it stays so.
    std::fs::copy(&second, &certificate).unwrap();
    wait_for("it to be told of", || refusals(&scene) == 1);
    trusting(&scene, &first).expect("what was in force is");
    said_set(&scene);
    std::fs::copy(&second_key, &key).unwrap();
    wait_for("the pair to be taken", || read_again(&scene, "tls.cert, tls.key"));
    trusting(&scene, &second).expect("the second certificate");
    assert!(trusting(&scene, &first).is_err(), "the first one is not shown any more");
    before.query("SELECT 1").expect("its connection goes on");
    assert_eq!(refusals(&scene), 1);

    // By links, as Kubernetes has it: nothing happens to the names themselves.
    let link = |to: &str| {
        let (new, link) = (folder.path().join("new-link"), folder.path().join("data"));
        std::os::unix::fs::symlink(to, &new).unwrap();
        std::fs::rename(&new, &link).unwrap();
    };
    for name in ["one", "two"] {
        let inner = folder.path().join(name);
        std::fs::create_dir(&inner).unwrap();
        write_identity(&inner.join("cert.pem"), &inner.join("key.pem"));
    }
    link("one");
    for (path, name) in [(&certificate, "cert.pem"), (&key, "key.pem")] {
        std::fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(PathBuf::from("data").join(name), path).unwrap();
    }
    let one = folder.path().join("one/cert.pem");
    wait_for("the linked certificate", || trusting(&scene, &one).is_ok());
    link("two");
    let two = folder.path().join("two/cert.pem");
    wait_for("the certificate that is linked to now", || trusting(&scene, &two).is_ok());
    scene.end();
}

/// A value that is set on the console stays while files are read again.
fn said_set(scene: &Scene) {
    let refused = scene.console().query("SET limits.wait = 7s").unwrap_err().to_string();
    assert!(refused.contains("nothing has changed") && refused.contains("tls."), "{refused}");
}

#[test]
fn a_password_in_a_file_is_read_again_unless_that_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "app's\n").unwrap();
    let named = format!("[[users]]\nname = \"app\"\npassword_file = {file:?}\n");
    let scene = Scene::start("watch_files = \"off\"", &named);
    let client = |password: &str| {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
        Client::builder(address, "app", password).connect()
    };
    client("app's").expect("the first password");
    scene.server.sql("ALTER USER app@'%' IDENTIFIED BY 'new'").unwrap();
    std::fs::write(&file, "new").unwrap();
    assert_eq!(code(&client("new").err().unwrap()), Some(1045), "it is not read again by itself");
    scene.console().query("SET clients_max = 77").unwrap();
    // Which reads all files, since the password must be known by which it is set in force.
    client("new").expect("the new password");
    scene.console().query("SET watch_files = on").unwrap();
    scene.server.sql("ALTER USER app@'%' IDENTIFIED BY 'newer'").unwrap();
    std::fs::write(&file, "newer").unwrap();
    wait_for("the newer password", || client("newer").is_ok());
    wait_for("the log", || read_again(&scene, "users.app.password"));
    assert_eq!(scene.shown("clients_max").unwrap()[1..], ["77", "10000", "console"]);
    // A file that is gone changes nothing.
    std::fs::remove_file(&file).unwrap();
    wait_for("it to be told of", || refusals(&scene) == 1);
    client("newer").expect("the password of before");
    scene.end();
}
