//! Events are the same in whatever pieces they come; what a transaction holds has a bound; nothing that a server sends
//! makes a reader panic.

use wire::binlog::{Checksum, EventHeader, Groups, HEADER, Intake, KEPT_MAX, Packet};

/// The first byte tells the checksum that was agreed on and the length of pieces; events follow, one behind the other.
pub fn run(data: &[u8]) {
    let Some((&how, mut rest)) = data.split_first() else { return };
    let checksum = if how & 1 == 0 { Checksum::None } else { Checksum::Crc32 };
    let piece = usize::from(how >> 1) + 1;
    let (mut whole, mut pieces) = (Intake::new(checksum), Intake::new(checksum));
    let (mut groups, mut bytes) = (Groups::default(), 0);
    while !rest.is_empty() {
        // Without a length that makes sense, what is left is one event.
        let len = EventHeader::decode(rest).map_or(rest.len(), |header| header.len as usize);
        let (event, after) = rest.split_at(len.clamp(1, rest.len()));
        rest = after;
        let packet = [&[0], event].concat();
        bytes += packet.len();
        whole.take(&packet);
        packet.chunks(piece).for_each(|piece| pieces.take(piece));
        let got = whole.end();
        assert_eq!(got, pieces.end());
        if let Ok(Packet::Event(header, event)) = got {
            assert_eq!(header.len as usize, packet.len() - 1);
            assert!(packet.len() > HEADER);
            // A compressed statement is the only thing that is longer than it was.
            let group = groups.take(&header, event);
            let tables = group.iter().flat_map(|group| &group.tables);
            let named: usize = tables.clone().map(|it| it.schema.len() + it.name.len()).sum();
            assert!(named <= bytes && tables.count() <= 1024);
            let texts = group.iter().flat_map(|group| &group.texts);
            assert!(texts.map(|it| it.text.len()).sum::<usize>() <= KEPT_MAX);
        }
        assert!(whole.held() <= 2 * KEPT_MAX);
    }
}
