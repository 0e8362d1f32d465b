//! What MariaDB 10.11, its client and PyMySQL say, against what is computed here.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

fn nonce() -> Nonce {
    Nonce::from_random(*b"a nonce of 20 bytes!")
}

/// As MariaDB's `PASSWORD()` and `ed25519_password()` have it.
const PASSWORDS: [(&str, &str, &str); 3] = [
    (
        "x",
        "*B69027D44F6E5EDC07F1AEAD1477967B16F28227",
        "Gv2JI8Env2fd5YGonZ082tX3UAW+yJYldOlj4R1bfK4",
    ),
    (
        "secret",
        "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7",
        "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY",
    ),
    (
        "pässwörd",
        "*0225EC5004ABB0B8CB557541FE53DE1A5D8CC825",
        "3AcJUN7vR2AnAzs/McwNtGs2GDbHzL5YqZoIOPw62V0",
    ),
];

#[test]
fn passwords_are_stored_as_mariadb_stores_them() {
    for (password, native, ed25519) in PASSWORDS {
        let stored = native::NativeStage1::of(password.as_bytes()).stored();
        assert_eq!(stored.reveal(), native);
        assert_eq!(native::NativeStored::parse(native.as_bytes()), Ok(stored));
        let public = ed25519::SigningKey::of(password.as_bytes()).public();
        assert_eq!(public.text(), ed25519);
        assert_eq!(ed25519::PublicKey::parse(ed25519.as_bytes()), Ok(public));
    }
}

#[test]
fn answers_are_those_that_a_mariadb_has_taken() {
    let nonce = hex("36715949414b376c3e2f6f64293c312151553857");
    let nonce = Nonce::from_server(&Plugin::NativePassword, &nonce).unwrap();
    let answer = Plugin::NativePassword.respond(&"secret".into(), &nonce).unwrap();
    assert_eq!(answer, hex("c1df57e8095be29ac87a87f5d34d401c2da95a55"));

    let nonce = hex("899702d3930095a21911f4d45742107182f8982c20d490b5d4af9514457b4b2c");
    let nonce = Nonce::from_server(&Plugin::Ed25519, &nonce).unwrap();
    let answer = Plugin::Ed25519.respond(&"secret".into(), &nonce).unwrap();
    let signature = "d1fc4523c4fac3fc85b7c73b2e84688ca1e85b232a1a2abe7634bb500f0ca28d\
                     52b0cc0e2aa662c730e36f0f6bd6f6dc9a565831997c7d1b493047e4d6110005";
    assert_eq!(answer, hex(signature));
}

#[test]
fn answers_are_those_of_pymysql() {
    let answer = |plugin: Plugin| plugin.respond(&"secret".into(), &nonce()).unwrap();
    let native = hex("fd687361f2aadb2a9520cb9e45b5d37ec8ccf8d6");
    assert_eq!(answer(Plugin::NativePassword), native);
    let sha2 = hex("2ab253a22fca0413e0ea843c1ea659f187dcc40a6d7880f6856578ba834fac59");
    assert_eq!(answer(Plugin::CachingSha2), sha2);
}

#[test]
fn a_good_answer_shows_what_to_log_in_with() {
    let other = Nonce::from_random(*b"the server's own one");
    let stage1 = native::NativeStage1::of(b"secret");
    let learnt = stage1.stored().check(&nonce(), &stage1.respond(&nonce())).unwrap();
    assert_eq!(learnt, stage1);
    assert_eq!(learnt.respond(&other), stage1.respond(&other));
    let stage1 = caching_sha2::Sha2Stage1::of(b"secret");
    let learnt = stage1.stored().check(&nonce(), &stage1.respond(&nonce())).unwrap();
    assert_eq!(learnt, stage1);
    assert_eq!(learnt.respond(&other), stage1.respond(&other));
}

#[test]
fn wrong_answers_are_wrong() {
    let other = Nonce::from_random(*b"the server's own one");
    let native = native::NativeStage1::of(b"secret");
    let sha2 = caching_sha2::Sha2Stage1::of(b"secret");
    let key = ed25519::SigningKey::of(b"secret");
    let native_ok = |answer: &[u8]| native.stored().check(&nonce(), answer).is_some();
    let sha2_ok = |answer: &[u8]| sha2.stored().check(&nonce(), answer).is_some();
    let ed25519_ok = |answer: &[u8]| key.public().check(&nonce(), answer);

    type Check<'a> = &'a dyn Fn(&[u8]) -> bool;
    let checks: [(Check<'_>, &[u8]); 3] = [
        (&native_ok, &native.respond(&nonce())),
        (&sha2_ok, &sha2.respond(&nonce())),
        (&ed25519_ok, &key.sign(&nonce())),
    ];
    for (check, good) in checks {
        assert!(check(good));
        for at in 0..good.len() * 8 {
            let mut changed = good.to_vec();
            changed[at / 8] ^= 1 << (at % 8);
            assert!(!check(&changed), "bit {at} of {}", good.len());
        }
        for len in 0..good.len() {
            assert!(!check(&good[..len]), "{len}");
        }
        assert!(!check(&[good, &[0]].concat()));
        assert!(!check(&[0xff; 300]));
    }
    assert!(!native_ok(&native.respond(&other)));
    assert!(!native_ok(&native::NativeStage1::of(b"Secret").respond(&nonce())));
    assert!(!sha2_ok(&sha2.respond(&other)));
    assert!(!sha2_ok(&caching_sha2::Sha2Stage1::of(b"Secret").respond(&nonce())));
    assert!(!ed25519_ok(&key.sign(&other)));
    assert!(!ed25519_ok(&ed25519::SigningKey::of(b"Secret").sign(&nonce())));
}

#[test]
fn a_signature_has_one_form() {
    // A response with the group's order added says the same: it must be refused as a forgery of
    // form.
    let key = ed25519::SigningKey::of(b"secret");
    let mut signature = key.sign(&nonce());
    let order = hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut carry = 0;
    for (byte, added) in signature[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(added) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    assert_eq!(carry, 0);
    assert!(!key.public().check(&nonce(), &signature));
}

#[test]
fn the_empty_password_says_nothing_where_servers_expect_nothing() {
    let answer = |plugin: Plugin| plugin.respond(&Secret::default(), &nonce());
    assert_eq!(answer(Plugin::NativePassword), Some(vec![]));
    assert_eq!(answer(Plugin::CachingSha2), Some(vec![]));
    assert_eq!(answer(Plugin::ClearPassword), Some(vec![0]));
    assert_eq!(answer(Plugin::Ed25519).unwrap().len(), ed25519::SIGNATURE_LEN);
    assert_eq!(answer(Plugin::from_name(b"parsec")), None);
}

#[test]
fn plugins_have_their_names() {
    for name in
        ["mysql_native_password", "caching_sha2_password", "client_ed25519", "mysql_clear_password"]
    {
        let plugin = Plugin::from_name(name.as_bytes());
        assert!(!matches!(plugin, Plugin::Other(_)), "{name}");
        assert_eq!(plugin.name(), name.as_bytes());
        assert_eq!(plugin.to_string(), name);
    }
    let parsec = Plugin::from_name(b"parsec\n");
    assert_eq!(parsec.name(), b"parsec\n");
    assert_eq!(parsec.to_string(), "parsec\\n");
}

#[test]
fn a_nonce_of_a_greeting_is_fit_for_text() {
    for random in 0..=255 {
        let nonce = Nonce::from_random([random; 20]);
        assert_eq!(nonce.as_bytes().len(), 20);
        assert!(nonce.as_bytes().iter().all(|byte| !matches!(byte, 0 | b'$' | 0x80..)));
    }
    let nonce = Nonce::from_random(std::array::from_fn(|at| at as u8 + 0x40));
    assert_eq!(nonce.as_bytes(), b"@ABCDEFGHIJKLMNOPQRS");
}

#[test]
fn a_nonce_is_taken_with_and_without_its_zero_byte() {
    let data = [&[7; 20][..], &[0]].concat();
    for plugin in [Plugin::NativePassword, Plugin::CachingSha2, Plugin::ClearPassword] {
        assert_eq!(Nonce::from_server(&plugin, &data).unwrap().as_bytes(), [7; 20]);
        assert_eq!(Nonce::from_server(&plugin, &data[..20]).unwrap().as_bytes(), [7; 20]);
        for len in (0..20).chain(22..40) {
            assert!(Nonce::from_server(&plugin, &vec![0; len]).is_err(), "{len}");
        }
    }
    // A zero byte of the nonce itself stays.
    for data in [&[0; 32][..], &[0; 33]] {
        assert_eq!(Nonce::from_server(&Plugin::Ed25519, data).unwrap().as_bytes(), [0; 32]);
    }
    for len in (0..32).chain(34..40) {
        assert!(Nonce::from_server(&Plugin::Ed25519, &vec![0; len]).is_err(), "{len}");
    }
    let nonce = Nonce::from_random_for_ed25519([0; 32]);
    assert_eq!(nonce.as_bytes(), [0; 32]);
}

#[test]
fn texts_that_are_no_hashes_are_refused() {
    let (_, native, ed25519) = PASSWORDS[1];
    for text in [
        "",
        "secret",
        &native[1..],
        &native[..40],
        &format!("{native}0"),
        &native.replace('E', "G"),
        "*+4E65567ABDB5135D0CFD9A70B3032C179A49EE7",
        ed25519,
    ] {
        assert!(native::NativeStored::parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(native::NativeStored::parse(native.to_lowercase().as_bytes()).is_ok());
    for text in ["", "secret", &ed25519[1..], &format!("{ed25519}="), &ed25519.replace('+', "-")] {
        assert!(ed25519::PublicKey::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_public_key_that_is_no_point_checks_nothing() {
    // The curve has no point with this y.
    let key = ed25519::PublicKey::parse(b"AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap();
    assert!(!key.check(&nonce(), &[0; 64]));
}

#[test]
fn an_obfuscated_password_comes_back() {
    for password in ["", "secret", "longer than the nonce is, by a good deal"] {
        let hidden = caching_sha2::obfuscate(password.as_bytes(), &nonce());
        assert_eq!(hidden.as_bytes().len(), password.len() + 1);
        assert_eq!(caching_sha2::reveal(&hidden, &nonce()), Some(password.into()));
    }
    let clear = |bytes: &[u8]| caching_sha2::clear(&bytes.into());
    assert_eq!(clear(b"secret\0"), Some("secret".into()));
    for bad in [&b""[..], b"secret", b"sec\0ret\0", b"secret\0\0"] {
        assert_eq!(clear(bad), None);
    }
    let longest = [&[b'x'; caching_sha2::PASSWORD_MAX][..], &[0]].concat();
    assert!(clear(&longest).is_some());
    assert_eq!(clear(&[b"x", &longest[..]].concat()), None);
}

#[test]
fn secrets_do_not_show() {
    let stage1 = native::NativeStage1::of(b"secret");
    let shown = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        Secret::from("secret"),
        stage1,
        stage1.stored(),
        caching_sha2::Sha2Stage1::of(b"secret"),
        ed25519::SigningKey::of(b"secret"),
        nonce(),
    );
    assert_eq!(
        shown,
        "Secret NativeStage1(SecretHash) NativeStored(SecretHash) Sha2Stage1(SecretHash) \
         SigningKey(SecretHash) Nonce(20 bytes)"
    );
}
