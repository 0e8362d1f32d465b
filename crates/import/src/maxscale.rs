//! What MaxScale's sections mean.

mod filters;
mod members;
mod services;
mod settings;

use std::sync::Arc;

use crate::ini::{IniEntry, IniSection};
use crate::report::Place;
use crate::work::{Item, Work};

use self::members::Members;

/// Converts all sections.
pub(crate) fn convert(file: &Arc<str>, sections: &[IniSection], work: &mut Work) {
    let reader = Reader { file, sections };
    for section in sections.iter().filter(|it| reader.kind(it) == Some(SectionKind::Global)) {
        settings::convert(&reader, section, settings::GLOBAL, work);
    }
    let members = Members::of(&reader);
    members.tell(&reader, work);
    services::convert(&reader, &members, work);
    for section in sections.iter().filter(|it| reader.kind(it).is_none()) {
        let kind = section.get("type").unwrap_or("none");
        work.lost(&reader.whole(section), &format!("a section of type {kind} is not known"));
    }
}

/// What a section is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SectionKind {
    Global,
    Server,
    Monitor,
    Service,
    Listener,
    Filter,
}

/// The sections of a file.
struct Reader<'a> {
    file: &'a Arc<str>,
    sections: &'a [IniSection],
}

impl<'a> Reader<'a> {
    fn kind(&self, section: &IniSection) -> Option<SectionKind> {
        match section.get("type").map(str::to_ascii_lowercase).as_deref() {
            Some("server") => Some(SectionKind::Server),
            Some("monitor") => Some(SectionKind::Monitor),
            Some("service") => Some(SectionKind::Service),
            Some("listener") => Some(SectionKind::Listener),
            Some("filter") => Some(SectionKind::Filter),
            None if ["maxscale", "gateway"]
                .iter()
                .any(|it| section.name.eq_ignore_ascii_case(it)) =>
            {
                Some(SectionKind::Global)
            }
            _ => None,
        }
    }

    fn all(&self, kind: SectionKind) -> impl Iterator<Item = &'a IniSection> + use<'a, '_> {
        self.sections.iter().filter(move |section| self.kind(section) == Some(kind))
    }

    fn whole(&self, section: &IniSection) -> Item {
        Item { place: self.place(section.line), what: format!("[{}]", section.name) }
    }

    fn item(&self, section: &IniSection, entry: &IniEntry) -> Item {
        let is_secret = ["password", "passwd", "monitorpw"].contains(&&*entry.key);
        let value = if is_secret { "(not shown)" } else { &entry.value };
        Item {
            place: self.place(entry.line),
            what: format!("[{}] {} = {value}", section.name, entry.key),
        }
    }

    fn place(&self, line: u32) -> Place {
        Place::new(Arc::clone(self.file), line)
    }
}

/// A user's password of a section; an error: it is encrypted.
fn password(section: &IniSection) -> Option<Result<&str, ()>> {
    let password = section.get("password").or_else(|| section.get("passwd"))?;
    let is_encrypted =
        ENCRYPTED_MIN <= password.len() && password.bytes().all(|it| it.is_ascii_hexdigit());
    Some(if is_encrypted { Err(()) } else { Ok(password) })
}

/// `maxpasswd` writes as many digits at least.
const ENCRYPTED_MIN: usize = 32;

fn is_true(value: &str) -> bool {
    ["true", "on", "yes", "1", "required"].iter().any(|it| value.eq_ignore_ascii_case(it))
}
