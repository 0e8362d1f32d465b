//! Commands are what their bytes say, and what is changed in one changes nothing else.

use wire::Capabilities;
use wire::command::{Opcode, query_text_at};
use wire::statement::{Execute, ID_AT, asks_for_cursor, id, put_close, set_id};

/// The first byte is a number of parameters; the rest is a command's payload.
pub fn run(data: &[u8]) {
    let Some((&parameters, payload)) = data.split_first() else { return };
    let Some(&first) = payload.first() else { return };
    if let Some(command) = Opcode::decode(first) {
        assert_eq!(command as u8, first);
    }
    for capabilities in [Capabilities::NONE, Capabilities::QUERY_ATTRIBUTES] {
        if let Some(at) = query_text_at(payload, capabilities) {
            assert!(1 <= at && at <= payload.len());
        }
    }
    ids(payload);
    for parameters in [0, 1, u16::from(parameters), u16::MAX] {
        execute(payload, parameters);
    }
}

fn ids(payload: &[u8]) {
    const OTHER: u32 = 0x1234_5678;
    let mut changed = payload.to_vec();
    set_id(&mut changed, OTHER);
    match id(payload) {
        Some(number) => {
            assert_eq!(id(&changed), Some(OTHER));
            assert_eq!(asks_for_cursor(&changed), asks_for_cursor(payload));
            set_id(&mut changed, number);
            let mut close = Vec::new();
            put_close(number, &mut close);
            assert_eq!(id(&close), Some(number));
        }
        None => assert!(payload.len() < ID_AT + 4),
    }
    assert_eq!(changed, payload);
}

fn execute(payload: &[u8], parameters: u16) {
    let Ok(read) = Execute::decode(payload, parameters) else { return };
    // In bulk, the flags that tell of types are there without any parameter.
    let is_bulk = payload.first() == Some(&(Opcode::StmtBulkExecute as u8));
    assert_eq!(read.types_at.is_some(), is_bulk || parameters > 0);
    let types = vec![0xfd; usize::from(parameters) * 2];
    let mut full = Vec::new();
    read.put_with_types(payload, &types, &mut full);
    if read.types.is_some() || read.types_at.is_none() {
        assert_eq!(full, payload);
        return;
    }
    let again = Execute::decode(&full, parameters).expect("types were put in");
    assert_eq!((again.types, again.types_at), (Some(&types[..]), read.types_at));
    assert_eq!(full.len(), payload.len() + types.len());
    assert!(full.ends_with(&payload[read.head..]), "the values stay");
}
